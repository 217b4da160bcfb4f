"""Who holds which devices, from the node's answer about devices: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from plugbay.cli import v1
from plugbay.cli.table import NONE

Healths: TypeAlias = Mapping[tuple[str, str], str]
"""How devices are, by resource and device ID."""


def pod_holdings(devices: v1.Json, uid: str) -> v1.Json:
    """What the containers of a pod were given; empty for a pod that holds nothing."""
    found = (pod for pod in v1.objects(devices, "pods") if v1.text(pod, "uid") == uid)
    return next(found, {})


def container_holdings(pod: v1.Json, container: str) -> v1.Json:
    found = (each for each in v1.objects(pod, "containers") if v1.text(each, "name") == container)
    return next(found, {})


def device_healths(devices: v1.Json) -> Healths:
    return {
        (v1.text(resource, "resourceName"), v1.text(device, "id")): health_text(device)
        for resource in v1.objects(devices, "resources")
        for device in v1.objects(resource, "devices")
    }


def health_text(device: v1.Json) -> str:
    """``Healthy``, ``Unhealthy: XidError``, and while the plugin is away ``Unknown, was Healthy``."""
    health, last, reason = (v1.text(device, key) for key in ("health", "lastHealth", "reason"))
    shown = f"{health}, was {last}" if last else health
    return f"{shown}: {reason}" if reason else shown


def holder_text(holder: object) -> str:
    """``namespace/pod/container`` of a device's holder; of a pod that is no more, the UID is all that is left."""
    keys = ("namespace", "pod", "container") if v1.text(holder, "pod") else ("uid", "container")
    return "/".join(filter(None, (v1.text(holder, key) for key in keys))) or NONE
