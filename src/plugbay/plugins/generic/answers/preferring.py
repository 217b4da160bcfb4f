"""The preferred devices of a container: close to each other, and no two shares of a device where the rules say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import assert_never

from plugbay.allocation.grouped import Packed
from plugbay.allocation.preference import Key, numa_node
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.answers.shares import share_key
from plugbay.plugins.generic.config.rules import PreferenceRule
from plugbay.plugins.generic.selecting.units import Unit

Units = Mapping[DeviceId, Unit]
"""The units of a resource; a device that is not among them is close to nothing."""


def preferred(
    units: Units, prefers: PreferenceRule, available: Sequence[Device], must_include: Sequence[Device], size: int
) -> list[Device]:
    """The best ``size`` of the ``available`` devices, all of ``must_include`` among them.

    Where a container gets one share of a device at most, more shares of it are preferred only if there is no choice;
    then Allocate refuses them. Of devices that are equally close the first by ID are preferred.
    """
    apart = _one_share_each(units, available, must_include)
    candidates = apart if len({each.id for each in chain(apart, must_include)}) >= size else available
    return _policy(units, prefers)(candidates, must_include, size)


def _one_share_each(units: Units, available: Sequence[Device], must_include: Sequence[Device]) -> list[Device]:
    """The available devices without further shares of one that is there already."""
    settled = {device.id for device in must_include}
    taken = {key for device in must_include if (key := _share(units, device))}
    kept: list[Device] = []
    for device in sorted(available, key=lambda each: each.id):
        key = _share(units, device)
        if device.id in settled or not key or key not in taken:
            kept.append(device)
        if key:
            taken.add(key)
    return kept


def _share(units: Units, device: Device) -> str:
    unit = units.get(device.id)
    return "" if unit is None else share_key(unit)


def _policy(units: Units, prefers: PreferenceRule) -> Packed:
    match prefers:
        case PreferenceRule.NONE:
            return Packed(by=_nothing)
        case PreferenceRule.NUMA:
            return Packed(by=numa_node)
        case PreferenceRule.PCIE_ROOT:
            return Packed(by=_key_of(units, lambda unit: unit.pcie_root))
        case PreferenceRule.PHYSICAL:
            return Packed(by=_key_of(units, lambda unit: unit.physical))
        case _:
            assert_never(prefers)


def _nothing(device: Device) -> None:
    """All devices are one group: the first by ID are preferred."""


def _key_of(units: Units, by: Callable[[Unit], str]) -> Key:
    """Group devices by a property of their units; a device without it is a group of its own."""

    def key(device: Device) -> str:
        unit = units.get(device.id)
        return (by(unit) if unit is not None else "") or f"alone {device.id}"

    return key
