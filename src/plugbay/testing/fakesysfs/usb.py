"""Devices on USB: hubs, what is plugged into their ports, and its interfaces."""

from __future__ import annotations

from typing import Final

from plugbay.testing.fakesysfs.places import FakeSysfsDevice

_MAJOR: Final = 189
_DEVICES_OF_A_BUS: Final = 128
_LINUX_FOUNDATION: Final = 0x1D6B
_ROOT_HUB_2: Final = 0x0002
_HUB_CLASS: Final = 0x09


class FakeUsbInterface(FakeSysfsDevice):
    """One interface of a USB device; drivers bind to interfaces, and their class devices lie below."""


class FakeUsbDevice(FakeSysfsDevice):
    """A USB device, or a hub with devices in its ports.

    Attributes:
        bus: the number of its bus.
        address: its number on the bus; each device that is plugged in gets the next one, as on a real bus.
        root_hub: the hub from which its bus hangs, itself perhaps.
        newest_address: in a root hub, the last address that was given out.
    """

    def __init__(
        self, parent: FakeSysfsDevice, name: str, *, bus: int, address: int, root_hub: FakeUsbDevice | None = None
    ) -> None:
        super().__init__(parent.trees, parent.place / name, subsystem=parent.trees.bus("usb"), parent=parent)
        self.bus = bus
        self.address = self.newest_address = address
        self.root_hub = root_hub or self

    def plug(
        self,
        port: int,
        *,
        vendor: int,
        product: int,
        serial: str = "",
        manufacturer: str = "",
        product_name: str = "",
        device_class: int = 0,
    ) -> FakeUsbDevice:
        """Plug a device into a port of this hub, from 1 on.

        Args:
            vendor, product: the IDs, as numbers: ``0x10c4``.
            serial, manufacturer, product_name: texts that the device tells; without one there is no such attribute.
        """
        path = f"{self.bus}-{port}" if self is self.root_hub else f"{self.name}.{port}"
        self.root_hub.newest_address += 1
        device = FakeUsbDevice(self, path, bus=self.bus, address=self.root_hub.newest_address, root_hub=self.root_hub)
        device.attribute("devpath", path.partition("-")[2])
        for name, text in (("serial", serial), ("manufacturer", manufacturer), ("product", product_name)):
            if text:
                device.attribute(name, text)
        device.describe(vendor, product, device_class)
        device.join_bus("usb")
        return device

    def interface(self, number: int, *, interface_class: int = 0xFF, driver: str = "") -> FakeUsbInterface:
        """Make an interface of configuration 1; class 0xff is the vendor's own."""
        prefix = f"{self.bus}-0" if self is self.root_hub else self.name
        place = self.place / f"{prefix}:1.{number}"
        interface = FakeUsbInterface(self.trees, place, subsystem=self.trees.bus("usb"), parent=self)
        interface.attribute("bInterfaceNumber", f"{number:02x}")
        interface.attribute("bInterfaceClass", f"{interface_class:02x}")
        interface.add_to_uevent({"DEVTYPE": "usb_interface", "INTERFACE": f"{interface_class}/0/0"})
        interface.join_bus(driver)
        return interface

    def describe(self, vendor: int, product: int, device_class: int) -> None:
        """Write the attributes of its descriptor, and make its node in ``/dev/bus/usb``."""
        for name, text in (
            ("idVendor", f"{vendor:04x}"),
            ("idProduct", f"{product:04x}"),
            ("bcdDevice", "0100"),
            ("bDeviceClass", f"{device_class:02x}"),
            ("busnum", str(self.bus)),
            ("devnum", str(self.address)),
            ("speed", "480"),
            ("version", " 2.00"),
        ):
            self.attribute(name, text)
        self.add_to_uevent(
            {
                "DEVTYPE": "usb_device",
                "PRODUCT": f"{vendor:x}/{product:x}/100",
                "TYPE": f"{device_class}/0/0",
                "BUSNUM": f"{self.bus:03}",
                "DEVNUM": f"{self.address:03}",
            }
        )
        number = (_MAJOR, (self.bus - 1) * _DEVICES_OF_A_BUS + self.address - 1)
        self.make_node(f"bus/usb/{self.bus:03}/{self.address:03}", number)


def root_hub(controller: FakeSysfsDevice, number: int) -> FakeUsbDevice:
    """Make the root hub of bus ``number``, from 1 on."""
    hub = FakeUsbDevice(controller, f"usb{number}", bus=number, address=1)
    hub.attribute("devpath", "0")
    hub.describe(_LINUX_FOUNDATION, _ROOT_HUB_2, _HUB_CLASS)
    hub.join_bus("usb")
    return hub
