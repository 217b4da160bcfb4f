"""The machine: its devices, and what they are. This is what the other parts of the plugin ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine import identity, properties, relations
from plugbay.plugins.generic.machine.links import read_links
from plugbay.plugins.generic.machine.tree import DeviceTree
from plugbay.plugins.generic.machine.values import SysDevice, SysPath

_NONE: Final[frozenset[SysPath]] = frozenset()


class SysMachine(DeviceTree):
    """The devices of a machine with their properties, identities and places; for one thread at a time, and it blocks.

    Looking is as lazy as `DeviceTree` says. Nothing here raises for what a device or its driver does.
    """

    def __init__(self, sys_root: Path, dev_root: Path, udev_root: Path | None = None) -> None:
        self._links: Mapping[str, tuple[str, ...]] | None = None
        super().__init__(sys_root, dev_root, udev_root)

    def property_of(self, device: SysDevice, name: str) -> str | None:
        """A property such as ``vendor``, ``attr:speed`` or ``property:ID_BUS``; see `properties.property_of`."""
        return properties.property_of(self, device, name)

    def physical(self, device: SysDevice) -> SysDevice:
        """The thing that can be unplugged and that the device is part of; see `relations.physical`."""
        return relations.physical(self, device)

    def identity(self, device: SysDevice) -> str:
        """A text that stays over replug and reboot, and that no other device has; see `identity.identity`."""
        return identity.identity(self, device)

    def facts(self, device: SysDevice) -> Mapping[str, str]:
        """The properties for templates that the device has, and ``identity``."""
        names = {name: self.property_of(device, name) for name in properties.PROPERTY_NAMES}
        return {name: text for name, text in names.items() if text} | {"identity": self.identity(device)}

    def numa_nodes(self, device: SysDevice) -> frozenset[int]:
        """The NUMA nodes that the device is near to; none if the kernel knows none."""
        return relations.numa_nodes(self, device)

    def pcie_root(self, device: SysDevice) -> str:
        """The root of the PCI bus from which the device hangs, such as ``pci0000:3b``; empty without one."""
        return relations.pcie_root(self, device)

    def iommu_group(self, device: SysDevice) -> str:
        """The number of the device's IOMMU group; empty without one."""
        return relations.iommu_group(self, device)

    def behind(self, device: SysDevice) -> tuple[SysDevice, ...]:
        """The devices that do the work of a virtual one, such as the functions of a VFIO group."""
        return relations.behind(self, device)

    def node_links(self, node: str) -> tuple[str, ...]:
        """The links of ``/dev/*/by-*`` that lead to a node, sorted. See `forget_links`."""
        if self._links is None:
            self._links = read_links(self.dev_root)
        return self._links.get(node, ())

    def forget_links(self) -> None:
        """Read the links anew when they are next asked for: udev makes them some time after a uevent."""
        self._links = None

    def asks_udev(self) -> bool:
        """Whether a property that only udev may tell was asked for, so that `refresh_udev` matters."""
        return self.udev is not None and self.udev.is_asked

    def apply(self, event: Uevent) -> frozenset[SysPath]:
        """Follow a uevent; see `DeviceTree.apply`. A VFIO group changes with the functions that are in it."""
        path = SysPath(event.path)
        groups = self._groups_with(path)
        self.forget_links()
        return super().apply(event) | groups | self._groups_with(path)

    def refresh(self) -> frozenset[SysPath]:
        """Compare everything that was read; see `DeviceTree.refresh`."""
        self.forget_links()
        return super().refresh()

    def _groups_with(self, path: SysPath) -> frozenset[SysPath]:
        """The VFIO group that a function is in: what the group is and has comes from its functions."""
        device = self.known(path)
        if device is None or "vfio" not in self.loaded() or not (group := self.iommu_group(device)):
            return _NONE
        return frozenset(each.path for each in self.devices_of("vfio") if self.iommu_group(each) == group)
