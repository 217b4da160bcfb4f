"""The reasons for which a rule does not take a device, as sentences."""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.plugins.generic.config.globs import GlobProblem, parse_glob
from plugbay.plugins.generic.config.rules import AllOf, AnyOf, DevNames, Not, Paths, Selector, Usb, UsbRule, Where
from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.plugins.generic.selecting.index import PropertyIndex
from plugbay.plugins.generic.selecting.paths import matched, why_not_device
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.sight import HostSight
from plugbay.plugins.generic.selecting.tree import FileKind
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.selecting.usb import found_by_rules, is_chosen, why_no_set
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """The thing that an explanation is about.

    Attributes:
        path: as it was asked for.
        target: the path to which it leads; the node of a device; or the name of an interface.
    """

    path: str
    target: str
    kind: FileKind
    device: SysDevice | None

    def is_in(self, unit: Unit) -> bool:
        """Whether a unit gives it."""
        given = {*(node.host_path for node in unit.nodes), *(mount.host_path for mount in unit.mounts)}
        if any(f"{each}/".startswith(f"{path}/") for each in (self.path, self.target) for path in given):
            return True  # in a directory that is given, too
        if self.device is None:
            return False
        return self.device.name in unit.interfaces or (self.device.path in unit.sys_paths and not self.device.node)

    def identity(self, hardware: Hardware) -> str:
        """The identity of its hardware; empty for a file that is not a device."""
        return "" if self.device is None else hardware.identity(hardware.physical(self.device))


def why_not_path(what: Paths, asked: Asked, sight: HostSight) -> str:
    """Why a group of paths does not give a file."""
    found = []
    position = None
    for rule in what.rules:
        glob = parse_glob(rule.pattern)
        if isinstance(glob, GlobProblem):
            return f"The path {rule.pattern!r} is not a pattern: {glob.text}."
        matches = matched(rule, glob, sight)
        found.append((rule, matches.paths))
        for path, reason in matches.refused:
            if path in (asked.path, asked.target):
                return f"{path} matches {rule.pattern!r}, but it {reason}."
        for path in (asked.path, asked.target):
            if path in matches.paths and position is None:
                position = rule, path
    if position is None:
        patterns = ", ".join(repr(rule.pattern) for rule in what.rules)
        return f"Its path is not {patterns}." if len(what.rules) == 1 else f"Its path is none of {patterns}."
    rule, path = position
    for other, paths in found:
        if not paths and not other.is_optional:
            return f"{path} matches {rule.pattern!r}, but the group also needs {other.pattern!r}, which has no match."
    most = {other.pattern: len(paths) * max(other.limit, 1) for other, paths in found if paths}
    scarce = min(most, key=lambda pattern: (most[pattern], pattern))
    return (
        f"{path} matches {rule.pattern!r}, but it is beyond the units of the group: {scarce!r} is enough for"
        f" {most[scarce]} by its matches and its limit. Raise the limit."
    )


def why_not_name(what: DevNames, asked: Asked, sight: HostSight) -> str:
    """Why a group of names below ``/dev`` does not give a file."""
    expression = what.expression.pattern
    if not what.is_like(asked.path):
        return f"Its name from /dev on does not match {expression!r}."
    if not what.matches(asked.path):
        return f"It matches {expression!r}, and a later entry as well, which counts."
    reason = why_not_device(asked.path, sight, takes_directories=True)
    return f"{asked.path} matches {expression!r}, but it {reason or 'is in a directory that is not looked into'}."


def why_not_usb(what: Usb, asked: Asked, hardware: Hardware) -> str:
    """Why a group of USB devices does not give a device."""
    owner = None if asked.device is None else hardware.physical(asked.device)
    if owner is None or owner.devtype != "usb_device":
        return "The rule takes USB devices, and this is not one."
    identity = hardware.identity(owner)
    if any(is_chosen(rule, owner, hardware) for rule in what.rules):
        if asked.target != owner.node:
            return f"The rule takes {identity}, but its nodes do not choose {asked.target or asked.path}."
        if problem := why_no_set(what, found_by_rules(what, hardware)):
            return f"It matches, but {problem}"
        return f"The rule takes {identity}, but a set is not complete, or a node that it needs is missing."
    return " ".join(_usb_reason(rule, owner, hardware) for rule in what.rules) or "The group names no USB device."


def why_not_matched(selector: Selector, asked: Asked, index: PropertyIndex, hardware: Hardware) -> str:
    """Why a selector does not choose a device, nor another part of the same hardware with its nodes."""
    if asked.device is None:
        return "The rule takes devices of the kernel, and sysfs shows none here."
    owner = hardware.physical(asked.device)
    family = {device.path: device for device in (owner, asked.device, *hardware.below(owner))}
    chosen = index.matching(selector, family.keys())
    if chosen:
        first = family[min(chosen)]
        if asked.device.path in chosen:
            return "The rule matches, but its nodes do not choose this one."
        return f"The rule matches {first.name}, which is part of the same hardware, but does not give this node."
    return f"It does not match: {_difference(selector, asked.device, index)}."


def _usb_reason(rule: UsbRule, device: SysDevice, hardware: Hardware) -> str:
    wanted = (
        ("idVendor", "vendor", None if rule.vendor is None else f"{rule.vendor:04x}"),
        ("idProduct", "product", None if rule.product is None else f"{rule.product:04x}"),
        ("serial", "serial", rule.serial or None),
    )
    differences = []
    for attribute, name, value in wanted:
        real = hardware.attribute(device, attribute)
        if value is not None and real != value:
            differences.append(f"its {name} is {real!r}, not {value!r}" if real else f"it has no {name}")
    return f"It is another USB device: {' and '.join(differences)}."


def _difference(selector: Selector, device: SysDevice, index: PropertyIndex) -> str:
    """The first part of a selector that a device does not match, in words."""
    match selector:
        case Where(name=name, patterns=patterns):
            value = index.value(device, name)
            line = f" (line {selector.spot.line})" if selector.spot.line else ""
            if value is None:
                return f"it has no {name}{line}"
            return f"its {name} is {value!r}, not {_listed(patterns)}{line}"
        case AllOf(parts=parts):
            return _difference(next(part for part in parts if not index.matching(part, {device.path})), device, index)
        case AnyOf(parts=parts):
            return " and ".join(_difference(part, device, index) for part in parts) or "the rule takes nothing"
        case Not(part=part):
            return f"the rule leaves out {_wording(part)}, and it is that"


def _wording(selector: Selector) -> str:
    match selector:
        case Where(name=name, patterns=patterns):
            return f"{name} {_listed(patterns)}"
        case AllOf(parts=parts):
            return " with ".join(map(_wording, parts))
        case AnyOf(parts=parts):
            return " or ".join(map(_wording, parts))
        case Not(part=part):
            return f"all but {_wording(part)}"


def _listed(patterns: Iterable[str]) -> str:
    return " or ".join(map(repr, patterns))
