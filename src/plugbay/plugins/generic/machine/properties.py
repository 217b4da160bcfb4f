"""The properties by which rules choose devices, under the same names whatever bus a device is on.

Source: Linux ``Documentation/ABI/{stable,testing}/sysfs-*``; udev(7) for attributes of the devices above.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from plugbay.plugins.generic.machine.relations import is_usb_device, numa_nodes, on_bus, reach
from plugbay.plugins.generic.machine.tree import DeviceTree
from plugbay.plugins.generic.machine.values import SysDevice

_Property: TypeAlias = Callable[[DeviceTree, SysDevice], str | None]

_LONGEST: Final = 256
_SILENT: Final = frozenset(
    "drm hidraw i2c-dev mem misc nvme-generic scsi_generic serial-base spidev tty usb-serial vc vfio".split()
)
"""Subsystems whose devices have no attributes that tell a vendor or the like: not to look for them saves the time."""
_PAGE_HEAD: Final = 4
_HEX: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{4,8})")
_HID_ID: Final = re.compile(r"[0-9A-F]+:0*([0-9A-F]{4}):0*([0-9A-F]{4})")


def cleaned(text: str) -> str:
    """A text of a device's on one line: without control characters, and cut after 256 characters.

    Devices say what they like: escapes of terminals, newlines, or bytes of an empty flash memory.
    """
    shown = text[: 2 * _LONGEST]
    if not shown.isprintable():
        shown = "".join(each if each.isprintable() else " " for each in shown)
    return " ".join(shown.split())[:_LONGEST].rstrip()


def property_of(tree: DeviceTree, device: SysDevice, name: str) -> str | None:
    """A property by its name; None if the device has none, or an empty one.

    ``vendor``, ``serial`` and the like are those of the device, or of one above it that is part of the same thing.
    ``attr:NAME`` is an attribute of the device or of any above it, nearest first, as udev's ``ATTRS{NAME}``;
    ``property:KEY`` is the kernel's or udev's, as ``udevadm info`` shows them. Texts are cleaned.
    """
    kind, colon, key = name.partition(":")
    if not colon:
        found = _PROPERTIES[name](tree, device) if name in _PROPERTIES else None
    elif kind == "attr":
        found = next((text for each in tree.lineage(device) if (text := tree.attribute(each, key))), None)
    elif kind == "property":
        found = next((text for each in tree.lineage(device) if (text := tree.told(each, key))), None)
    else:
        found = None
    return cleaned(found) or None if found else None


def _describing(tree: DeviceTree, device: SysDevice) -> Iterator[SysDevice]:
    """The devices within `reach` that may tell what they are."""
    for each in reach(tree, device):
        if each.subsystem not in _SILENT and each.devtype != "usb_interface":
            yield each


def _first(attributes: Mapping[str, str], default: str) -> _Property:
    """An attribute by the subsystem of the device that has it."""

    def find(tree: DeviceTree, device: SysDevice) -> str | None:
        for each in _describing(tree, device):
            text = cleaned(tree.attribute(each, attributes.get(each.subsystem, default)) or "")
            if text:
                return text
        return None

    return find


def _number(attributes: Mapping[str, str], hid_part: int) -> _Property:
    """An ID of the vendor's or the product's: lower-case hex digits where it is a number."""

    def find(tree: DeviceTree, device: SysDevice) -> str | None:
        name = None
        for each in _describing(tree, device):
            if hid := _HID_ID.fullmatch(each.properties.get("HID_ID", "")):
                return hid[hid_part].lower()
            text = cleaned(tree.attribute(each, attributes.get(each.subsystem, attributes[""])) or "")
            if (number := _HEX.fullmatch(text)) and int(number[1], 16):
                return number[1].lower()
            name = name or text
        return name  # as a disk on SCSI has one, which is a number if it is on USB as well

    return find


def _model(tree: DeviceTree, device: SysDevice) -> str | None:
    hid = (each.properties.get("HID_NAME") for each in reach(tree, device))
    return _MODEL(tree, device) or _NAME(tree, device) or next(filter(None, hid), None)


def _serial(tree: DeviceTree, device: SysDevice) -> str | None:
    return _SERIAL(tree, device) or next(filter(None, (_scsi_serial(tree, each) for each in reach(tree, device))), None)


def _scsi_serial(tree: DeviceTree, device: SysDevice) -> str:
    """The text of the page of a disk's "vital product data" that is its serial number, after four bytes of a head."""
    page = tree.attribute(device, "vpd_pg80") if device.devtype == "scsi_device" else None
    return cleaned(page[_PAGE_HEAD:]) if page else ""


def _driver(tree: DeviceTree, device: SysDevice) -> str | None:
    return next((each.driver for each in reach(tree, device) if each.driver), None)


def _port(tree: DeviceTree, device: SysDevice) -> str | None:
    found = on_bus(tree, device)
    return found.name if found is not None and is_usb_device(found) else None


def _bus(tree: DeviceTree, device: SysDevice) -> str:
    found = on_bus(tree, device)
    return "virtual" if found is None else found.subsystem


def _address(tree: DeviceTree, device: SysDevice) -> str | None:
    found = on_bus(tree, device)
    return None if found is None else found.name


def _class(tree: DeviceTree, device: SysDevice) -> str | None:
    for each in reach(tree, device):
        for name in ("bInterfaceClass", "bDeviceClass") if each.subsystem == "usb" else ("class",):
            if text := tree.attribute(each, name):
                return text.strip().removeprefix("0x")
    return None


def _numa_node(tree: DeviceTree, device: SysDevice) -> str | None:
    return ",".join(map(str, sorted(numa_nodes(tree, device)))) or None


_MODEL: Final = _first({"usb": "product", "mmc": "name", "infiniband": "hca_type"}, "model")
_SERIAL: Final = _first({"infiniband": "node_guid"}, "serial")
_NAME: Final = _first({}, "name")
_PROPERTIES: Final[Mapping[str, _Property]] = {
    "subsystem": lambda _, device: device.subsystem,
    "devtype": lambda _, device: device.devtype,
    "name": lambda _, device: device.name,
    "node": lambda _, device: device.node,
    "driver": _driver,
    "vendor": _number({"usb": "idVendor", "input": "id/vendor", "": "vendor"}, 1),
    "product": _number({"usb": "idProduct", "input": "id/product", "pci": "device", "": "product"}, 2),
    "serial": _serial,
    "manufacturer": _first({}, "manufacturer"),
    "model": _model,
    "port": _port,
    "bus": _bus,
    "class": _class,
    "address": _address,
    "numaNode": _numa_node,
}
PROPERTY_NAMES: Final = tuple(_PROPERTIES)
"""The names without a colon."""
