"""The files and links of sysfs, a device at a time. Blocks.

Devices vanish while they are read, and drivers refuse reads as they like: neither is an error here.

Source: Linux ``Documentation/admin-guide/sysfs-rules.rst``, ``Documentation/ABI/testing/sysfs-uevent``; systemd 257
``sd-device.c`` for attributes that are links.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.plugins.generic.machine.values import SysPath

_MOST_BYTES: Final = 4096
"""An attribute is at most a page long; what is longer is a binary one."""
_USB: Final = "usb"
_USB_NUMBER: Final = re.compile("[0-9a-fA-F]{1,4}")
_KINDS: Final = (("class", ""), ("bus", "/devices"))


class SysfsReader:
    """Reads sysfs below ``root``, which is ``/sys``; every path is one below its mount."""

    def __init__(self, root: Path) -> None:
        self.root: Final = os.fspath(root).rstrip("/")

    def subsystems(self) -> list[str]:
        """The names of all classes and buses, sorted."""
        return sorted({name for kind, _ in _KINDS for name in self.names(f"/{kind}")})

    def kinds(self, subsystem: str) -> frozenset[str]:
        """Whether it is a ``bus``, a ``class``, or both, as ``mei`` is."""
        return frozenset(kind for kind, below in _KINDS if os.path.isdir(f"{self.root}/{kind}/{subsystem}{below}"))

    def paths_of(self, subsystem: str) -> list[SysPath]:
        """The devices of a class, of a bus, or of both: some names are those of both."""
        found: set[SysPath] = set()
        for kind, below in _KINDS:
            directory = f"/{kind}/{subsystem}{below}"
            for name in self.names(directory):
                if path := self.target(directory, name):
                    found.add(path)
                elif subsystem == _USB and (path := self._directory(f"{directory}/{name}")):
                    found.add(path)
        return sorted(found)

    def numbered_paths(self) -> list[SysPath]:
        """The devices that have a major and a minor number."""
        links = [(directory, name) for directory in ("/dev/char", "/dev/block") for name in self.names(directory)]
        return sorted({path for directory, name in links if (path := self.target(directory, name))})

    def subsystem_of(self, path: str) -> str:
        """The subsystem of the device at ``path``; empty for a directory that is not a device, or not there."""
        return self._name_of_target(f"{self.root}{path}/subsystem") or ""

    def properties(self, path: str) -> Mapping[str, str] | None:
        """The lines of its file ``uevent``: none if a driver refuses them, and None for a device that is gone.

        Without such a file they are what the attributes of a USB device tell, by which squat's plugin finds it.
        """
        try:
            text = _content(f"{self.root}{path}/uevent")
        except FileNotFoundError:
            return self._usb_properties(path) if os.path.isdir(f"{self.root}{path}") else None
        except (OSError, ValueError):
            return {} if os.path.isdir(f"{self.root}{path}") else None
        return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)

    def _usb_properties(self, path: str) -> Mapping[str, str]:
        """The properties of a USB device as its attributes tell them; none for anything else, which has no such IDs."""
        texts = [self.attribute(path, name) for name in ("idVendor", "idProduct", "busnum", "devnum")]
        if not all(text and _USB_NUMBER.fullmatch(text.strip()) for text in texts):
            return {}
        bus, number = (f"{(text or '').strip():0>3}" for text in texts[2:])
        return {"DEVTYPE": "usb_device", "DEVNAME": f"bus/usb/{bus}/{number}"}

    def attribute(self, path: str, name: str) -> str | None:
        """The content of an attribute, without the newline at its end; None if there is none, or it is not readable.

        For a link it is the name of what it points to, such as of ``driver``. Bytes that are not UTF-8 are replaced.
        """
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            return None
        place = f"{self.root}{path}/{name}"
        try:
            return _content(place).removesuffix("\n")
        except IsADirectoryError:
            return self._name_of_target(place)
        except (OSError, ValueError):
            return None

    def target(self, directory: str, name: str) -> SysPath | None:
        """The device to which a link points; None for anything but a link to a device."""
        try:
            text = os.readlink(f"{self.root}{directory}/{name}")
        except (OSError, ValueError):
            return None  # a file, as /sys/class/firmware/timeout, or gone
        path = text.lstrip("./")
        if path.startswith("devices/") and "/.." not in path and not text.startswith("/"):
            return SysPath(f"/{path}")  # as kernels write them: up to the top, and down from there
        return None

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; none if it is not there."""
        try:
            return sorted(os.listdir(self.root + directory))
        except (OSError, ValueError):
            return []

    def _directory(self, path: str) -> SysPath | None:
        """The directory at ``path``, wherever links lead below the root: trees that people made have such."""
        real, root = os.path.realpath(self.root + path), os.path.realpath(self.root)
        return SysPath(real.removeprefix(root)) if real.startswith(f"{root}/") and os.path.isdir(real) else None

    @staticmethod
    def _name_of_target(place: str) -> str | None:
        try:
            return posixpath.basename(os.readlink(place))
        except (OSError, ValueError):
            return None


def _content(place: str) -> str:
    # Three system calls; an object of a file would take six.
    file = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(file, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(file)
