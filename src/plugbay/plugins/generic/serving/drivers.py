"""Whether a driver is bound to the hardware of a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from plugbay.plugins.generic.machine.values import SysDevice


class DeviceFamily(Protocol):
    """The devices above and below a device; `plugbay.plugins.generic.machine` has the true one."""

    def ancestors(self, device: SysDevice) -> Iterable[SysDevice]:
        """From its parent on."""

    def below(self, device: SysDevice) -> Iterable[SysDevice]: ...


def has_driver(family: DeviceFamily, device: SysDevice) -> bool:
    """Whether a driver serves the device: the one of the nearest device, from itself up, that can have one.

    A USB device always has the driver ``usb``, which only finds its interfaces: of these one has to have a driver. A
    device without hardware, such as ``/dev/fuse``, needs none.
    """
    for each in (device, *family.ancestors(device)):
        if each.devtype == "usb_device":
            return any(below.driver for below in family.below(each) if below.devtype == "usb_interface")
        if each.driver:
            return True
        if each.subsystem == "pci" or each.devtype == "usb_interface":
            return False
    return True
