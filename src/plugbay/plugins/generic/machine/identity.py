"""The identities of devices: texts that are the same after a replug and a reboot, and different for different devices.

A device that tells a serial number is known by it. Devices that tell none, or the same as another of their model, are
known by the port they are in. The kernel's own numbers, as in ``ttyUSB0``, say nothing: they go by order of arrival.

An identity does not change while its device is there: a pod may have it. So the first of two devices that tell the same
keeps what it was known by when the second one comes, and both are known by their ports if they are there from the
beginning.

Source: udev's ``ID_PATH`` and ``ID_SERIAL`` for the idea; Linux ``Documentation/ABI/testing/sysfs-class-net`` for
``addr_assign_type``, ``sysfs-bus-usb`` for ``devpath``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from plugbay.plugins.generic.machine.properties import cleaned
from plugbay.plugins.generic.machine.relations import (
    behind,
    is_pci_function,
    is_usb_device,
    on_bus,
    physical,
)
from plugbay.plugins.generic.machine.tree import DeviceTree
from plugbay.plugins.generic.machine.values import SysDevice

_PERMANENT: Final = "0"
"""How ``addr_assign_type`` says that an address is that of the hardware."""
_COUNTS: Final = ("0123456789ABCDEF", "123456789ABCDEF", "12345678901234567890")
_NOTHING: Final = frozenset("0-:. x")
"""A serial number of nothing else was never set."""
_ANY_NAME: Final = frozenset(("block", "i2c", "i2c-dev", "infiniband", "net"))
"""Classes with names that udev gives, or that do not begin with what they are."""
_INFINIBAND: Final = "32"
_GUID: Final = len("b8:59:9f:03:00:d4:5a:0e")
_DIGITS: Final = re.compile(r"([0-9]+)")


def identity(tree: DeviceTree, device: SysDevice) -> str:
    """The identity of a device, such as ``usb:0403:6001:A50285BI``, ``usb:10c4:ea60@0000:00:14.0/0-1.4/1.0/ttyACM``.

    =========  ====================================================================================================
    USB        vendor, product, and the serial number; without a number of its own, controller, bus and port
    PCI        ``pci:0000:3b:00.0``
    disk       ``disk:`` with its world-wide name or serial number; with its place too, if another has the same
    network    ``net:`` with the permanent address, or as a part of its parent; the port's GUID for InfiniBand
    VFIO       ``vfio:`` with the functions of the group
    virtual    ``virtual:misc/kvm``
    =========  ====================================================================================================

    A part of a physical device has the way from there behind a slash: kinds, with ``.1`` for the second of a kind.
    Texts of devices are cleaned.
    """
    top = physical(tree, device)
    return _own(tree, device, top) or "/".join([_of_physical(tree, top), *_way(tree, device, top)])


def own_mark(tree: DeviceTree, device: SysDevice) -> str:
    """The mark of a device that was the only one with it when it was first asked for; empty without one."""
    mark = mark_of(tree, device)
    if not mark:
        return ""

    def is_own() -> bool:
        alike = tree.grouped(device.subsystem, mark_of).alike(mark)
        return not _is_from_factory(mark) and all(each.path == device.path for each in alike)

    return mark if tree.settled(device, mark, is_own) else ""


def _is_from_factory(mark: str) -> bool:
    """Whether the serial number of a USB device is one that all of a series have: no number, 1, or a count."""
    serial = mark.split(":", 3)[3].upper() if mark.startswith("usb:") else ""
    is_count = len(serial) > 2 and any(count.startswith(serial) for count in _COUNTS)
    return mark.startswith("usb:") and (serial.strip("0") in ("", "1") or is_count)


# --- by something of its own -----------------------------------------------------------------------------------------


def _own(tree: DeviceTree, device: SysDevice, top: SysDevice) -> str:
    """An identity that needs no other device's; empty if it has none."""
    if device.subsystem == "vfio" and (functions := behind(tree, device)):
        return "vfio:" + "+".join(sorted(each.name for each in functions))
    if device.subsystem == "block" and device.devtype == "partition":
        above = next(tree.ancestors(device), None)
        return f"{identity(tree, above)}/{_step(tree, device)}" if above else ""
    if (device.subsystem == "block" and device.devtype == "disk") or device.subsystem == "net":
        return own_mark(tree, device)
    return ""


def mark_of(tree: DeviceTree, device: SysDevice) -> str:
    """The text by which a device is the only one of its kind, if no other has the same; empty without one."""
    if is_usb_device(device):
        serial = _said(tree, device, "serial")
        return f"{_usb_model(tree, device)}:{serial}" if serial else ""
    if device.devtype == "scsi_device":
        name = _said(tree, device, "wwid")
        return f"disk:{name}" if name else ""
    if device.subsystem == "block" and device.devtype == "disk":
        names = ("wwid", "device/wwid", "serial", "dm/uuid", "md/uuid")
        return next((f"disk:{text}" for name in names if (text := _said(tree, device, name))), "")
    if device.subsystem == "net" and device.parent and _text(tree, device, "addr_assign_type") == _PERMANENT:
        address = _said(tree, device, "address")
        if _text(tree, device, "type") == _INFINIBAND:
            address = address[-_GUID:]  # a number that the driver makes up stands before it
        return f"net:{address}" if address else ""
    return ""


