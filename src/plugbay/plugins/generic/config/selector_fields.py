"""The fields of selectors: properties of devices, and how they are joined. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from plugbay.plugins.generic.config.nodes import Node, Scalar, ScalarKind
from plugbay.plugins.generic.config.records import ConfigField as Field
from plugbay.plugins.generic.config.records import RecordShape
from plugbay.plugins.generic.config.shapes import (
    WRONG,
    Definitions,
    FieldPath,
    ListShape,
    MappingShape,
    ShapeContext,
    refuse,
)
from plugbay.plugins.generic.config.usb_ids import parse_usb_id
from plugbay.values import dataclass

PROPERTIES: Final = {
    "subsystem": "Subsystem of the kernel, such as tty, hidraw, video4linux, block, net, drm, usb, pci.",
    "devtype": "Type within the subsystem, such as usb_device or disk.",
    "driver": "Name of the driver that is bound to the device, or to a device above it.",
    "name": "Name of the kernel, such as ttyUSB0 or 0000:3b:00.0.",
    "node": "Path of the device node, such as /dev/ttyUSB0.",
    "vendor": "Vendor's ID in hexadecimal, such as 10c4 (USB, PCI), or a name.",
    "product": "Product's ID in hexadecimal, such as ea60 (USB, PCI), or a name.",
    "serial": "Serial number, exactly as the device tells it.",
    "manufacturer": "Manufacturer's name, as the device tells it.",
    "model": "Model's or product's name, as the device tells it.",
    "port": "Path of USB ports, such as 1-2.3: it stays when a stick is replaced.",
    "bus": "Bus of the device, such as usb, pci, i2c or spi.",
    "class": "Class in hexadecimal, such as 030000 (PCI) or 08 (USB).",
    "address": "Address on the bus, such as 0000:3b:00.0 (PCI).",
    "numaNode": "NUMA node of the device.",
}
"""Properties by which devices are chosen, each with its description."""

_PLAIN_HEX: Final = re.compile("[0-9a-fA-F]{4}|[0-9a-fA-F]{6}")
_WILD: Final = frozenset("*?[")
_ID_DIGITS: Final = 4
_IDS: Final = ("vendor", "product")
_EMPTINESS: Final = "is empty, so that nothing could match; write a pattern, or leave the field out"
_PATTERN: Final = "Shell pattern (*, ?, [a-z]), or a list of which one has to match."


@dataclass(frozen=True, slots=True)
class PatternShape:
    """A shell pattern; a number is the text that its characters are.

    Attributes:
        is_hex: whether it is for a hexadecimal number, which sysfs shows in lower case; here without its ``0x``.
        is_id: whether that has four digits.
    """

    is_hex: bool = False
    is_id: bool = False

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The pattern as it matches what devices are known by."""
        if not isinstance(node, Scalar) or node.kind is ScalarKind.NULL:
            return refuse(node, path, context, "a pattern or a list of patterns")
        if self.is_id and node.kind in (ScalarKind.INTEGER, ScalarKind.FLOAT):
            number = parse_usb_id(node, language=context.language)
            if isinstance(number, str):
                context.findings.error(node.spot, path, number)
                return WRONG
            return f"{number:04x}"
        if not self.is_hex:
            return node.text
        if node.text.lower().startswith("0x"):
            digits = node.text.lower().removeprefix("0x")
            return digits.zfill(_ID_DIGITS) if self.is_id and not set(digits) & _WILD else digits
        return node.text.lower() if _PLAIN_HEX.fullmatch(node.text) else node.text

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A text, or a number that is one."""
        return {"type": ["string", "number", "boolean"]}


def _patterns(name: str = "") -> ListShape:
    is_id = name in _IDS
    return ListShape(PatternShape(is_id or name == "class", is_id), takes_one=True, emptiness=_EMPTINESS)


def selector_fields() -> tuple[Field, ...]:
    """The fields that select devices; all that are given have to match."""
    return (
        *(Field(name, _patterns(name), f"{text} {_PATTERN}") for name, text in PROPERTIES.items()),
        Field(
            "attr",
            MappingShape(_patterns(), _key_problem),
            f"Attributes of sysfs by name, of the device or of one above it. {_PATTERN}",
        ),
        Field("property", MappingShape(_patterns(), _key_problem), f"Properties of the uevent by name. {_PATTERN}"),
        Field("and", ListShape(SELECTOR, emptiness=_EMPTINESS), "Selectors that all have to match."),
        Field("or", ListShape(SELECTOR, emptiness=_EMPTINESS), "Selectors of which one has to match."),
        Field("not", SELECTOR, "A selector that must not match."),
    )


def _key_problem(key: str) -> str:
    if not key or not key.isprintable() or key.startswith("/") or ".." in key.split("/"):
        return "is not the name of an attribute or a property"
    return ""


SELECTOR: Final = RecordShape(
    "selector",
    "Properties of devices that all have to match.",
    selector_fields,
    emptiness="is empty, so that it would choose everything; write a property such as subsystem: tty",
    elsewhere={
        "idvendor": "write vendor",
        "idproduct": "write product",
        "kernel": "write name",
        "all": "write and",
        "any": "write or",
        "attrs": "write attr",
        "env": "write property",
    },
    wanted="a mapping such as {subsystem: tty}",
)
