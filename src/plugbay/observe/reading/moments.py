"""Moments from the time stamps of files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def moment_of(stamp: float) -> datetime:
    """The moment, no earlier than 1970 and no later than 9999: a container may give its files any time stamp."""
    return datetime.fromtimestamp(min(max(stamp, 0.0), _LATEST), UTC)