def _said(tree: DeviceTree, device: SysDevice, name: str) -> str:
    """An attribute that says something: a serial number of zeros does not."""
    text = _text(tree, device, name)
    return "" if _NOTHING.issuperset(text) else text


def _text(tree: DeviceTree, device: SysDevice, name: str) -> str:
    return cleaned(tree.attribute(device, name) or "")


# --- by its place ------------------------------------------------------------------------------------------------


def _of_physical(tree: DeviceTree, top: SysDevice) -> str:
    if own := own_mark(tree, top):
        return own
    if is_usb_device(top):
        return f"{mark_of(tree, top) or _usb_model(tree, top)}@{_usb_place(tree, top)}"
    if top.devtype == "scsi_device":
        return f"{mark_of(tree, top) or 'disk:'}@{_above(tree, top)}"
    if top.subsystem == "mmc" and (card := _said(tree, top, "cid")):
        return f"mmc:{card}"
    if top.subsystem == "i2c" and (above := next(tree.ancestors(top), None)):  # adapters have numbers by arrival
        return f"{_of_physical(tree, physical(tree, above))}/{_step(tree, top)}"
    if top.subsystem != "serial-base" and on_bus(tree, top) is None:
        return f"virtual:{top.subsystem}/{top.name}"
    return f"{top.subsystem}:{top.name}"


def _usb_model(tree: DeviceTree, device: SysDevice) -> str:
    vendor, product = (cleaned(tree.attribute(device, name) or "") for name in ("idVendor", "idProduct"))
    return f"usb:{vendor}:{product}"


def _usb_place(tree: DeviceTree, device: SysDevice) -> str:
    """The controller, the bus among those of the controller, and the way through hubs.

    Buses have numbers by order of arrival, so two controllers may swap theirs at a reboot.
    """
    hub = device
    for each in tree.ancestors(device):
        if not is_usb_device(each):
            break
        hub = each
    number = _ordinal(tree, hub, _parent)
    way = device.name.partition("-")[2] or "root"
    above = next(tree.ancestors(hub), None)
    return f"{above.name if above else hub.name}/{number}-{way}"


def _above(tree: DeviceTree, disk: SysDevice) -> str:
    """The place of a disk on SCSI: controller, host among those of the controller, target and unit.

    Hosts have numbers by order of arrival. On SATA each port is a host.
    """
    hosts = [each for each in tree.ancestors(disk) if each.devtype == "scsi_host"]
    function = next(filter(is_pci_function, tree.ancestors(disk)), None)
    way = disk.name.partition(":")[2]
    if not hosts or function is None:
        return disk.name
    return f"{function.name}/{_ordinal(tree, hosts[0], _controller)}-{way}"


def _way(tree: DeviceTree, device: SysDevice, top: SysDevice) -> Iterator[str]:
    """The steps down from a physical device: numbers of interfaces and ports, and kinds with an ordinal."""
    steps: list[str] = []
    each: SysDevice | None = device
    while each is not None and each.path != top.path:
        steps.append(_step(tree, each))
        each = next(tree.ancestors(each), None)
    yield from reversed(steps)


def _step(tree: DeviceTree, device: SysDevice) -> str:
    if device.devtype == "usb_interface":
        return device.name.rpartition(":")[2]
    if device.devtype == "partition":
        return f"part{_text(tree, device, 'partition') or device.name}"
    if device.subsystem == "i2c" and not device.name.startswith("i2c-"):
        return device.name.partition("-")[2] or device.name
    if device.subsystem == "usb-serial":
        return f"port{_text(tree, device, 'port_number') or 0}"
    ordinal = _ordinal(tree, device, _parent)
    return _stem(device) + (f".{ordinal}" if ordinal else "")


def _ordinal(tree: DeviceTree, device: SysDevice, key: Callable[[DeviceTree, SysDevice], object]) -> int:
    """The place among the devices of its subsystem that have the same key, in the order of their numbers."""
    return tree.grouped(device.subsystem, key).ordinal(device, partial(_natural, tree))


def _parent(_: DeviceTree, device: SysDevice) -> object:
    return device.parent, device.devtype, _stem(device)


def _stem(device: SysDevice) -> str:
    """The kind of a device as its name tells, such as ``renderD``, or its subsystem."""
    stem = "" if device.subsystem in _ANY_NAME else _DIGITS.split(device.name)[0].rstrip("-:")
    return stem or device.subsystem


def _controller(tree: DeviceTree, device: SysDevice) -> object:
    function = next(filter(is_pci_function, tree.ancestors(device)), None)
    return function and function.path, device.devtype


def _natural(tree: DeviceTree, device: SysDevice) -> tuple[object, ...]:
    """The port of a network interface, and names in the order of their numbers: ``video2`` before ``video10``."""
    port = _text(tree, device, "dev_port") if device.subsystem == "net" else ""
    parts = _DIGITS.split(device.name)
    return int(port) if port.isdecimal() else 0, [int(part) if part.isdecimal() else part for part in parts]
