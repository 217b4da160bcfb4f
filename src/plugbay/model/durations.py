"""Lengths of time as texts."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S: Final = 292 * 365 * 86400.0
"""Go counts nanoseconds, in 64 bits."""


def parse_duration(text: str) -> float:
    """The seconds of a length of time as Go writes it: ``30s``, ``1h30m``, ``0``, ``-1s``.

    Raises:
        ValueError: it is not one, or is longer than 292 years; the text says so.

    Source: Go 1.26 ``time.ParseDuration``, without what is shorter than milliseconds.
    """
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text)
    if unsigned == "0":
        return 0.0
    if not _WHOLE.fullmatch(unsigned):
        raise ValueError(f"wants a time such as 30s or 1h30m, found {text!r}")
    seconds = sum(float(amount) * _UNITS_S[unit] for amount, unit in _PART.findall(unsigned))
    if seconds > _LONGEST_S:
        raise ValueError("wants a time of 292 years at most")
    return sign * seconds
