"""The offer of one resource at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from plugbay.model.devices import Device
from plugbay.model.health import Health, unhealthy
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.answers.devices import cdi_kind_of
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, HealthRule, Interfaces, PreferenceRule
from plugbay.plugins.generic.selecting.units import RuleTrouble, SelectedUnits, Unit
from plugbay.plugins.generic.serving.absent import AbsentDevices
from plugbay.plugins.generic.serving.vanishing import VanishedUnits
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class MadeDevices:
    """The devices of all resources, healthy.

    Attributes:
        by_resource: by their IDs; a unit that comes to nothing a container can have is not there.
        troubles: about such units.
    """

    by_resource: Mapping[ResourceName, Mapping[DeviceId, Device]]
    troubles: tuple[RuleTrouble, ...] = ()


@dataclass(frozen=True, slots=True)
class GenericOffer:
    """A resource with its units.

    Attributes:
        entry: the rules of the resource.
        devices: healthy ones, by their IDs; those that have vanished and are still listed too.
        units: the units that they stand for, as far as they are known.
        ailing: why units are not healthy, by ID, as far as a look at the machine tells.
        found: the number of those that are there.
    """

    resource: ResourceName
    entry: Entry
    devices: Mapping[DeviceId, Device] = field(default_factory=dict)
    units: Mapping[DeviceId, Unit] = field(default_factory=dict)
    ailing: Mapping[DeviceId, Health] = field(default_factory=dict)
    found: int = 0


@dataclass(frozen=True, slots=True)
class PluginShape:
    """The things that a plugin tells once, when it is served: rules that change them need another plugin.

    Attributes:
        prefers: whether the kubelet is to ask which devices a container should get.
        health: the checks of each group that has some.
        cdi_kind: of the resource's devices; empty for none.
    """

    releases: bool
    prefers: bool
    health: tuple[HealthRule, ...]
    cdi_kind: str


def shape_of(entry: Entry) -> PluginShape:
    """The shape of the plugins that serve an entry."""
    return PluginShape(
        any(group.release is not None for group in entry.groups),
        entry.prefers is not PreferenceRule.NONE or any(group.has_one_share_per_container for group in entry.groups),
        tuple(dict.fromkeys(group.health for group in entry.groups)),
        cdi_kind_of(entry),
    )


def offers_of(
    config: GenericConfig,
    selected: SelectedUnits,
    made: MadeDevices,
    vanished: VanishedUnits,
    absent: AbsentDevices,
    ailing: Mapping[tuple[ResourceName, DeviceId], Health],
    before: Mapping[ResourceName, GenericOffer],
) -> Iterator[GenericOffer]:
    """The offers of a look, by the names of their resources.

    Args:
        made: the devices of what is selected.
        ailing: why units that are there are not healthy.
        before: the offers before these, which have the devices of what has vanished since.
    """
    gone = vanished.by_resource()
    for name in sorted({*selected.units, *gone}):
        there, last = made.by_resource.get(name, {}), before.get(name)
        lost = absent.of(name)
        is_whole = name not in gone and not lost
        if last is not None and last.devices is there and is_whole and not ailing and not last.ailing:
            if there or last.entry in config.entries:
                yield last  # as it is with most resources at most looks
                continue
        units = {unit.id: unit for unit in selected.units.get(name, ()) if unit.id in there}
        listed = last.devices if last is not None else {}
        missed = {each.unit.id: each.unit for each in gone.get(name, ()) if each.unit.id in listed}
        elsewhere = {each.unit.id for each in gone.get(name, ()) if each.is_in_pod}
        entry = next((unit.entry for unit in (*units.values(), *missed.values())), None) or _entry_named(config, name)
        if entry is not None:
            health = {id: ailing[name, id] for id in units if (name, id) in ailing} if ailing else {}
            health |= {id: _gone(unit) for id, unit in missed.items() if id not in elsewhere}
            if not any(isinstance(group.what, Interfaces) for group in entry.groups):  # these may be in their pods
                health |= dict.fromkeys(lost, _ABSENT)
            devices = {**{id: listed[id] for id in missed}, **lost, **there} if missed or lost else there
            yield GenericOffer(name, entry, devices, {**missed, **units}, health, len(units))


def _entry_named(config: GenericConfig, name: ResourceName) -> Entry | None:
    return next((entry for entry in config.entries if f"{entry.domain}/{entry.name}" == name), None)


_ABSENT: Final = unhealthy(
    "Vanished", "a pod has it, and since the plugin began no look has found it; it is healthy when it is back"
)


def _gone(unit: Unit) -> Health:
    what = ", ".join(node.host_path for node in unit.nodes) or unit.physical or unit.id
    stays = f"it stays listed for {unit.group.health.grace_s:g} s, and for as long as a pod has it"
    return unhealthy("Vanished", f"{what} is not on the machine any more; {stays}, and is healthy when it is back")
