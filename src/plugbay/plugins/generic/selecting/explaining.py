"""The answer to which rule takes a device, and for each other rule why it does not."""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.plugins.generic.config.rules import (
    DevNames,
    Entry,
    GenericConfig,
    Interfaces,
    Match,
    Paths,
    RuleGroup,
    Tokens,
    Usb,
)
from plugbay.plugins.generic.config.spots import NOWHERE
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.reasons import Asked, why_not_matched, why_not_name, why_not_path, why_not_usb
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import FileKind, FileTree
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The word of one group of rules on a device.

    Attributes:
        place: ``FILE:LINE``, or the file alone for rules that stand in none.
        entry: the title of the entry.
        text: a sentence.
        units: those of the group that have the device and are offered; empty if it does not take the device.
    """

    place: str
    entry: str
    text: str
    units: tuple[Unit, ...] = ()

    @property
    def is_taken(self) -> bool:
        return bool(self.units)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All rules about one device, in the order of the config; ``what`` says what the device is."""

    path: str
    what: str
    verdicts: tuple[RuleVerdict, ...]


def explain(config: GenericConfig, hardware: Hardware, files: FileTree, path: str) -> Explanation:
    """Say which rule takes a device, or for each why not.

    Args:
        path: of a node, a link to one or any other file; of a device below ``/sys``; or the name of an interface.
    """
    asked = _asked(hardware, files, path)
    selection = RuleSelection(config, hardware, files)
    found = selection.look()
    offered = [unit for units in found.units.values() for unit in units]
    verdicts = []
    for index, entry in enumerate(config.entries):
        for group in entry.groups:
            units = tuple(unit for unit in offered if unit.entry is entry and unit.group is group and asked.is_in(unit))
            text = _taken(units) if units else _refused(selection, index, entry, group, asked)
            verdicts.append(RuleVerdict(_place(config, entry, group), entry.title, text, units))
    return Explanation(path, _what(asked, hardware), tuple(verdicts))


def _asked(hardware: Hardware, files: FileTree, path: str) -> Asked:
    if "/" not in path:
        interface = next((each for each in hardware.devices_of("net") if each.name == path), None)
        return Asked(path, path, FileKind.MISSING, interface)
    if path.startswith("/sys/"):
        target = files.target(path).removeprefix("/sys")
        device = hardware.device(SysPath(target))
        return Asked(path, device.node if device else "", FileKind.MISSING, device)
    target = files.target(path)
    return Asked(path, target, files.kind(path), hardware.by_node(target))


def _what(asked: Asked, hardware: Hardware) -> str:
    device = asked.device
    if device is None:
        link = f"; it leads to {asked.target}" if asked.target not in ("", asked.path) else ""
        return f"{asked.path} is {asked.kind.value}{link}."
    owner = hardware.physical(device)
    part = f", part of {hardware.identity(owner)}" if owner.path != device.path else ""
    return f"{asked.path} is the device {device.name} of the subsystem {device.subsystem}{part}."


def _taken(units: tuple[Unit, ...]) -> str:
    resources = ", ".join(sorted({unit.resource for unit in units}))
    ids = ", ".join(unit.id for unit in units[:3])
    more = f" and {len(units) - 3} more" if len(units) > 3 else ""
    return f"It is given by {resources} as {ids}{more}."


def _refused(selection: RuleSelection, index: int, entry: Entry, group: RuleGroup, asked: Asked) -> str:
    look = selection.entries[index]
    for units in look.resources.values():
        for claimed in units.values():
            if claimed.unit.group is group and asked.is_in(claimed.unit):
                return _lost(selection, index, claimed.draft.claims)
    if look.names.problem:
        return look.names.problem
    identity = asked.identity(selection.hardware)
    for name in (asked.path, asked.target, identity):
        if name in look.unnamed:
            return look.unnamed[name]
    for text in look.troubles:
        if identity and text.startswith(f"{identity} "):
            return text
    match group.what:
        case Paths() as what:
            return why_not_path(what, asked, selection.sight)
        case DevNames() as what:
            return why_not_name(what, asked, selection.sight)
        case Usb() as what:
            return why_not_usb(what, asked, selection.hardware)
        case Match() as what:
            return why_not_matched(what.selector, asked, selection.index, selection.hardware)
        case Interfaces() as what:
            if asked.device is None or asked.device.subsystem != "net":
                return "The rule takes network interfaces, and this is not one."
            return why_not_matched(what.selector, asked, selection.index, selection.hardware)
        case Tokens():
            return "The rule counts what is not a device."


def _lost(selection: RuleSelection, index: int, claims: Iterable[str]) -> str:
    rival = selection.claims.rival(index, claims)
    if rival is None:
        return "Its resource belongs to another entry, which has the same name."
    return f"The rule matches, but {selection.place(rival)} gives it already, and not both entries say shared: true."


def _place(config: GenericConfig, entry: Entry, group: RuleGroup) -> str:
    spot = group.spot if group.spot != NOWHERE else entry.spot
    return f"{config.source}:{spot.line}" if spot.line else config.source
