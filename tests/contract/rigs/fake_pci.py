"""A PCI bus as sysfs shows it, below a directory: what is written to its files changes who drives a device."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

OWN = "i40e"
VFIO = "vfio-pci"


class FakePci:
    """One device of a model that ``own`` drives, and vfio-pci, which drives what is overridden to it.

    Attributes:
        history: who drove the device, first to last; empty for nobody.
    """

    def __init__(self, root: Path, address: str, *, group: str = "7") -> None:
        self.pci = root / "bus/pci"
        self.place = self.pci / "devices" / address
        self.address = address
        self.history = [OWN]
        devices = root / "kernel/iommu_groups" / group / "devices"
        for directory in (self.place, devices, self.pci / "drivers" / OWN, self.pci / "drivers" / VFIO):
            directory.mkdir(parents=True)
        for name, text in (("vendor", "0x8086\n"), ("device", "0x1572\n"), ("driver_override", "(null)\n")):
            (self.place / name).write_text(text)
        (self.place / "iommu_group").symlink_to(devices.parent)
        (devices / address).symlink_to(self.place)
        self._files = [self.pci / "drivers_probe", *(self.pci / "drivers" / each / "unbind" for each in (OWN, VFIO))]
        for file in self._files:
            file.touch()
        self._bind(OWN)

    @property
    def driver(self) -> str:
        link = self.place / "driver"
        return link.readlink().name if link.is_symlink() else ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """React to what is written, in order and to all of it, as sysfs does; which waits until it has reacted."""
        with ExitStack() as stack:
            for file in self._files:
                file.unlink()
                os.mkfifo(file)
                written = os.open(file, os.O_RDWR | os.O_NONBLOCK)  # so that there always is a reader
                stack.callback(os.close, written)
                loop = asyncio.get_running_loop()
                loop.add_reader(written, self._react, file, written)
                stack.callback(loop.remove_reader, written)
            yield

    def _react(self, file: Path, written: int) -> None:
        assert set(os.read(written, 4096).decode().split(self.address)) == {""}
        if file.name == "unbind" and file.parent.name == self.driver:
            (self.place / "driver").unlink()
            self.history.append("")
        elif file.name == "drivers_probe" and not self.driver:
            self._bind((self.place / "driver_override").read_text().strip() or OWN)
            self.history.append(self.driver)

    def _bind(self, driver: str) -> None:
        (self.place / "driver").symlink_to(self.pci / "drivers" / driver)
