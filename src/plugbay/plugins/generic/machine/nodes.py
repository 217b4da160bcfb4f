"""Devices by their nodes in ``/dev``: by number, whatever a node is called, or by name. Blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from plugbay.plugins.generic.machine.reading import SysfsReader
from plugbay.plugins.generic.machine.values import SysDevice, SysPath

_KINDS: Final = ((stat.S_ISCHR, "char"), (stat.S_ISBLK, "block"))


class DeviceNodes:
    """Finds the devices that nodes belong to; told of each device that is read or dropped.

    Args:
        dev_root: where the host's ``/dev`` is, without a slash at its end.
        device_at: reads the device at a path of sysfs, which then is told of here.
    """

    def __init__(self, reader: SysfsReader, dev_root: str, device_at: Callable[[SysPath], SysDevice | None]) -> None:
        self._reader = reader
        self._dev_root = dev_root
        self._device_at = device_at
        self._paths: dict[str, SysPath] = {}
        self.has_all = False

    def forget(self) -> None:
        self._paths.clear()
        self.has_all = False

    def put(self, device: SysDevice) -> None:
        if device.node:
            self._paths[device.node] = device.path

    def drop(self, device: SysDevice) -> None:
        if self._paths.get(device.node) == device.path:
            del self._paths[device.node]

    def read_all(self) -> None:
        """Read every device that has a node."""
        if not self.has_all:
            for path in self._reader.numbered_paths():
                self._device_at(path)
            self.has_all = True

    def find(self, node: str) -> SysDevice | None:
        """The device whose node is at ``node``, a path of the host, or a link to one."""
        if node in self._paths:
            return self._device_at(self._paths[node])
        if not node.startswith("/dev/"):
            return None
        place = self._dev_root + node.removeprefix("/dev")
        try:
            found = os.stat(place)
        except (OSError, ValueError):
            return None
        for is_kind, kind in _KINDS:
            if is_kind(found.st_mode):
                number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
                target = self._reader.target(f"/dev/{kind}", number)
                return None if target is None else self._device_at(target)
        return self._by_name(place)

    def _by_name(self, place: str) -> SysDevice | None:
        """The device by its node's name, where nodes are other files, as in trees of tests."""
        self.read_all()
        real, root = os.path.realpath(place), os.path.realpath(self._dev_root)
        path = self._paths.get(f"/dev{real.removeprefix(root)}") if real.startswith(f"{root}/") else None
        return None if path is None else self._device_at(path)
