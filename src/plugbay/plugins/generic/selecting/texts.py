"""Words of the sentences about rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMED_AT_MOST: Final = 3


def several(paths: Sequence[str]) -> str:
    """Some of these paths, and how many more there are; they are quoted where a log could not show them."""
    named = ", ".join(path if path.isprintable() else ascii(path) for path in paths[:_NAMED_AT_MOST])
    return f"{named} and {len(paths) - _NAMED_AT_MOST} more" if len(paths) > _NAMED_AT_MOST else named
