"""The things that devices of the kernel belong to: the physical device, the functions behind a virtual one, the bus.

Source: Linux ``Documentation/ABI/testing/sysfs-bus-usb``, ``sysfs-kernel-iommu_groups``; ``Documentation/nvme``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.plugins.generic.machine.tree import DeviceTree
from plugbay.plugins.generic.machine.values import SysDevice, SysPath

_LOGICAL: Final = frozenset(
    "auxiliary cec counter gpio hdaudio hid iio mdio_bus media nvmem rmi4 scsi serial serial-base usb usb-serial "
    "virtio".split()
)
"""Buses of parts of a device, between the device and what programs open."""
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_CONTROLLER: Final = re.compile(r"nvme[0-9]+")


def is_usb_device(device: SysDevice) -> bool:
    return device.subsystem == "usb" and device.devtype == "usb_device"


def is_pci_function(device: SysDevice) -> bool:
    return device.subsystem == "pci"


def physical(tree: DeviceTree, device: SysDevice) -> SysDevice:
    """The thing that a container gets or does not get as a whole, which ``device`` is part of.

    It is `on_bus`, or the port of a serial controller, which has one for each connector. A virtual device is the
    topmost one there is: ``input5`` for ``event3`` of uinput, often ``device`` itself.
    """
    lineage = [*tree.lineage(device)]
    found = _on_bus(tree, lineage)
    if found is None or not is_usb_device(found):
        found = next((each for each in lineage if each.subsystem == "serial-base" and each.devtype == "port"), found)
    return found or ([each for each in lineage if each.subsystem in _LOGICAL] or lineage)[-1]


def on_bus(tree: DeviceTree, device: SysDevice) -> SysDevice | None:
    """The thing that can be unplugged from its bus, which ``device`` is part of; None for a virtual device.

    It is the nearest USB device; else the nearest device of a bus, such as a PCI function, a disk on SCSI or a chip on
    I2C.
    """
    return _on_bus(tree, [*tree.lineage(device)])


def _on_bus(tree: DeviceTree, lineage: list[SysDevice]) -> SysDevice | None:
    usb = next(filter(is_usb_device, lineage), None)
    return usb or next((each for each in lineage if _is_whole(tree, each)), None)


def _is_whole(tree: DeviceTree, device: SysDevice) -> bool:
    if device.subsystem in _LOGICAL:
        return device.devtype == "scsi_device"
    return tree.is_bus_device(device)


def behind(tree: DeviceTree, device: SysDevice) -> tuple[SysDevice, ...]:
    """The devices that do the work of a virtual one: functions of a VFIO group, controllers of an NVMe subsystem."""
    if device.subsystem == "vfio":
        return functions_of_group(tree, device.name.removeprefix("noiommu-"))
    top = [*tree.lineage(device)][-1]
    if top.subsystem != "nvme-subsystem":
        return ()
    names = [name for name in tree.reader.names(top.path) if _CONTROLLER.fullmatch(name)]
    return _targets(tree, top.path, names)


def functions_of_group(tree: DeviceTree, group: str) -> tuple[SysDevice, ...]:
    """The devices of an IOMMU group, which VFIO hands out as a whole."""
    directory = f"/kernel/iommu_groups/{group}/devices"
    found = _targets(tree, directory, tree.reader.names(directory)) if group.isdecimal() else ()
    for each in found:
        tree.attribute(each, "iommu_group")  # to be remembered: when a function is gone, its group is asked for
    return found


def iommu_group(tree: DeviceTree, device: SysDevice) -> str:
    """The number of the IOMMU group that a device is in; empty without one."""
    if device.subsystem == "vfio":
        return device.name.removeprefix("noiommu-")
    return next((group for each in tree.lineage(device) if (group := tree.attribute(each, "iommu_group"))), "")


def reach(tree: DeviceTree, device: SysDevice) -> Iterator[SysDevice]:
    """The device and those above it as far as they describe the same thing.

    That ends with a USB device, a PCI function or a disk: a hub or a controller describes itself only. A virtual device
    is described by the first one behind it.
    """
    lineage = [*tree.lineage(device)]
    has_usb = any(map(is_usb_device, lineage))
    for each in lineage:
        yield each
        if is_usb_device(each) or is_pci_function(each) or (each.devtype == "scsi_device" and not has_usb):
            return
    for each in behind(tree, device)[:1]:
        yield from reach(tree, each)


def numa_nodes(tree: DeviceTree, device: SysDevice) -> frozenset[int]:
    """The NUMA nodes that a device is near to; none if the kernel knows none."""
    for each in tree.lineage(device):
        is_told = each.subsystem == "nvme" or tree.is_bus_device(each)
        text = (tree.attribute(each, "numa_node") if is_told else None) or ""
        if text.strip().isdecimal():  # -1 is "not known"
            return frozenset((int(text),))
    return frozenset().union(*(numa_nodes(tree, each) for each in behind(tree, device)))


def pcie_root(tree: DeviceTree, device: SysDevice) -> str:
    """The root of the PCI bus from which a device hangs, such as ``pci0000:3b``; empty if it is not on one."""
    for each in (device, *behind(tree, device)):
        if found := next(filter(_HOST_BRIDGE.fullmatch, each.path.split("/")), None):
            return found
    return ""


def _targets(tree: DeviceTree, directory: str, names: list[str]) -> tuple[SysDevice, ...]:
    paths = (tree.reader.target(directory, name) for name in names)
    return tuple(each for path in paths if path is not None and (each := tree.device(SysPath(path))) is not None)
