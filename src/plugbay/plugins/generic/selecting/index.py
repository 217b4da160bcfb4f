"""The properties of devices, read once each, and the devices that have a value: rules are then sets."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Set
from typing import Final, assert_never

from plugbay.plugins.generic.config.rules import AllOf, AnyOf, Not, Selector, Where
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.ports import Hardware

_HEX: Final = frozenset({"vendor", "product", "class"})
"""Names whose values are hex digits, of which the case does not count."""
_CHEAP: Final = ("subsystem", "devtype", "name", "node")
"""Names that are known without a look at an attribute, the most telling one first."""
_ANYTHING: Final = "*"
_WILD: Final = re.compile(r"[*?\[]")


class PropertyIndex:
    """The devices of a machine by their properties, as they were last looked at."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._subsystems: dict[str, set[SysPath]] = {}
        self._all: set[SysPath] | None = None
        self._values: dict[str, dict[SysPath, str]] = {}
        self._having: dict[str, dict[str, set[SysPath]]] = {}
        self._known: dict[str, set[SysPath]] = {}

    def matching(self, selector: Selector, among: Set[SysPath] | None = None) -> set[SysPath]:
        """The devices that a selector chooses, of the whole machine or ``among`` some."""
        if among is None:
            subsystems = subsystems_of(selector)
            if subsystems is None:
                among = self._every()
            else:
                among = set().union(*map(self._of_subsystem, sorted(subsystems)))
        return self._chosen(selector, among)

    def value(self, device: SysDevice, name: str) -> str | None:
        """A property of a device; see `Hardware.property_of`."""
        return self._values.get(name, {}).get(device.path) or self._hardware.property_of(device, name)

    def mend(self, devices: Iterable[SysPath]) -> frozenset[SysPath]:
        """Forget what is known of devices and of those below; all of those."""
        changed = set(devices)
        above = tuple(f"{path}/" for path in changed)
        for known in [self._all] if self._all is not None else [*self._subsystems.values()]:
            changed.update([path for path in known if path.startswith(above)])
        for path in changed:
            for name, values in self._values.items():
                self._known[name].discard(path)
                value = values.pop(path, None)
                if value is not None:
                    having = self._having[name][value]
                    having.discard(path)
                    if not having:
                        del self._having[name][value]
            for paths in self._subsystems.values():
                paths.discard(path)
            device = self._hardware.device(path)
            if device is not None and device.subsystem in self._subsystems:
                self._subsystems[device.subsystem].add(path)
            if self._all is not None:
                (self._all.discard if device is None else self._all.add)(path)
        return frozenset(changed)

    def _of_subsystem(self, subsystem: str) -> set[SysPath]:
        known = self._subsystems.get(subsystem)
        if known is None:
            found = {device.path for device in self._hardware.devices_of(subsystem)}
            known = self._subsystems[subsystem] = found
        return known

    def _every(self) -> set[SysPath]:
        if self._all is None:
            self._all = {device.path for device in self._hardware.all()}
        return self._all

    def _chosen(self, selector: Selector, among: Set[SysPath]) -> set[SysPath]:
        match selector:
            case Where():
                return self._having_one(selector, among)
            case AllOf(parts=parts):
                for part in sorted(parts, key=_cost):
                    among = self._chosen(part, among)
                return set(among)
            case AnyOf(parts=parts):
                return set().union(*(self._chosen(part, among) for part in parts))
            case Not(part=part):
                return set(among - self._chosen(part, among))
            case _:
                assert_never(selector)

    def _having_one(self, where: Where, among: Set[SysPath]) -> set[SysPath]:
        values = self._values.setdefault(where.name, {})
        having = self._having.setdefault(where.name, {})
        known = self._known.setdefault(where.name, set())
        for path in among - known:
            device = self._hardware.device(path)
            if device is None:
                continue  # it is gone, and remembering that would never end
            known.add(path)
            value = self._hardware.property_of(device, where.name)
            if value is not None:
                values[path] = value
                having.setdefault(value, set()).add(path)
        found: set[SysPath] = set()
        for pattern in where.patterns:
            if pattern == _ANYTHING:
                found.update(path for path in among if path in values)
                continue
            if where.name not in _HEX and not _WILD.search(pattern):
                found |= having.get(pattern, set()) & among
                continue
            is_match = pattern_of(where.name, pattern)
            if len(among) < len(having):
                found.update(path for path in among if (value := values.get(path)) is not None and is_match(value))
            else:
                found.update(*(paths & among for value, paths in having.items() if is_match(value)))
        return found


def pattern_of(name: str, pattern: str) -> Callable[[str], object]:
    """The test of values of a property by a shell pattern, such as ``cp21*``."""
    return re.compile(fnmatch.translate(pattern), re.IGNORECASE if name in _HEX else 0).match


def subsystems_of(selector: Selector) -> frozenset[str] | None:
    """The subsystems in which alone a selector can choose a device; None for any."""
    match selector:
        case Where(name="subsystem", patterns=patterns):
            return None if any(map(_WILD.search, patterns)) else frozenset(patterns)
        case AllOf(parts=parts):
            known = [each for each in map(subsystems_of, parts) if each is not None]
            return frozenset.intersection(*known) if known else None
        case AnyOf(parts=parts):
            each_of = [subsystems_of(part) for part in parts]
            return None if None in each_of else frozenset().union(*(each for each in each_of if each is not None))
        case _:
            return None


def _cost(selector: Selector) -> int:
    """The order in which parts are asked: what is known at once first, and last whether there is a value at all."""
    if not isinstance(selector, Where) or _ANYTHING in selector.patterns:
        return len(_CHEAP) + 1
    return _CHEAP.index(selector.name) if selector.name in _CHEAP else len(_CHEAP)
