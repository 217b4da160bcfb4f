"""Devices in the order of their paths, and in groups, kept so while single ones come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from plugbay.plugins.generic.machine.values import SysDevice, SysPath


class OrderedDevices:
    """Devices by their paths: one that comes or goes costs no sorting of the others."""

    def __init__(self) -> None:
        self._paths: list[SysPath] = []
        self._devices: dict[SysPath, SysDevice] = {}
        self._tuple: tuple[SysDevice, ...] | None = None

    def put(self, device: SysDevice) -> None:
        """Add a device, or put it into the place of the one with its path."""
        if device.path not in self._devices:
            insort(self._paths, device.path)
        self._devices[device.path] = device
        self._tuple = None

    def discard(self, path: SysPath) -> None:
        if self._devices.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)]
            self._tuple = None

    def paths(self) -> frozenset[SysPath]:
        return frozenset(self._paths)

    def in_order(self) -> tuple[SysDevice, ...]:
        if self._tuple is None:
            self._tuple = tuple(map(self._devices.__getitem__, self._paths))
        return self._tuple

    def below(self, path: SysPath) -> Iterator[SysDevice]:
        """The devices whose paths begin with ``path`` and a slash."""
        prefix = f"{path}/"
        for index in range(bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[index].startswith(prefix):
                return
            yield self._devices[self._paths[index]]


class DeviceGroups:
    """Devices by what a function makes of each; it is asked again only for those that changed.

    Args:
        key: the function; it may depend on the device alone.
        ordinals: of each device by its key; they stay while the device is there, also in groups that are made anew.
    """

    def __init__(self, key: Callable[[SysDevice], object], ordinals: dict[object, dict[SysPath, int]]) -> None:
        self._key = key
        self._ordinals = ordinals
        self._groups: dict[object, OrderedDevices] = {}
        self._keys: dict[SysPath, object] = {}
        self._changed: dict[SysPath, SysDevice | None] = {}

    def put(self, path: SysPath, device: SysDevice | None) -> None:
        """Take note that the device at ``path`` came, changed, or with None went."""
        self._changed[path] = device

    def alike(self, key: object) -> tuple[SysDevice, ...]:
        """The devices with this key, in the order of their paths."""
        self._settle()
        group = self._groups.get(key)
        return () if group is None else group.in_order()

    def ordinal(self, device: SysDevice, order: Callable[[SysDevice], Any]) -> int:
        """The place of a device among those with its key, from 0 on; 0 too for a device that is not in a group.

        Devices that were asked for keep their places when another one goes; one that comes gets a free place.

        Args:
            order: gives what they are sorted by; always the same function.
        """
        self._settle()
        if device.path not in self._keys:
            return 0
        key = self._keys[device.path]
        if device.path not in self._ordinals.get(key, ()):
            in_order = sorted(self._groups[key].in_order(), key=order)
            self._ordinals[key] = _numbered([each.path for each in in_order], self._ordinals.get(key, {}))
        return self._ordinals[key][device.path]

    def items(self) -> Iterator[tuple[object, tuple[SysDevice, ...]]]:
        """Every key with its devices."""
        self._settle()
        return ((key, group.in_order()) for key, group in self._groups.items())

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        for path, device in changed.items():
            if path in self._keys:
                old = self._keys.pop(path)
                if device is None:
                    self._ordinals.get(old, {}).pop(path, None)
                self._groups[old].discard(path)
                if not self._groups[old].in_order():
                    del self._groups[old]
            if device is not None:
                key = self._keys[path] = self._key(device)
                self._groups.setdefault(key, OrderedDevices()).put(device)


def _numbered(in_order: list[SysPath], before: dict[SysPath, int]) -> dict[SysPath, int]:
    """A number for each path: the one it had, or its place if that is free, or the lowest free one."""
    numbers = {path: before[path] for path in in_order if path in before}
    taken = set(numbers.values())
    free = (number for number in count() if number not in taken)
    for place, path in enumerate(in_order):
        if path not in numbers:
            numbers[path] = next(free) if place in taken else place
            taken.add(numbers[path])
    return numbers
