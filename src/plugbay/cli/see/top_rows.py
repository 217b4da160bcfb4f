"""The rows of ``plugbay top``: searched, sorted, and no more than a terminal can use. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from plugbay.cli.printing.table import cell
from plugbay.cli.see.who_rows import HEADER, DeviceUse, row, uses_of
from plugbay.observe.view import HealthWord, ObservedNode
from plugbay.values import dataclass

MOST_ROWS: Final = 1000
"""More are of no use on a screen, and slow: a search narrows them."""
_SINCE: Final = HEADER.index("SINCE")


@dataclass(frozen=True, slots=True)
class TopOrder:
    """The choice and the order of the rows that are shown.

    Attributes:
        search: words that all have to be in a row, in any case.
        column: the number of the column that rows are sorted by; equal rows stay in the order of resources and devices.
        only_unhealthy: only devices that are not healthy.
    """

    search: str = ""
    column: int = 0
    is_reversed: bool = False
    only_unhealthy: bool = False

    def by(self, column: int) -> TopOrder:
        """Sorted by ``column``; the other way round if it is that already."""
        return replace(self, column=column, is_reversed=column == self.column and not self.is_reversed)


def top_rows(view: ObservedNode, order: TopOrder, now: datetime) -> tuple[list[tuple[str, ...]], int]:
    """The first rows, harmless to print, and how many more there are."""
    words = order.search.casefold().split()
    chosen = [(use, tuple(map(cell, row(use, now)))) for use in uses_of(view) if _is_wanted(use, order)]
    found = [each for each in chosen if all(word in " ".join(each[1]).casefold() for word in words)]
    found.sort(key=_key(order.column), reverse=order.is_reversed)
    return [cells for _, cells in found[:MOST_ROWS]], max(0, len(found) - MOST_ROWS)


def summary(view: ObservedNode) -> str:
    """A line of counts: resources with what is held and free, and what is missing."""
    counts: Sequence[str] = [
        f"{cell(each.name)} {each.allocated} held, {'?' if each.free is None else each.free} free"
        for each in view.resources
    ]
    missing = [f"! {cell(problem.sentence)}" for problem in view.problems]
    return "   ".join([*(counts or ["no devices"]), *missing])


def _is_wanted(use: DeviceUse, order: TopOrder) -> bool:
    return not order.only_unhealthy or use.device.health.word is not HealthWord.HEALTHY


def _key(column: int) -> Callable[[tuple[DeviceUse, tuple[str, ...]]], tuple[bool, float | str]]:
    """Moments sort as such, from the newest on, and all else as texts; what is unknown comes last."""

    def by_moment(item: tuple[DeviceUse, tuple[str, ...]]) -> tuple[bool, float | str]:
        since = item[0].holder.since if item[0].holder else None
        return since is None, 0.0 if since is None else -since.timestamp()

    def by_text(item: tuple[DeviceUse, tuple[str, ...]]) -> tuple[bool, float | str]:
        return item[1][column].startswith("<"), item[1][column]

    return by_moment if column == _SINCE else by_text
