"""Durations as texts."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Read a duration as Go writes it (``30s``, ``1h30m``, ``0``, ``-1s``); returns seconds.

    Raises:
        ValueError: the text is not a duration.

    Source: Go 1.26 ``time.ParseDuration``, without what is shorter than milliseconds.
    """
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text)
    if unsigned == "0":
        return 0.0
    if not _WHOLE.fullmatch(unsigned):
        raise ValueError(f"wants a time such as 30s or 1h30m, found {text!r}")
    return sign * sum(float(amount) * _UNITS_S[unit] for amount, unit in _PART.findall(unsigned))
