"""The machine: NUMA nodes, and the buses from which everything hangs."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.topology import pretended_nodes
from plugbay.testing.fakesysfs.pci import NO_NUMA_NODE, FakePciDevice, host_bridge, make_function
from plugbay.testing.fakesysfs.places import FakeSysfsDevice, Trees


class FakeSysfs:
    """The ``/sys`` and ``/dev`` of a machine below ``root``, empty at first::

        sysfs = FakeSysfs(tmp_path)
        sysfs.numa(2)
        hub = sysfs.pci("0000:00:14.0", vendor=0x8086, device=0xA36D, pci_class=0x0C0330).usb_bus(1)
        stick = hub.plug(1, vendor=0x10C4, product=0xEA60, serial="0001")
        port = stick.interface(0, driver="cp210x").bus_device("usb-serial", "ttyUSB0", driver="cp210x")
        port.class_device("tty", "ttyUSB0", number=(188, 0))
        stick.remove()

    Args:
        real_nodes: make device nodes with their numbers, which takes root. Else they are empty files.

    Source: Linux 6 ``Documentation/ABI``, ``Documentation/admin-guide/sysfs-rules.rst``.
    """

    def __init__(self, root: Path, *, real_nodes: bool = False) -> None:
        self.root = root
        self.sys = root / "sys"
        self.dev = root / "dev"
        self._trees = Trees(root, real_nodes)
        self._host_bridges: dict[str, FakeSysfsDevice] = {}
        for directory in (self.sys / "bus", self.sys / "class", self.sys / "devices/virtual", self.dev):
            directory.mkdir(parents=True, exist_ok=True)

    def numa(self, nodes: int, *, cpus_of_each: int = 4) -> None:
        """Give the machine ``nodes`` NUMA nodes from 0 on, with the distances 10 and 20."""
        topology = pretended_nodes(nodes)
        base = self.sys / "devices/system/node"
        for node, distances in topology.distances.items():
            directory = base / f"node{node}"
            directory.mkdir(parents=True)
            first = node * cpus_of_each
            (directory / "cpulist").write_text(f"{first}-{first + cpus_of_each - 1}\n")
            (directory / "distance").write_text(" ".join(map(str, distances.values())) + "\n")
        (base / "online").write_text("0\n" if nodes == 1 else f"0-{nodes - 1}\n")

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
        """Make a PCI function on a root bus.

        Args:
            address: ``domain:bus:device.function``, such as ``0000:3b:00.0``.
            pci_class: base class, subclass and interface in one number: 0x030200 is a 3D controller.
            numa_node: -1 for "no information".
            iommu_group: the number of its IOMMU group, which VFIO hands out as a whole.
        """
        name = address.rpartition(":")[0]
        bridge = self._host_bridges.get(name)
        if bridge is None:
            bridge = self._host_bridges[name] = host_bridge(self._trees, address)
        return make_function(
            bridge, address, (vendor, device, pci_class), driver=driver, numa_node=numa_node, iommu_group=iommu_group
        )

    def virtual(self, subsystem: str, name: str, *, number: tuple[int, int] | None = None) -> FakeSysfsDevice:
        """Make a class device without hardware, such as ``("misc", "kvm", number=(10, 232))`` or ``("net", "lo")``."""
        place = self.sys / "devices/virtual" / subsystem / name
        class_directory = self._trees.class_of(subsystem)
        device = FakeSysfsDevice(self._trees, place, subsystem=class_directory)
        device.appear(class_directory / name)
        if number is not None:
            device.make_node(name, number, is_block=subsystem == "block")
        return device
