"""IDs of USB vendors and products: hexadecimal, whatever the language of the file takes their characters for. Pure."""

from __future__ import annotations

import re
from typing import Final

from plugbay.plugins.generic.config.nodes import ConfigFormat, Scalar, ScalarKind
from plugbay.plugins.generic.config.problems import short

_HEX: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,4})")
_FLOAT: Final = re.compile(r"[0-9]+[eE][0-9]+")
_DIGITS: Final = 4
_MOST: Final = 0xFFFF


def parse_usb_id(scalar: Scalar, *, language: ConfigFormat, is_decimal: bool = False) -> int | str:
    """The ID, or a sentence that says what is wrong with it and how to write it.

    Args:
        is_decimal: whether a number without quotes is the number that YAML makes of it, as for squat's plugin.

    Source: squat/generic-device-plugin 0.2 has two decoders, of which each takes some IDs for others.
    """
    text = scalar.text
    if is_decimal and scalar.kind is ScalarKind.INTEGER:
        return _as_a_number(text)
    found = _HEX.fullmatch(text)
    if found is None:
        if not text:
            return 'is empty; write an ID such as "10c4", or leave the field out'
        return f'{short(text)} is not a USB ID: an ID has up to four hexadecimal digits, such as "10c4"'
    is_number = not scalar.is_quoted and scalar.kind in (ScalarKind.INTEGER, ScalarKind.FLOAT)
    if is_number and not text.lower().startswith("0x"):
        quoted = f'write "{found[1].lower():0>4}" in quotes'
        if language is not ConfigFormat.YAML:
            return f"{text} is ambiguous: a number in {language.name} is decimal, and IDs are hexadecimal; {quoted}"
        if problem := _rewritten(text):
            return f"{text} is ambiguous: {problem}, and IDs are hexadecimal; {quoted}"
    return int(found[1], 16)


def is_plain_number(scalar: Scalar) -> bool:
    """Whether an ID is written in decimal digits alone, and not in quotes."""
    return scalar.kind is ScalarKind.INTEGER and scalar.text.isdecimal()


def _rewritten(text: str) -> str:
    """The words for what may have become of the digits, as programs that write the file anew change numbers."""
    return "a number in YAML may have lost its zeros" if len(text) < _DIGITS else other_number(text)


def other_number(text: str) -> str:
    """The words for another number that YAML takes hexadecimal digits for; empty if it takes them for the decimal."""
    if _FLOAT.fullmatch(text):
        return "to YAML it is a number with an exponent"
    if text.lower().startswith("0b"):
        return "to YAML it is a binary number"
    return "to YAML it is an octal number" if text.startswith("0") else ""


def _as_a_number(text: str) -> int | str:
    digits = text.replace("_", "")
    number = int(digits, 8 if re.fullmatch(r"0[0-7]+", digits) else 0)
    return number if 0 <= number <= _MOST else f"{text} is not a USB ID: an ID has 16 bits"
