"""Amounts as Kubernetes writes them: ``2``, ``500m``, ``1.5Gi``, ``12e6``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Final, Self

from plugbay.errors import InvalidQuantity

MAX_VALUE: Final = 2**63 - 1
"""The largest amount, of either sign; larger ones become this one."""
MAX_TEXT: Final = 256
"""Upstream sets no limit; Python's integers need one, or a hostile text would cost much time."""

_NANO: Final = 10**9
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)
_MAX_EXPONENT: Final = 2 * MAX_TEXT
"""The largest exponent that is read. Beyond it, every number that fits in a text is out of the range of amounts."""


class QuantityFormat(Enum):
    """The way an amount was written, in which it is written again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Equality, order and hash go by the value alone: ``1`` equals ``1000m``.

    Attributes:
        value: a multiple of 10**-9, between -MAX_VALUE and MAX_VALUE.
    """

    value: Fraction
    format: QuantityFormat = field(default=QuantityFormat.DECIMAL, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an amount.

        Grammar: ``[+-]digits[.digits]`` and one of the suffixes ``n u m "" k M G T P E``, ``Ki Mi Gi Ti Pi Ei``, or a
        decimal exponent ``e3``. Amounts are rounded away from zero to multiples of 10**-9: a request for something
        never becomes a request for nothing.

        Raises:
            InvalidQuantity: the text is not a quantity.

        Source: Kubernetes 1.36 ``apimachinery/pkg/api/resource/quantity.go``, ``ParseQuantity``.
        """
        match = _QUANTITY.fullmatch(text) if len(text) <= MAX_TEXT else None
        if match is None:
            shown = text if len(text) <= MAX_TEXT else text[:32] + "…"
            raise InvalidQuantity(shown, "is not a number with an optional suffix, such as 2, 500m or 1Gi")
        number = Fraction(match["number"])
        if match["binary"]:
            return cls(_representable(number * 2 ** _BINARY[match["binary"]]), QuantityFormat.BINARY)
        if match["exponent"]:
            exponent = max(-_MAX_EXPONENT, min(int(match["exponent"]), _MAX_EXPONENT))
            return cls(_representable(number * Fraction(10) ** exponent), QuantityFormat.EXPONENT)
        return cls(_representable(number * Fraction(10) ** _DECIMAL[match["decimal"]]))

    @property
    def is_whole(self) -> bool:
        return self.value.denominator == 1

    def to_int_ceil(self) -> int:
        """The amount, rounded up to an integer."""
        return math.ceil(self.value)

    def to_milli_ceil(self) -> int:
        """The amount in thousandths, rounded up to an integer."""
        return math.ceil(self.value * 1000)

    def __str__(self) -> str:
        """The canonical text: no fraction digits, the largest suffix that keeps every digit.

        A binary amount below 1024 or with a fraction is written in decimal, so that the text never changes the value.
        Upstream rounds the fraction away.
        """
        if self.format is QuantityFormat.BINARY and self.is_whole and abs(self.value) >= 1024:
            return _binary_text(int(self.value))
        mantissa, exponent = _split(self.value)
        if self.format is QuantityFormat.EXPONENT and exponent:
            return f"{mantissa}e{exponent}"
        return f"{mantissa}{_SUFFIX_OF[exponent]}"


def _representable(value: Fraction) -> Fraction:
    nanos = abs(value) * _NANO
    magnitude = min(Fraction(math.ceil(nanos), _NANO), Fraction(MAX_VALUE))
    return magnitude if value >= 0 else -magnitude


def _split(value: Fraction) -> tuple[int, int]:
    """Split ``value`` into a whole mantissa and the largest possible power of thousand, as an exponent of ten."""
    mantissa, exponent = int(value * _NANO), -9
    if mantissa == 0:
        return 0, 0
    while mantissa % 1000 == 0 and exponent < 18:
        mantissa //= 1000
        exponent += 3
    return mantissa, exponent


def _binary_text(value: int) -> str:
    suffix = ""
    for name in _BINARY:
        if value % 1024:
            break
        value //= 1024
        suffix = name
    return f"{value}{suffix}"
