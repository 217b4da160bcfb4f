"""Devices that are offered, by the word of our node, of the kubelet and of plugins' pages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime

from plugbay.documents import Json
from plugbay.model.podresources import distinct_devices
from plugbay.observe.evidence import NodeEvidence
from plugbay.observe.joining.claims import DeviceKey, claimed_numa
from plugbay.observe.view import DeviceHealth, HealthWord, PluginMoment, PluginView, Witness
from plugbay.printers import v1
from plugbay.values import dataclass


@dataclass(slots=True)
class Offers:
    """Facts about devices and resources, by source.

    Attributes:
        node, plugins: the health of devices by our node, and by plugins' pages.
        healthy: devices that the kubelet counts as healthy, by resource; a resource that is missing is not known.
        by_checkpoint: whether ``healthy`` is of the checkpoint, for want of an answer.
        numa: nodes of devices, by the best source; empty for a device without topology.
        host_paths: of devices, by plugins' pages.
        counted: capacity and allocatable of resources, by our node.
        resource_plugins: by resource, our node's word before that of pages.
        releasing: devices whose release is not confirmed, by our node.
    """

    node: dict[DeviceKey, DeviceHealth] = field(default_factory=dict)
    plugins: dict[DeviceKey, DeviceHealth] = field(default_factory=dict)
    healthy: dict[str, frozenset[str]] = field(default_factory=dict)
    by_checkpoint: bool = False
    numa: dict[DeviceKey, tuple[int, ...]] = field(default_factory=dict)
    host_paths: dict[DeviceKey, tuple[str, ...]] = field(default_factory=dict)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    resource_plugins: dict[str, PluginView] = field(default_factory=dict)
    releasing: set[DeviceKey] = field(default_factory=set)


def offers_of(evidence: NodeEvidence) -> Offers:
    offers = Offers()
    for key, node in claimed_numa(evidence):
        offers.numa[key] = tuple(sorted({*offers.numa.get(key, ()), node}))
    for page in evidence.plugins:
        _take_page(offers, page)
    _take_kubelet(offers, evidence)
    for resource in v1.objects(evidence.node, "resources"):
        _take_node_resource(offers, resource)
    return offers


def _take_kubelet(offers: Offers, evidence: NodeEvidence) -> None:
    for pod in evidence.pods or ():
        for container in pod.containers:
            for resource, devices in distinct_devices(container.devices).items():
                offers.numa.update({(resource, device): nodes for device, nodes in devices.items() if nodes})
    if evidence.allocatable is None:
        offers.by_checkpoint = True
        offers.healthy = {name: frozenset(ids) for name, ids in evidence.checkpoint.registered.items()}
        return
    # A resource without a healthy device is not in the answer, but may be registered.
    offers.healthy = {name: frozenset() for name in evidence.checkpoint.registered}
    for resource, devices in distinct_devices(evidence.allocatable.devices).items():
        offers.healthy[resource] = frozenset(devices)
        offers.numa.update({(resource, device): nodes for device, nodes in devices.items() if nodes})


def _take_page(offers: Offers, page: Json) -> None:
    for resource in v1.objects(page, "resources"):
        name = v1.text(resource, "resourceName")
        sockets = v1.texts(resource, "sockets")
        offers.resource_plugins[name] = PluginView(
            state=v1.text(resource, "state"),
            socket=sockets[-1].rpartition("/")[2] if sockets else "",
            since=v1.moment(resource, "since"),
            registered=v1.moment(resource, "lastRegistration"),
            reason=v1.text(resource, "reason"),
            registrations=v1.number(resource, "registrations"),
            open_streams=v1.number(resource, "openStreams"),
            life=_refusal(v1.mapping(resource, "lastRefusal")),
        )
        for device in v1.objects(resource, "devices"):
            health = _page_health(v1.mapping(device, "health"))
            for listed in v1.texts(device, "deviceIDs") or [v1.text(device, "id")]:
                offers.plugins[name, listed] = health
                if nodes := _numbers(v1.at(device, "numaNodes")):
                    offers.numa[name, listed] = nodes
                if paths := tuple(v1.texts(device, "hostPaths")):
                    offers.host_paths[name, listed] = paths


def _page_health(health: Json) -> DeviceHealth:
    return DeviceHealth(
        word=_word(v1.text(health, "state")),
        reason=v1.text(health, "reason"),
        message=v1.text(health, "message"),
        since=v1.moment(health, "since"),
        witness=Witness.PLUGIN,
    )


def _take_node_resource(offers: Offers, resource: Json) -> None:
    name = v1.text(resource, "resourceName")
    offers.counted[name] = v1.number(resource, "capacity"), v1.number(resource, "allocatable")
    endpoint = v1.mapping(resource, "endpoint")
    told, life = offers.resource_plugins.get(name), v1.mapping(resource, "life")
    offers.resource_plugins[name] = PluginView(
        state=v1.text(endpoint, "state") or "Gone",
        socket=v1.text(endpoint, "socket").rpartition("/")[2] or (told.socket if told else ""),
        since=v1.moment(endpoint, "since"),
        registered=_registered(life) or (told.registered if told else None),
        reason=told.reason if told else "",
        registrations=v1.number(life, "registrations") if life else told.registrations if told else None,
        open_streams=v1.number(life, "openStreams") if life else told.open_streams if told else None,
        life=_life(life, told.life if told else ()),
    )
    for device in v1.objects(resource, "devices"):
        key = name, v1.text(device, "id")
        offers.node[key] = DeviceHealth(
            word=_word(v1.text(device, "health")), reason=v1.text(device, "reason"), witness=Witness.NODE
        )
        if (nodes := v1.at(device, "numaNodes")) is not None:
            offers.numa[key] = _numbers(nodes)
        if v1.at(device, "releasing") is True:
            offers.releasing.add(key)


def _registered(life: Json) -> datetime | None:
    """The last registration that our node took."""
    taken = (v1.moment(each, "time") for each in v1.objects(life, "moments") if v1.text(each, "event") == "registered")
    return max((at for at in taken if at is not None), default=None)


def _refusal(refusal: Json) -> tuple[PluginMoment, ...]:
    """The last registration that the kubelet refused, as the plugin tells it."""
    at = v1.moment(refusal, "time")
    return () if at is None else (PluginMoment(at, f"a registration was refused: {v1.text(refusal, 'message')}"),)


def _life(life: Json, told: tuple[PluginMoment, ...]) -> tuple[PluginMoment, ...]:
    """The moments that our node knows, and those that the plugin ``told``, oldest first."""
    found = list(told)
    for each in v1.objects(life, "moments"):
        if (at := v1.moment(each, "time")) is not None:
            found.append(PluginMoment(at, v1.text(each, "event"), v1.text(each, "socket")))
    return tuple(sorted(found, key=lambda moment: moment.at))


def _word(text: str) -> HealthWord:
    try:
        return HealthWord(text)
    except ValueError:
        return HealthWord.UNKNOWN


def _numbers(found: object) -> tuple[int, ...]:
    listed: Iterable[object] = found if isinstance(found, list) else ()
    return tuple(each for each in listed if isinstance(each, int))
