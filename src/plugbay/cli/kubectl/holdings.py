"""The containers that hold devices, from the node's answer about devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from plugbay.cli.printing.table import NONE
from plugbay.documents import Json
from plugbay.printers import v1

Healths: TypeAlias = Mapping[tuple[str, str], str]
"""The health of devices, by resource and device ID."""


def pod_holdings(devices: Json, uid: str) -> Json:
    """The devices that the containers of a pod were given; empty for a pod that holds none."""
    found = (pod for pod in v1.objects(devices, "pods") if v1.text(pod, "uid") == uid)
    return next(found, {})


def container_holdings(pod: Json, container: str) -> Json:
    found = (each for each in v1.objects(pod, "containers") if v1.text(each, "name") == container)
    return next(found, {})


def device_healths(devices: Json) -> Healths:
    return {
        (v1.text(resource, "resourceName"), v1.text(device, "id")): health_text(device)
        for resource in v1.objects(devices, "resources")
        for device in v1.objects(resource, "devices")
    }


def health_text(device: Json) -> str:
    """``Healthy``, ``Unhealthy: XidError``, and while the plugin is away ``Unknown, was Healthy``."""
    health, last, reason = (v1.text(device, key) for key in ("health", "lastHealth", "reason"))
    shown = f"{health}, was {last}" if last else health
    return f"{shown}: {reason}" if reason else shown


def holder_text(holder: object) -> str:
    """``namespace/pod/container`` of a device's holder; for a pod that does not exist any more, its UID."""
    keys = ("namespace", "pod", "container") if v1.text(holder, "pod") else ("uid", "container")
    return "/".join(filter(None, (v1.text(holder, key) for key in keys))) or NONE
