"""Machines in a directory, with devices such as rules are written for."""

from __future__ import annotations

from pathlib import Path

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.config.rules import AllOf, Entry, GenericConfig, NodeRule, Selector, Where
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit
from plugbay.testing.fakesysfs import FakePciDevice, FakeSysfs, FakeSysfsDevice, FakeUsbDevice


class Bench:
    """A machine with a USB hub, on which a selection looks.

    Attributes:
        hub: the root hub of bus 1.
    """

    def __init__(self, root: Path, *, real_nodes: bool = False) -> None:
        self.sysfs = FakeSysfs(root, real_nodes=real_nodes)
        self.sysfs.numa(2)
        self.controller = self.pci("0000:00:14.0", pci_class=0x0C0330)
        self.hub = self.controller.usb_bus(1)
        self.root = root

    def pci(self, address: str, *, pci_class: int, numa_node: int = -1, group: int | None = None) -> FakePciDevice:
        """Make a PCI function of a vendor and model that do not matter."""
        return self.sysfs.pci(
            address, vendor=0x8086, device=0xA36D, pci_class=pci_class, numa_node=numa_node, iommu_group=group
        )

    def stick(self, port: int, tty: str, *, serial: str = "", product: int = 0xEA60) -> FakeUsbDevice:
        """Plug a serial converter in, with its tty."""
        stick = self.hub.plug(port, vendor=0x10C4, product=product, serial=serial, product_name="CP2102 Bridge")
        minor = int("".join(filter(str.isdecimal, tty)))
        converter = stick.interface(0, driver="cp210x").bus_device("usb-serial", tty, driver="cp210x")
        converter.class_device("tty", tty, number=(188, minor))
        return stick

    def machine(self) -> SysMachine:
        return SysMachine(self.sysfs.sys, self.sysfs.dev)

    def look(self, *entries: Entry, has_compat_ids: bool = False, memory: RuleMemory | None = None) -> SelectedUnits:
        return self.selection(*entries, has_compat_ids=has_compat_ids, memory=memory).look()

    def selection(
        self, *entries: Entry, has_compat_ids: bool = False, memory: RuleMemory | None = None
    ) -> RuleSelection:
        self.devices = self.machine()
        config = GenericConfig("rules.yaml", entries, has_compat_ids=has_compat_ids)
        return RuleSelection(config, self.devices, HostTree(self.root), memory)

    def after(self, selection: RuleSelection, action: str, *devices: FakeSysfsDevice) -> SelectedUnits:
        """Look again after uevents about these devices."""
        changed = frozenset().union(*(self.devices.apply(Uevent(action, self.path(each), {})) for each in devices))
        return selection.after(HostChanges(devices=changed))

    def path(self, device: FakeSysfsDevice) -> str:
        return "/" + str(device.place.relative_to(self.sysfs.sys))


def where(**properties: str) -> Selector:
    """All of these properties; an underscore stands for a colon."""
    return AllOf(tuple(Where(name.replace("_", ":"), (pattern,)) for name, pattern in properties.items()))


def node(selector: Selector, mount_path: str = "", *, is_optional: bool = False) -> NodeRule:
    return NodeRule(selector, mount_path=mount_path, is_optional=is_optional)


def nodes_of(units: tuple[Unit, ...]) -> list[list[str]]:
    """The nodes of each unit, units in the order of their nodes."""
    return sorted([each.host_path for each in unit.nodes] for unit in units)


def units_of(found: SelectedUnits) -> tuple[Unit, ...]:
    """The units of the only resource."""
    [units] = found.units.values()
    return units
