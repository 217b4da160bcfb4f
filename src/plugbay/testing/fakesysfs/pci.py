"""Functions on a PCI bus."""

from __future__ import annotations

from typing import Final

from plugbay.testing.fakesysfs.places import FakeSysfsDevice, Trees
from plugbay.testing.fakesysfs.usb import FakeUsbDevice, root_hub

NO_NUMA_NODE: Final = -1
BRIDGE_CLASS: Final = 0x060400


class FakePciDevice(FakeSysfsDevice):
    """One PCI function; a bridge has others below it."""

    def pci(
        self,
        address: str,
        *,
        vendor: int,
        device: int,
        pci_class: int,
        driver: str = "",
        numa_node: int = NO_NUMA_NODE,
        iommu_group: int | None = None,
    ) -> FakePciDevice:
        """Make a function behind this bridge; see `FakeSysfs.pci`."""
        return make_function(
            self, address, (vendor, device, pci_class), driver=driver, numa_node=numa_node, iommu_group=iommu_group
        )

    def usb_bus(self, number: int) -> FakeUsbDevice:
        """Make the root hub of a USB bus, which this function controls."""
        return root_hub(self, number)


def make_function(
    parent: FakeSysfsDevice,
    address: str,
    kind: tuple[int, int, int],
    *,
    driver: str,
    numa_node: int,
    iommu_group: int | None,
) -> FakePciDevice:
    """Make a function of ``kind``: vendor, device and class. The attributes are those of Linux 6."""
    vendor, device, pci_class = kind
    function = FakePciDevice(parent.trees, parent.place / address, subsystem=parent.trees.bus("pci"), parent=parent)
    for name, text in (
        ("vendor", f"0x{vendor:04x}"),
        ("device", f"0x{device:04x}"),
        ("class", f"0x{pci_class:06x}"),
        ("subsystem_vendor", f"0x{vendor:04x}"),
        ("subsystem_device", "0x0000"),
        ("revision", "0x00"),
        ("numa_node", str(numa_node)),
        ("driver_override", "(null)"),
        ("modalias", _modalias(vendor, device, pci_class)),
    ):
        function.attribute(name, text)
    function.join_bus(driver)
    function.add_to_uevent(
        {
            "PCI_CLASS": f"{pci_class:X}",
            "PCI_ID": f"{vendor:04X}:{device:04X}",
            "PCI_SUBSYS_ID": f"{vendor:04X}:0000",
            "PCI_SLOT_NAME": address,
            "MODALIAS": _modalias(vendor, device, pci_class),
        }
    )
    if iommu_group is not None:
        group = parent.trees.root / "sys/kernel/iommu_groups" / str(iommu_group)
        function.point("iommu_group", group)
        function.appear(group / "devices" / address)
    return function


def _modalias(vendor: int, device: int, pci_class: int) -> str:
    base, sub, interface = pci_class >> 16, pci_class >> 8 & 0xFF, pci_class & 0xFF
    return f"pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd00000000bc{base:02X}sc{sub:02X}i{interface:02X}"


def host_bridge(trees: Trees, address: str) -> FakeSysfsDevice:
    """Make the directory of the root bus to which a function at ``address`` belongs, such as ``pci0000:3b``."""
    domain, bus, _ = address.split(":")
    return FakeSysfsDevice(trees, trees.root / "sys/devices" / f"pci{domain}:{bus}")
