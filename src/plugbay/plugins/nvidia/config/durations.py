"""Durations as the file's ``sleepInterval`` takes them, in whole nanoseconds. Pure.

Source: Go 1.26 ``time/format.go`` (``ParseDuration``), ``time/time.go`` (``Duration.String``);
k8s-device-plugin 0.20 ``api/config/v1/duration.go``.
"""

from __future__ import annotations

import re
from typing import Final

from plugbay.values import dataclass

INFINITE: Final = "infinite"
_MAX_NS: Final = 2**63 - 1
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)"


@dataclass(frozen=True, slots=True)
class Span:
    """A duration.

    Attributes:
        nanoseconds: the largest number of 64 bits stands for "without end".
    """

    nanoseconds: int

    @property
    def is_infinite(self) -> bool:
        return self.nanoseconds == _MAX_NS

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def __str__(self) -> str:
        """As Go writes it: ``1m30s``, ``5ns``, ``0s``; or ``infinite``."""
        return INFINITE if self.is_infinite else _written(self.nanoseconds)


ENDLESS: Final = Span(_MAX_NS)


def parse_span(text: str) -> Span:
    """Read ``infinite``, or a duration of Go such as ``60s``, ``1m30s``, ``1.5h``, ``-3ms`` or ``0``.

    Raises:
        ValueError: neither, or too long for 64 bits of nanoseconds.
    """
    if text == INFINITE:
        return ENDLESS
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return Span(0)
    if not re.fullmatch(f"(?:{_PART})+", unsigned):
        raise ValueError(f"invalid duration {text!r}")
    total = sum(_nanoseconds(amount, _NANOSECONDS[unit]) for amount, unit in re.findall(_PART, unsigned))
    if total > _MAX_NS:
        raise ValueError(f"invalid duration {text!r}")
    return Span(-total if text.startswith("-") else total)


def _nanoseconds(amount: str, unit: int) -> int:
    """The whole nanoseconds of an amount such as ``1.5``, rounded down."""
    whole, _, fraction = amount.partition(".")
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * unit + int(fraction or "0") * unit // scale


def _written(nanoseconds: int) -> str:
    if nanoseconds < 0:
        return f"-{_written(-nanoseconds)}"
    for unit, size in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if 0 < nanoseconds < size * 1_000:
            return f"{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, _NANOSECONDS["m"])
    seconds = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
