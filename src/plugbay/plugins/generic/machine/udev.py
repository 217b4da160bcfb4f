"""The properties that udev found out, from its files: ``ID_SERIAL``, ``ID_PATH`` and others. Blocks.

udev writes them some time after the kernel's uevent, and puts a new file in the place of the old one.

Source: systemd 257 ``sd-device.c``, ``device_get_device_id`` and ``device_read_db_internal``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from plugbay.plugins.generic.machine.values import SysDevice

_MOST_BYTES: Final = 1 << 20
_PROPERTY: Final = "E:"


class UdevFiles:
    """Reads the files of a directory, which is the host's ``/run/udev/data``, each when it is first asked for.

    Attributes:
        is_asked: whether any was, so that changes of the directory matter.
    """

    def __init__(self, directory: str) -> None:
        self.directory: Final = directory
        self.is_asked = False
        self._known: dict[str, Mapping[str, str]] = {}

    def properties(self, device: SysDevice) -> Mapping[str, str]:
        """The properties of a device; none where udev does not run, or has nothing to say."""
        self.is_asked = True
        name = file_name(device)
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def drop(self, device: SysDevice) -> None:
        """Forget what is known of a device that changed."""
        self._known.pop(file_name(device), None)

    def forget(self) -> None:
        self._known.clear()

    def differing(self) -> frozenset[str]:
        """Read all known files again; returns the names of those that say something else now."""
        before, self._known = self._known, {name: self._read(name) for name in self._known}
        return frozenset(name for name, properties in self._known.items() if properties != before[name])

    def _read(self, name: str) -> Mapping[str, str]:
        try:
            with open(os.path.join(self.directory, name), "rb") as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except (OSError, ValueError):
            return {}
        lines = (line.removeprefix(_PROPERTY) for line in text.split("\n") if line.startswith(_PROPERTY))
        return dict(line.split("=", 1) for line in lines if "=" in line)


def file_name(device: SysDevice) -> str:
    """The name of udev's file: ``c188:0`` or ``b8:0`` by number, ``n2`` for an interface, else ``+usb:1-1``."""
    if device.number is not None:
        major, minor = device.number
        return f"{'b' if device.is_block else 'c'}{major}:{minor}"
    if device.subsystem == "net" and (index := device.properties.get("IFINDEX", "")):
        return f"n{index}"
    return f"+{device.subsystem}:{device.path.rpartition('/')[2].replace('!', '/')}".replace("/", "!")
