"""Groups of USB devices: a unit for each, for each complete set, or for all together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Final

from plugbay.model.edits import DeviceNode
from plugbay.plugins.generic.config.rules import Usb, UsbRule
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named
from plugbay.plugins.generic.selecting.ids import id_of
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.nodes import PERMISSIONS, GivenNode, Nodes, natural
from plugbay.plugins.generic.selecting.ports import Hardware

_MOST_PAIRINGS: Final = 20_000
"""The most combinations of devices in which sets that pods had are looked for, when the process begins."""


def is_chosen(rule: UsbRule, device: SysDevice, hardware: Hardware) -> bool:
    """Whether a USB device is one that a rule means; serial numbers count as they are, blanks too."""
    return (
        (rule.vendor is None or _number(hardware.attribute(device, "idVendor")) == rule.vendor)
        and (rule.product is None or _number(hardware.attribute(device, "idProduct")) == rule.product)
        and (not rule.serial or hardware.attribute(device, "serial") == rule.serial)
    )


def usb_devices(hardware: Hardware) -> list[SysDevice]:
    """The USB devices, hubs among them, in the order of buses and ports."""
    found = (device for device in hardware.devices_of("usb") if device.devtype == "usb_device")
    return sorted((device for device in found if device.node), key=natural)


def found_by_rules(what: Usb, hardware: Hardware) -> list[list[SysDevice]]:
    """The devices that each rule means, in order."""
    every = usb_devices(hardware)
    return [[device for device in every if is_chosen(rule, device, hardware)] for rule in what.rules]


def why_no_set(what: Usb, found: Sequence[Sequence[SysDevice]]) -> str:
    """A sentence about rules that match something, of which no set can be made; empty if that is not so."""
    if what.bundles or len(found) < 2 or not any(found) or complete_sets(found):
        return ""
    counts = ", ".join(
        _counted(rule, number, len(each)) for number, (rule, each) in enumerate(zip(what.rules, found, strict=True), 1)
    )
    return (
        f"{counts}; several rules in one list choose sets with a device for each rule, and none is complete: write a"
        " group for each rule if they are alternatives."
    )


def _counted(rule: UsbRule, number: int, count: int) -> str:
    place = f"rule {number} (line {rule.spot.line})" if rule.spot.line else f"rule {number}"
    return f"{count or 'no'} {'devices match' if count > 1 else 'device matches'} {place}"


UsbSet = tuple[SysDevice, ...]
"""A device for each rule."""


def complete_sets(found: Sequence[Sequence[SysDevice]], kept: Sequence[UsbSet] = ()) -> list[UsbSet]:
    """Sets with a device for each rule, of which none is in two; the rules with the fewest devices choose first.

    Args:
        found: the devices that each rule means, in order.
        kept: sets that stay as they are.
    """
    order = sorted(range(len(found)), key=lambda index: (len(found[index]), index))
    taken = {device.path for members in kept for device in members}
    sets = list(kept)
    while found:
        chosen: dict[int, SysDevice] = {}
        for index in order:
            free = next((device for device in found[index] if device.path not in taken), None)
            if free is None:
                return sets
            taken.add(free.path)
            chosen[index] = free
        sets.append(tuple(chosen[index] for index in range(len(found))))
    return sets


class UsbLook:
    """A group of USB devices between looks.

    Args:
        count: the number of units that are made of each set.
        memory: of the sets of earlier looks, which stay as they are while all their devices are there.
    """

    def __init__(
        self, what: Usb, count: int, nodes: Nodes, hardware: Hardware, memory: RuleMemory, *, has_compat_ids: bool
    ) -> None:
        self._what = what
        self._count = count
        self._nodes = nodes
        self._hardware = hardware
        self._memory = memory
        self._has_compat_ids = has_compat_ids
        self._made: dict[tuple[SysPath, ...], Draft] = {}

    @property
    def directories(self) -> frozenset[str]:
        return frozenset()

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Everything on USB is below a directory of a bus, such as ``usb1``."""
        return any("/usb" in path for path in devices)

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        before, self._made = self._made, {}
        troubles: dict[str, None] = {}
        found = found_by_rules(self._what, self._hardware)
        if problem := why_no_set(self._what, found):
            troubles[problem] = None
        for members in self._sets(found):
            made = self._draft_of(members)
            if isinstance(made, str):
                troubles[made] = None
                continue
            key = tuple(device.path for device in members)
            known = before.get(key)
            is_same = known == made and devices.isdisjoint(device.path for device in made.devices)
            self._made[key] = known if known is not None and is_same else made
        return Drafts(tuple(self._made.values()), tuple(troubles))

    def _sets(self, found: Sequence[Sequence[SysDevice]]) -> list[UsbSet]:
        if self._what.bundles:
            together = tuple(device for devices in found for device in devices)
            return [together] if together else []
        if len(found) < 2:
            return complete_sets(found)
        kept = self._known_sets(found)
        sets = sorted(
            complete_sets(found, kept + self._held_sets(found, kept)), key=lambda members: natural(members[0])
        )
        self._memory.usb_sets[self._what] = [tuple(device.path for device in members) for members in sets]
        return sets

    def _known_sets(self, found: Sequence[Sequence[SysDevice]]) -> list[UsbSet]:
        """The sets of the last look that are still complete."""
        chosen = [{device.path: device for device in devices} for devices in found]
        return [
            tuple(devices[path] for devices, path in zip(chosen, paths, strict=True))
            for paths in self._memory.usb_sets.get(self._what, ())
            if all(path in devices for devices, path in zip(chosen, paths, strict=True))
        ]

    def _held_sets(self, found: Sequence[Sequence[SysDevice]], kept: Sequence[UsbSet]) -> list[UsbSet]:
        """Further sets that pods had when the process began."""
        if not self._memory.held_ids:
            return []
        taken = {device.path for members in kept for device in members}
        free = [[device for device in devices if device.path not in taken] for devices in found]
        held: list[UsbSet] = []
        for members in islice(product(*free), _MOST_PAIRINGS):
            paths = {device.path for device in members}
            if len(paths) == len(members) and taken.isdisjoint(paths) and self._is_held(members):
                held.append(members)
                taken |= paths
        return held

    def _is_held(self, members: UsbSet) -> bool:
        stands_for, named = self._naming(members)
        return any(id_of(copy, stands_for, named) in self._memory.held_ids for copy in range(self._count))

    def _naming(self, members: Sequence[SysDevice]) -> tuple[tuple[str, ...], Named]:
        """The texts that the ID of a unit is made of, and how."""
        if self._what.bundles or self._has_compat_ids:
            return tuple(device.node for device in members), Named.BY_PATHS
        return tuple(map(self._hardware.identity, members)), Named.BY_IDENTITY

    def _draft_of(self, members: Sequence[SysDevice]) -> Draft | str:
        """A device that several rules of a bundle mean counts as often for the ID, as with the other plugin."""
        given: list[GivenNode] = []
        for device in dict.fromkeys(device.path for device in members):
            owner = next(each for each in members if each.path == device)
            chosen = self._nodes.chosen(owner, ())
            if isinstance(chosen, str):
                return chosen
            given += chosen
            if self._what.has_raw_node:
                given.append(GivenNode(DeviceNode(owner.node, permissions=PERMISSIONS), owner))
        if not given:
            return (
                f"{self._hardware.identity(members[0])} has no node to give; write nodes, or leave out rawNode: false."
            )
        stands_for, named = self._naming(members)
        return draft_of(given, members, stands_for=stands_for, named=named)


def draft_of(
    given: Sequence[GivenNode], members: Sequence[SysDevice], *, stands_for: tuple[str, ...], named: Named
) -> Draft:
    """The draft of a unit with these nodes, for what ``members`` are."""
    devices = {device.path: device for device in (*members, *(each.device for each in given))}
    first = given[0].node if given else None
    name = given[0].device.name if given else members[0].name
    own = {} if first is None else {"path": first.container_path, "hostPath": first.host_path}
    return Draft(
        stands_for=stands_for,
        named=named,
        nodes=tuple(dict.fromkeys(each.node for each in given)),
        devices=tuple(devices.values()),
        claims=tuple(dict.fromkeys(each.node.host_path for each in given if not each.is_companion)),
        facts={**own, "name": name},
    )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None
