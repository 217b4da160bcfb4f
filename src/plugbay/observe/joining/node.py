"""Join all evidence of a node to one view. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.documents import Json
from plugbay.observe.evidence import NodeEvidence
from plugbay.observe.joining.claims import DeviceKey
from plugbay.observe.joining.exclusive import joined_exclusive
from plugbay.observe.joining.healths import joined_health
from plugbay.observe.joining.holders import HeldBy, joined_holders
from plugbay.observe.joining.offers import Offers, offers_of
from plugbay.observe.view import DeviceView, HealthWord, ObservedNode, RejectedPod, ResourceView
from plugbay.printers import v1


def join(evidence: NodeEvidence) -> ObservedNode:
    """The node as all sources together show it; the order in which they list things does not matter."""
    offers, held = offers_of(evidence), joined_holders(evidence)
    ids = _ids(offers, held)
    paths = _answered_paths(evidence)
    return ObservedNode(
        taken=evidence.taken,
        root=evidence.root,
        name=v1.text(evidence.node, "node") or evidence.host_name,
        resources=tuple(_resource(name, sorted(ids[name]), offers, held, paths) for name in sorted(ids)),
        sockets=evidence.sockets,
        exclusive=joined_exclusive(evidence),
        checkpoint=evidence.checkpoint.file,
        rejections=_rejections(evidence),
        rejected=tuple(map(_rejected, v1.objects(evidence.node, "rejected"))),
        problems=evidence.problems,
    )


def _ids(offers: Offers, held: Iterable[DeviceKey]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in (*offers.counted, *offers.resource_plugins)}
    for name, healthy in offers.healthy.items():
        found.setdefault(name, set()).update(healthy)
    for name, device in (*offers.node, *offers.plugins, *held):
        found.setdefault(name, set()).add(device)
    return found


def _resource(
    name: str,
    ids: Iterable[str],
    offers: Offers,
    held: Mapping[DeviceKey, HeldBy],
    paths: Mapping[DeviceKey, tuple[str, ...]],
) -> ResourceView:
    devices = tuple(_device((name, each), offers, held.get((name, each), _NOT_HELD), paths) for each in ids)
    capacity, allocatable = _counts(name, offers, devices)
    return ResourceView(
        name=name,
        capacity=capacity,
        allocatable=allocatable,
        devices=devices,
        plugin=offers.resource_plugins.get(name),
    )


_NOT_HELD = HeldBy()


def _device(key: DeviceKey, offers: Offers, held: HeldBy, paths: Mapping[DeviceKey, tuple[str, ...]]) -> DeviceView:
    health, against = joined_health(offers, key)
    return DeviceView(
        id=key[1],
        health=health,
        numa_nodes=offers.numa.get(key),
        host_paths=offers.host_paths.get(key) or paths.get(key, ()),
        holders=held.holders,
        is_releasing=key in offers.releasing,
        disagreements=(*held.disagreements, against) if against else held.disagreements,
    )


def _counts(name: str, offers: Offers, devices: tuple[DeviceView, ...]) -> tuple[int | None, int | None]:
    """Capacity and allocatable: our node tells both, a kubelet only healthy devices, a plugin's page all devices."""
    if name in offers.counted:
        return offers.counted[name]
    offered = sum((name, device.id) in offers.plugins for device in devices)
    if (healthy := offers.healthy.get(name)) is not None:
        return offered or None, len(healthy)
    fit = sum(device.health.word is HealthWord.HEALTHY for device in devices)
    return (offered, fit) if offered else (None, None)


def _answered_paths(evidence: NodeEvidence) -> dict[DeviceKey, tuple[str, ...]]:
    """Host paths by answers to Allocate; an answer for several devices does not tell which path is whose."""
    found: dict[DeviceKey, tuple[str, ...]] = {}
    for entry in evidence.checkpoint.entries or ():
        devices = {device for ids in entry.devices.values() for device in ids}
        if len(devices) == 1 and entry.host_paths:
            key = (entry.resource, devices.pop())
            found[key] = min(found.get(key, entry.host_paths), entry.host_paths)
    return found


def _rejections(evidence: NodeEvidence) -> Mapping[str, int] | None:
    if "rejections" not in v1.mapping(evidence.node):
        return None
    counts = v1.mapping(evidence.node, "rejections")
    return {reason: v1.number(counts, reason) for reason in sorted(counts)}


def _rejected(pod: Json) -> RejectedPod:
    return RejectedPod(
        namespace=v1.text(pod, "namespace"),
        pod=v1.text(pod, "name"),
        uid=v1.text(pod, "uid"),
        reason=v1.text(pod, "reason"),
        message=v1.text(pod, "message"),
        at=v1.moment(pod, "time"),
    )
