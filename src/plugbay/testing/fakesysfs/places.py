"""A device of sysfs: its directory, its attributes, its links, its node below ``/dev``."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

_BLOCK: Final = "block"


@dataclass(frozen=True, slots=True)
class Trees:
    """The directories of a machine.

    Attributes:
        root: the directory that holds ``sys`` and ``dev``.
        real_nodes: whether nodes in ``dev`` are device nodes; else they are empty files.
    """

    root: Path
    real_nodes: bool = False

    def bus(self, name: str) -> Path:
        return self.root / "sys/bus" / name

    def class_of(self, subsystem: str) -> Path:
        return self.root / "sys/class" / subsystem


class FakeSysfsDevice:
    """A directory below ``/sys/devices`` with what points to it. Parents make children; `FakeSysfs` makes the first.

    Args:
        place: its directory, which is made.
        subsystem: the directory of its bus or class.

    Attributes:
        place: its directory.
        node: its device node below ``root/dev``; None for a device without one.
        children: the devices below it, in the order in which they came.
    """

    def __init__(
        self, trees: Trees, place: Path, *, subsystem: Path | None = None, parent: FakeSysfsDevice | None = None
    ) -> None:
        self.trees = trees
        self.place = place
        self.node: Path | None = None
        self.children: list[FakeSysfsDevice] = []
        self._parent = parent
        self._links: list[Path] = []
        self._uevent: dict[str, str] = {}
        place.mkdir(parents=True)
        if parent is not None:
            parent.children.append(self)
        if subsystem is not None:
            self.point("subsystem", subsystem)
        self.add_to_uevent({})

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def driver(self) -> str:
        """The driver that has the device; empty if there is none."""
        link = self.place / "driver"
        return link.readlink().name if link.is_symlink() else ""

    def attribute(self, name: str, text: str) -> None:
        """Write an attribute, such as ``("idVendor", "10c4")``; the kernel's newline is added."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def class_device(
        self, subsystem: str, name: str, *, number: tuple[int, int] | None = None, devname: str | None = None
    ) -> FakeSysfsDevice:
        """Make a device of a class below this one, such as ``("tty", "ttyUSB0", number=(188, 0))``.

        It appears in ``/sys/class`` (of ``block`` too), and with a number in ``/sys/dev`` and as a node in ``/dev``.

        Args:
            number: major and minor number; None for a device without a node, such as a network interface.
            devname: the node's path below ``/dev``, if it is not the name.
        """
        class_directory = self.trees.class_of(subsystem)
        device = FakeSysfsDevice(self.trees, self.place / subsystem / name, subsystem=class_directory, parent=self)
        device.point("device", self.place)
        device.appear(class_directory / name)
        if number is not None:
            device.make_node(devname or name, number, is_block=subsystem == _BLOCK)
        return device

    def bus_device(self, bus: str, name: str, *, driver: str = "") -> FakeSysfsDevice:
        """Make a device of a bus below this one, such as ``("usb-serial", "ttyUSB0", driver="cp210x")``."""
        bus_directory = self.trees.bus(bus)
        device = FakeSysfsDevice(self.trees, self.place / name, subsystem=bus_directory, parent=self)
        device.join_bus(driver)
        return device

    def bind(self, driver: str) -> None:
        """Give the device to a driver of its bus, or with ``""`` to none; the driver it had lets go of it."""
        if self.driver:
            (self.place / "driver").resolve().joinpath(self.name).unlink(missing_ok=True)
            (self.place / "driver").unlink()
        self.add_to_uevent({"DRIVER": driver})
        if not driver:
            return
        directory = (self.place / "subsystem").resolve() / "drivers" / driver
        directory.mkdir(parents=True, exist_ok=True)
        self.point("driver", directory)
        self.appear(directory / self.name)

    def remove(self) -> None:
        """Take the device away, and all below it: nodes first, as a kernel does."""
        for child in reversed(self.children.copy()):
            child.remove()
        if self._parent is not None:
            self._parent.children.remove(self)
        for link in self._links:
            link.unlink(missing_ok=True)
        if self.node is not None:
            self.node.unlink(missing_ok=True)
        shutil.rmtree(self.place, ignore_errors=True)

    def walk(self) -> Iterator[FakeSysfsDevice]:
        """This device and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    # --- for further kinds of devices -------------------------------------------------------------------------------

    def join_bus(self, driver: str) -> None:
        """Appear among the devices of the bus that is its subsystem, and give the device to a driver, if any."""
        self.appear((self.place / "subsystem").resolve() / "devices" / self.name)
        if driver:
            self.bind(driver)

    def make_node(self, devname: str, number: tuple[int, int], *, is_block: bool = False) -> None:
        """Make its device node ``/dev/devname``, and tell of it in ``dev``, ``uevent`` and ``/sys/dev``."""
        major, minor = number
        self.attribute("dev", f"{major}:{minor}")
        self.appear(self.trees.root / "sys/dev" / ("block" if is_block else "char") / f"{major}:{minor}")
        self.add_to_uevent({"MAJOR": str(major), "MINOR": str(minor), "DEVNAME": devname})
        self.node = self.trees.root / "dev" / devname
        self.node.parent.mkdir(parents=True, exist_ok=True)
        if self.trees.real_nodes:
            kind = stat.S_IFBLK if is_block else stat.S_IFCHR
            os.mknod(self.node, kind | 0o600, os.makedev(major, minor))
        else:
            self.node.touch(exist_ok=False)

    def appear(self, link: Path) -> None:
        """Make a link to this device, which goes with it."""
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.place, link.parent))
        self._links.append(link)

    def point(self, name: str, target: Path) -> None:
        """Make a link in its directory to a directory elsewhere, which is made if it is missing."""
        target.mkdir(parents=True, exist_ok=True)
        (self.place / name).symlink_to(os.path.relpath(target, self.place))

    def add_to_uevent(self, values: Mapping[str, str]) -> None:
        """Set lines of its file ``uevent``; an empty value takes its line away."""
        self._uevent |= values
        lines = (f"{name}={value}\n" for name, value in self._uevent.items() if value)
        (self.place / "uevent").write_text("".join(lines))
