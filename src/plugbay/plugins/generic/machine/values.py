"""Devices as the kernel shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NewType

from plugbay.values import dataclass

SysPath = NewType("SysPath", str)
"""The path of a device below the mount of sysfs, such as ``/devices/virtual/misc/kvm``; as a uevent's DEVPATH."""


@dataclass(frozen=True, slots=True)
class SysDevice:
    """A device of the kernel: a directory of sysfs that has a subsystem.

    Attributes:
        subsystem: such as ``tty``, ``usb``, ``pci``.
        devtype: such as ``usb_device`` or ``disk``; empty if the kernel tells none.
        driver: the name of the driver that is bound; empty for none.
        node: its node on the host, such as ``/dev/ttyUSB0``; empty without one.
        number: major and minor; None without a node.
        is_block: whether its node is a block device.
        properties: as in its file ``uevent``.
        parent: the nearest directory above that is a device too; None at the top.
    """

    path: SysPath
    subsystem: str
    devtype: str = ""
    driver: str = ""
    node: str = ""
    number: tuple[int, int] | None = None
    is_block: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    parent: SysPath | None = None

    @property
    def name(self) -> str:
        """The kernel's name, such as ``ttyUSB0`` or ``0000:3b:00.0``."""
        return self.path.rpartition("/")[2].replace("!", "/")
