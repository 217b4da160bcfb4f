"""Find a short sequence that still fails. Pure.

The trials are another's: the search yields sequences, and is sent whether each of them failed.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002 (delta debugging).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

_Item = TypeVar("_Item")
Trials: TypeAlias = "Generator[tuple[_Item, ...], bool, tuple[_Item, ...]]"


def shrink(failing: Sequence[_Item]) -> Trials[_Item]:
    """Search for a short part of ``failing`` that fails too: no single item of the result can be left out.

    Yields:
        A sequence to try, none twice in a row and never ``failing`` itself; the first is the empty one. Send whether it
        failed.

    Returns:
        The shortest sequence that failed; ``failing`` itself if no part did.
    """
    if not failing or (yield ()):
        return ()
    current = tuple(failing)
    size = max(1, len(current) // 2)
    while True:
        shorter = yield from _without_pieces(current, size)
        if size == 1 and shorter == current:
            return current
        current = shorter
        size = max(1, min(size // 2, len(current) // 2))


def _without_pieces(current: tuple[_Item, ...], size: int) -> Trials[_Item]:
    """Leave out each piece of ``size`` items in turn, the last piece first: what failed is near the end."""
    end = len(current)
    while end > 0:
        begin = max(0, end - size)
        candidate = current[:begin] + current[end:]
        if candidate and (yield candidate):
            current = candidate
        end = begin
    return current
