"""The page of a node that ``plugbay node describe`` shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

from plugbay.cli.kubectl.describing import describe_events, moment_text, pairs_text
from plugbay.cli.kubectl.holdings import health_text, holder_text
from plugbay.cli.printing.table import NONE, Description
from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.ages import age
from plugbay.printers.tables import is_unschedulable

RELEASING: Final = "<releasing>"
"""Shown in place of a holder: the device's plugin has yet to confirm that the device is clean."""
_SYSTEM = {
    "Kernel Version": "kernelVersion",
    "OS Image": "osImage",
    "Operating System": "operatingSystem",
    "Architecture": "architecture",
    "Container Runtime Version": "containerRuntimeVersion",
    "Kubelet Version": "kubeletVersion",
}


def node_description(node: Json, *, devices: Json, events: Iterable[Json], now: datetime, zone: tzinfo | None) -> str:
    """Everything about ``node``; ``devices`` is its answer about devices, ``zone`` of the times shown."""
    page = Description()
    page.field("Name", v1.name(node))
    page.field("Labels", pairs_text(v1.mapping(node, "metadata", "labels"), separator="="))
    created = v1.moment(node, "metadata", "creationTimestamp")
    page.field("CreationTimestamp", moment_text(created, zone))
    page.field("Unschedulable", str(is_unschedulable(node)).lower())
    page.table("Conditions", ("Type", "Status", "LastTransitionTime", "Reason", "Message"), _conditions(node, zone))
    addresses = v1.objects(node, "status", "addresses")
    page.fields("Addresses", [(v1.text(each, "type"), v1.text(each, "address")) for each in addresses])
    for label in ("Capacity", "Allocatable"):
        amounts = v1.mapping(node, "status", label.lower())
        page.fields(label, [(name, str(amount)) for name, amount in sorted(amounts.items())])
    page.fields("System Info", [(label, v1.text(node, "status", "nodeInfo", key)) for label, key in _SYSTEM.items()])
    resources = v1.objects(devices, "resources")
    page.table("Devices", ("ID", "Resource", "Health", "NUMA", "Held By"), _devices(resources))
    page.table("Plugins", ("Resource", "State", "Since", "Socket", "Options"), _plugins(resources, now))
    if releases := v1.objects(devices, "releases"):
        page.table("Releases", ("Call", "Resource", "Devices", "Of", "Since", "Attempts"), _releases(releases, now))
    describe_events(page, events, now)
    return str(page)


def _conditions(node: Json, zone: tzinfo | None) -> Iterable[tuple[str, ...]]:
    for condition in v1.objects(node, "status", "conditions"):
        changed = moment_text(v1.moment(condition, "lastTransitionTime"), zone)
        reason, message = v1.text(condition, "reason"), v1.text(condition, "message")
        yield v1.text(condition, "type"), v1.text(condition, "status"), changed, reason, message


def _devices(resources: list[Json]) -> Iterable[tuple[str, ...]]:
    for resource in resources:
        for device in v1.objects(resource, "devices"):
            yield (
                v1.text(device, "id"),
                v1.text(resource, "resourceName"),
                health_text(device),
                ",".join(v1.texts(device, "numaNodes")) or NONE,
                RELEASING if device.get("releasing") is True else holder_text(device.get("holder")),
            )


def _releases(releases: list[Json], now: datetime) -> Iterable[tuple[str, ...]]:
    """Print the calls that plugins have to confirm before devices are free."""
    for release in releases:
        yield (
            v1.text(release, "call"),
            v1.text(release, "resourceName"),
            ",".join(v1.texts(release, "deviceIDs")),
            holder_text(release.get("holder")),
            age(v1.moment(release, "since"), now),
            str(v1.number(release, "attempts")),
        )


def _plugins(resources: list[Json], now: datetime) -> Iterable[tuple[str, ...]]:
    """Resources that are only remembered are among them: their plugin is gone."""
    for resource in resources:
        endpoint = v1.mapping(resource, "endpoint")
        options = [name for name, value in sorted(v1.mapping(endpoint, "options").items()) if value is True]
        yield (
            v1.text(resource, "resourceName"),
            v1.text(endpoint, "state") or "Gone",
            age(v1.moment(endpoint, "since"), now) if endpoint else NONE,
            v1.text(endpoint, "socket") or NONE,
            ",".join(options) or NONE,
        )
