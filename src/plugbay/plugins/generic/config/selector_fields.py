"""The fields of selectors: properties of devices, and how they are joined. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from plugbay.plugins.generic.config.nodes import ConfigFormat, Node, Scalar, ScalarKind
from plugbay.plugins.generic.config.problems import short
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
from plugbay.plugins.generic.config.usb_ids import other_number, parse_usb_id
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

_ID: Final = re.compile("[0-9a-fA-F]{4}")
_CUT_ID: Final = re.compile("(?=.*[0-9])[0-9a-fA-F]{1,3}")
"""A number without its zeros; three letters may be the name of a vendor."""
_HEX: Final = re.compile("[0-9a-f]+")
_PREFIX: Final = "0x"
_WILD: Final = frozenset("*?[")
_ID_DIGITS: Final = 4
_CLASS_DIGITS: Final = (2, 6)
_EMPTINESS: Final = "is empty, so that nothing could match; write a pattern, or leave the field out"
_PATTERN: Final = "Shell pattern (*, ?, [a-z]), or a list of which one has to match."
_NUMBERS: Final = (ScalarKind.INTEGER, ScalarKind.FLOAT)


@dataclass(frozen=True, slots=True)
class PatternShape:
    """A shell pattern; a number is the text that its characters are."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The pattern as it matches what devices are known by."""
        if not isinstance(node, Scalar) or node.kind is ScalarKind.NULL:
            return refuse(node, path, context, "a pattern or a list of patterns")
        problem = "" if node.text else _EMPTINESS
        pattern = self.pattern(node, context) if node.text else ""
        if isinstance(pattern, PatternProblem):
            problem = pattern.text
        if problem:
            context.findings.error(node.spot, path, problem)
            return WRONG
        return pattern

    def pattern(self, scalar: Scalar, context: ShapeContext) -> str | PatternProblem:
        """The pattern that the characters of a value say, or what is wrong with them."""
        return scalar.text

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A text, or a number that is one."""
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class PatternProblem:
    """The reason for which a value is not a pattern that could match; ``text`` is a sentence."""

    text: str


class IdPatternShape(PatternShape):
    """A pattern for the ID of a vendor or a product, which sysfs shows in four digits in lower case, or for a name."""

    def pattern(self, scalar: Scalar, context: ShapeContext) -> str | PatternProblem:
        if scalar.kind in _NUMBERS:
            number = parse_usb_id(scalar, language=context.language)
            return PatternProblem(number) if isinstance(number, str) else f"{number:04x}"
        text = scalar.text.lower()
        if text.startswith(_PREFIX):
            digits = text.removeprefix(_PREFIX)
            return digits if set(digits) & _WILD else digits.zfill(_ID_DIGITS)
        if _ID.fullmatch(text) or _CUT_ID.fullmatch(text):
            return text.zfill(_ID_DIGITS)
        return scalar.text


class ClassPatternShape(PatternShape):
    """A pattern for a class, which sysfs shows in two digits (USB) or in six (PCI), in lower case."""

    def pattern(self, scalar: Scalar, context: ShapeContext) -> str | PatternProblem:
        text = scalar.text.lower()
        digits = text.removeprefix(_PREFIX)
        if not _HEX.fullmatch(digits):
            return digits if text.startswith(_PREFIX) else scalar.text
        is_prefixed = text.startswith(_PREFIX)
        quoted = f'write "{_whole_class(digits)}" in quotes'
        if scalar.kind in _NUMBERS and not is_prefixed:
            if context.language is not ConfigFormat.YAML:
                problem = f"a number in {context.language.name} is decimal"
            else:
                problem = other_number(text)
            if problem:
                return PatternProblem(f"{scalar.text} is ambiguous: {problem}, and classes are hexadecimal; {quoted}")
        if is_prefixed and len(digits) + 1 in _CLASS_DIGITS:
            digits = f"0{digits}"
        if len(digits) in _CLASS_DIGITS:
            return digits
        return PatternProblem(
            f"{short(scalar.text)} matches no class, as one has two digits (USB) or six (PCI); {quoted}"
        )


def _whole_class(digits: str) -> str:
    """The class, or the pattern of classes, that is probably meant by some digits."""
    if len(digits) in (1, 3, 5):
        digits = f"0{digits}"
    return f"{digits}*" if len(digits) == _ID_DIGITS else digits[: _CLASS_DIGITS[-1]]


_SHAPES: Final = {"vendor": IdPatternShape(), "product": IdPatternShape(), "class": ClassPatternShape()}


def _patterns(name: str = "") -> ListShape:
    return ListShape(_SHAPES.get(name, PatternShape()), takes_one=True, emptiness=_EMPTINESS)


def selector_fields() -> tuple[Field, ...]:
    """The fields that select devices; all that are given have to match."""
    return (
        *(Field(name, _patterns(name), f"{text} {_PATTERN}") for name, text in PROPERTIES.items()),
        Field(
            "attr",
            MappingShape(_patterns(), key_problem),
            f"Attributes of sysfs by name, of the device or of one above it. {_PATTERN}",
        ),
        Field("property", MappingShape(_patterns(), key_problem), f"Properties of the uevent by name. {_PATTERN}"),
        Field("and", ListShape(SELECTOR, emptiness=_EMPTINESS), "Selectors that all have to match."),
        Field("or", ListShape(SELECTOR, emptiness=_EMPTINESS), "Selectors of which one has to match."),
        Field("not", SELECTOR, "A selector that must not match."),
    )


def key_problem(key: str) -> str:
    """The end of a sentence about a key that cannot name an attribute or a property; empty for one that can."""
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
