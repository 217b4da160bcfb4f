"""The things that looks remember for the life of a process: a device that a pod has keeps its ID. Pure.

A kubelet knows a device by its ID alone. One that came back under another ID while a pod has it would be given to a
second pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from plugbay.errors import InvalidDeviceId
from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.ids import DeviceId, ResourceName, parse_device_id
from plugbay.plugins.generic.config.rules import Usb
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.units import Unit

HeldPaths: TypeAlias = Mapping[ResourceName, Mapping[DeviceId, Collection[str]]]
"""The devices that pods hold, by resource, each with the host's paths that its container was given."""

NOTHING_HELD: Final[HeldPaths] = {}


class RuleMemory:
    """Decisions of earlier looks, and the devices that pods had when the process began.

    Attributes:
        usb_sets: the devices that each group of several USB rules took together at its last look.
    """

    def __init__(self, held: HeldPaths = NOTHING_HELD) -> None:
        self.usb_sets: dict[Usb, Collection[tuple[SysPath, ...]]] = {}
        self._held = {
            name: {id: frozenset(paths) for id, paths in those.items() if _is_id(id)} for name, those in held.items()
        }
        self._held_ids = frozenset(id for those in held.values() for id in those)
        self._names: dict[ResourceName, dict[DeviceId, DeviceId]] = {}

    @property
    def held_ids(self) -> frozenset[DeviceId]:
        """The IDs that pods had when the process began, of all resources."""
        return self._held_ids

    def forget_unless(self, held: Mapping[ResourceName, Collection[DeviceId]]) -> None:
        """Forget the devices that no pod holds any more; names that were given stay."""
        self._held = {
            name: {id: paths for id, paths in those.items() if id in held.get(name, ())}
            for name, those in self._held.items()
        }

    def named(self, resource: ResourceName, units: Collection[Unit]) -> Collection[Unit]:
        """The units of a resource: those that a pod has under another ID with that ID.

        A device's own ID may differ when the process begins anew: sticks with equal serial numbers came or went, or
        the rules or the plugin are others. It is known by the paths that the pod was given. An ID that a unit was given
        stays with it.
        """
        held = self._held.get(resource, {})
        if not held and resource not in self._names:
            return units
        own = {unit.id for unit in units}
        names = {id: name for id, name in self._names.get(resource, {}).items() if name not in own}
        _match(held, units, names)
        self._names[resource] = names
        return [replace(unit, id=names[unit.id]) if unit.id in names else unit for unit in units]


def _match(held: Mapping[DeviceId, frozenset[str]], units: Collection[Unit], names: dict[DeviceId, DeviceId]) -> None:
    """Find the units that pods have under other IDs, and add these to ``names``."""
    own = {unit.id for unit in units}
    waiting = sorted(held.keys() - own - set(names.values()))
    if not waiting:
        return
    spoken_for: dict[frozenset[str], set[str]] = {}  # by containers, which are known by their paths
    free: dict[str, list[Unit]] = {}
    for unit in sorted(units, key=lambda each: (each.copy, each.id)):
        paths = held.get(names.get(unit.id, unit.id))
        if paths is not None:
            spoken_for.setdefault(paths, set()).update(_hosts(unit))
        elif unit.id not in names:
            for path in _hosts(unit):
                free.setdefault(path, []).append(unit)
    for id in waiting:
        # Where all paths are those of other devices of the container, it is a further share of one of these.
        left = held[id] - spoken_for.get(held[id], set()) or held[id]
        candidates = (unit for path in sorted(left) for unit in free.get(path, ()))
        found = next((unit for unit in candidates if unit.id not in names and _hosts(unit) <= held[id]), None)
        if found is not None:
            names[found.id] = id


def _is_id(id: DeviceId) -> bool:
    """Whether a unit can have it: a kubelet keeps what another plugin said, such as a control character."""
    try:
        parse_device_id(id)
    except InvalidDeviceId:
        return False
    return True


def _hosts(unit: Unit) -> frozenset[str]:
    """The host's paths that a container gets with a unit itself."""
    things: Iterable[DeviceNode | Mount] = (*unit.nodes, *unit.mounts)
    return frozenset(each.host_path for each in things)
