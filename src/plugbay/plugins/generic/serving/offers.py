"""The offer of one resource at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from plugbay.model.health import Health, unhealthy
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, HealthRule, PreferenceRule
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit
from plugbay.plugins.generic.serving.vanishing import VanishedUnit, VanishedUnits
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class GenericOffer:
    """A resource with its units.

    Attributes:
        entry: the rules of the resource.
        units: by ID, those that have vanished and are still listed too.
        ailing: why units are not healthy, by ID, as far as a look at the machine tells.
        found: the number of those that are there.
    """

    resource: ResourceName
    entry: Entry
    units: Mapping[DeviceId, Unit] = field(default_factory=dict)
    ailing: Mapping[DeviceId, Health] = field(default_factory=dict)
    found: int = 0


@dataclass(frozen=True, slots=True)
class PluginShape:
    """The things that a plugin tells once, when it is served: rules that change them need another plugin.

    Attributes:
        health: the checks of each group that has some.
        cdi_kind: of the resource's devices; empty for none.
    """

    releases: bool
    prefers: PreferenceRule
    health: tuple[HealthRule, ...]
    cdi_kind: str


def shape_of(entry: Entry) -> PluginShape:
    """The shape of the plugins that serve an entry."""
    return PluginShape(
        any(group.release is not None for group in entry.groups),
        entry.prefers,
        tuple(dict.fromkeys(group.health for group in entry.groups)),
        next((group.gifts.cdi_kind for group in entry.groups if group.gifts.cdi_kind), ""),
    )


def offers_of(
    config: GenericConfig,
    selected: SelectedUnits,
    vanished: VanishedUnits,
    ailing: Mapping[tuple[ResourceName, DeviceId], Health],
) -> Iterator[GenericOffer]:
    """The offers of a look, by the names of their resources.

    Args:
        ailing: why units that are there are not healthy.
    """
    for name in sorted({*selected.units, *vanished.resources()}):
        there = {unit.id: unit for unit in selected.units.get(name, ())}
        gone = {each.unit.id: each for each in vanished.of(name)}
        units = {**{id: each.unit for id, each in gone.items()}, **there}
        entry = next((unit.entry for unit in units.values()), None) or _entry_named(config, name)
        if entry is not None:
            health = {id: ailing[name, id] for id in there if (name, id) in ailing} if ailing else {}
            health |= {id: _gone(each) for id, each in gone.items()}
            yield GenericOffer(name, entry, units, health, len(there))


def _entry_named(config: GenericConfig, name: ResourceName) -> Entry | None:
    return next((entry for entry in config.entries if f"{entry.domain}/{entry.name}" == name), None)


def _gone(each: VanishedUnit) -> Health:
    nodes = ", ".join(node.host_path for node in each.unit.nodes)
    what = nodes or each.unit.physical or each.unit.id
    return unhealthy("Vanished", f"{what} is not on the machine any more; it is healthy again as soon as it is back")
