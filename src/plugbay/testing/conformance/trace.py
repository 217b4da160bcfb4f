"""The trace of a scene: what happened, in order, for a reader who asks why a rule was broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_LINES: Final = 400
"""A plugin that registers in a storm fills no page."""


class Trace:
    """Lines with the time since the scene began. A second one of a scene goes on with its clock.

    Args:
        now: seconds that never go back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._lines: list[str] = []
        self._left_out = 0

    def note(self, text: str) -> None:
        """Write down that something happened now."""
        if len(self._lines) >= _MOST_LINES:
            self._left_out += 1
            return
        self._lines.append(f"{self._now() - self._began:8.3f} s  {text}")

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines so far; the last one says how many are left out."""
        if not self._left_out:
            return tuple(self._lines)
        return (*self._lines, f"... and {self._left_out} more events")
