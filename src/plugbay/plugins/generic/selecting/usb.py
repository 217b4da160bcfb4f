"""Groups of USB devices: a unit for each, for each complete set, or for all together."""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.model.edits import DeviceNode
from plugbay.plugins.generic.config.rules import Usb, UsbRule
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named
from plugbay.plugins.generic.selecting.nodes import PERMISSIONS, GivenNode, Nodes, natural
from plugbay.plugins.generic.selecting.ports import Hardware


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


def complete_sets(found: Sequence[Sequence[SysDevice]]) -> list[tuple[SysDevice, ...]]:
    """Sets with a device for each rule, of which none is in two; the rules with the fewest devices choose first.

    Args:
        found: the devices that each rule means, in order.
    """
    order = sorted(range(len(found)), key=lambda index: (len(found[index]), index))
    taken: set[SysPath] = set()
    sets: list[tuple[SysDevice, ...]] = []
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
    """A group of USB devices between looks."""

    def __init__(self, what: Usb, nodes: Nodes, hardware: Hardware, *, has_compat_ids: bool) -> None:
        self._what = what
        self._nodes = nodes
        self._hardware = hardware
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
        for members in self._sets():
            made = self._draft_of(members)
            if isinstance(made, str):
                troubles[made] = None
                continue
            key = tuple(device.path for device in members)
            known = before.get(key)
            is_same = known == made and devices.isdisjoint(device.path for device in made.devices)
            self._made[key] = known if known is not None and is_same else made
        return Drafts(tuple(self._made.values()), tuple(troubles))

    def _sets(self) -> list[tuple[SysDevice, ...]]:
        every = usb_devices(self._hardware)
        found = [[device for device in every if is_chosen(rule, device, self._hardware)] for rule in self._what.rules]
        if self._what.bundles:
            together = tuple(device for devices in found for device in devices)
            return [together] if together else []
        return complete_sets(found)

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
        is_by_paths = self._what.bundles or self._has_compat_ids
        return draft_of(
            given,
            members,
            stands_for=tuple(device.node if is_by_paths else self._hardware.identity(device) for device in members),
            named=Named.BY_PATHS if is_by_paths else Named.BY_IDENTITY,
        )


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
