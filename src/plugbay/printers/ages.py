"""Ages of objects, in kubectl's words. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def age(since: datetime | None, now: datetime) -> str:
    """The age of an object; ``<unknown>`` if its beginning is not known."""
    return "<unknown>" if since is None else duration(now - since)


def duration(span: timedelta) -> str:
    """``span`` in at most two units, the smaller one only while it matters.

    Clocks that disagree by up to a second are forgiven, more is shown as ``<invalid>``.

    Source: Kubernetes 1.36 ``apimachinery/pkg/util/duration/duration.go``, ``HumanDuration``.
    """
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, "m", _MINUTE, "s", 1)
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, "h", _HOUR, "m", _MINUTE)
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, "d", _DAY, "h", _HOUR)
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, "y", _YEAR, "d", _DAY)
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: str, large_s: int, small: str, small_s: int) -> str:
    whole, rest = divmod(seconds, large_s)
    return f"{whole}{large}{rest // small_s}{small}" if rest // small_s else f"{whole}{large}"
