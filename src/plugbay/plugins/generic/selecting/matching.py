"""Groups of devices by their properties: a unit for each physical device, for each device, or for each interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from plugbay.plugins.generic.config.rules import AllOf, Interfaces, Match, Not, Selector, Where
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named
from plugbay.plugins.generic.selecting.index import PropertyIndex
from plugbay.plugins.generic.selecting.nodes import Nodes, natural
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.usb import draft_of


class Drafting(Protocol):
    """The way from devices that match to drafts.

    Attributes:
        selector: chooses the devices.
    """

    @property
    def selector(self) -> Selector: ...

    def owner(self, device: SysDevice) -> SysDevice:
        """The device that is a unit, for one that matches."""

    def draft(self, owner: SysDevice, members: Sequence[SysDevice]) -> Draft | str:
        """The draft of a unit, or a sentence that says why there is none.

        Args:
            members: the devices that match, in natural order; at least one.
        """


class DeviceUnits:
    """Units that are physical devices, or each a device that matches."""

    def __init__(self, what: Match, nodes: Nodes, hardware: Hardware, *, gives_more: bool) -> None:
        self.selector: Selector = what.selector
        if what.is_each and not (what.nodes or gives_more):
            self.selector = AllOf((what.selector, Where("node", ("*",))))
        self._what = what
        self._nodes = nodes
        self._hardware = hardware
        self._gives_more = gives_more

    def owner(self, device: SysDevice) -> SysDevice:
        return device if self._what.is_each else self._hardware.physical(device)

    def draft(self, owner: SysDevice, members: Sequence[SysDevice]) -> Draft | str:
        """A unit without nodes is one only if its group gives something else."""
        if self._what.nodes:
            given = self._nodes.chosen(self._hardware.physical(owner), members)
            if isinstance(given, str):
                return given
        else:
            given = self._nodes.plain(members)
        identity = self._hardware.identity(owner)
        if not given and not self._gives_more:
            return (
                f"{identity} matches and has no device node, so it is not a unit; write nodes for what belongs to it,"
                " or env for a container that needs no node."
            )
        return draft_of(given, members, stands_for=(identity,), named=Named.BY_IDENTITY)


class InterfaceUnits:
    """Units that are network interfaces; the loopback is none."""

    def __init__(self, what: Interfaces, hardware: Hardware) -> None:
        is_other = Not(Where("name", ("lo",)))
        self.selector: Selector = AllOf((Where("subsystem", ("net",)), is_other, what.selector))
        self._hardware = hardware

    def owner(self, device: SysDevice) -> SysDevice:
        return device

    def draft(self, owner: SysDevice, members: Sequence[SysDevice]) -> Draft | str:
        return Draft(
            stands_for=(self._hardware.identity(owner),),
            named=Named.BY_IDENTITY,
            interfaces=(owner.name,),
            devices=(owner,),
            claims=(f"interface {owner.name}",),
            facts={"name": owner.name},
        )


class MatchLook:
    """A group of devices by properties, between looks."""

    def __init__(self, drafting: Drafting, index: PropertyIndex, hardware: Hardware) -> None:
        self._drafting = drafting
        self._index = index
        self._hardware = hardware
        self._members: dict[SysPath, dict[SysPath, SysDevice]] = {}
        self._owners: dict[SysPath, SysPath] = {}
        self._made: dict[SysPath, Draft | str] = {}
        self._is_new = True

    @property
    def directories(self) -> frozenset[str]:
        return frozenset()

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Devices that match or did, and those that belong to a unit and may have a node for it."""
        return (
            not devices.isdisjoint(self._owners)
            or bool(self._index.matching(self._drafting.selector, devices))
            or any(self._unit_above(path) for path in devices)
        )

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        selector = self._drafting.selector
        concerned = {owner for path in devices if (owner := self._unit_above(path))}
        for path in devices & self._owners.keys():
            owner = self._owners.pop(path)
            del self._members[owner][path]
            concerned.add(owner)
        for path in self._index.matching(selector, None if self._is_new else devices):
            device = self._hardware.device(path)
            if device is not None:
                owner = self._drafting.owner(device).path
                self._owners[path] = owner
                self._members.setdefault(owner, {})[path] = device
                concerned.add(owner)
        self._is_new = False
        for owner in concerned:
            self._renew(owner)
        drafts = [self._made[owner] for owner in sorted(self._made)]
        return Drafts(
            tuple(draft for draft in drafts if isinstance(draft, Draft)),
            tuple(dict.fromkeys(draft for draft in drafts if isinstance(draft, str))),
        )

    def _renew(self, path: SysPath) -> None:
        members = self._members.get(path)
        owner = self._hardware.device(path)
        if not members or owner is None:
            self._members.pop(path, None)
            self._made.pop(path, None)
            return
        self._made[path] = self._drafting.draft(owner, sorted(members.values(), key=natural))

    def _unit_above(self, path: SysPath) -> SysPath | None:
        """The unit in whose directory a device is, which may be gone; the device itself counts."""
        place = str(path)
        while place:
            if place in self._members:
                return SysPath(place)
            place = place.rpartition("/")[0]
        return None
