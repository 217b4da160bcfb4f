"""The rows of ``plugbay top``: searched, sorted, and no more than a terminal can use. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from plugbay.cli.printing.table import NONE, cell
from plugbay.cli.see.who_rows import HEADER, RELEASING, DeviceUse, row, uses_of
from plugbay.observe.view import HealthWord, ObservedNode
from plugbay.values import dataclass

MOST_ROWS: Final = 1000
"""More are of no use on a screen, and slow: a search narrows them."""
_SINCE: Final = HEADER.index("SINCE")
_UNKNOWN: Final = (NONE, RELEASING)
_NUMBER: Final = re.compile("([0-9]{1,18})")
_Row: TypeAlias = tuple[DeviceUse, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TopOrder:
    """The choice and the order of the rows that are shown.

    Attributes:
        search: words that all have to be in a row, in any case.
        column: the number of the column that rows are sorted by: moments from the newest on, numbers in texts as such.
            Equal rows stay in the order of resources and devices, and what is unknown comes last.
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
    uses = sorted(uses_of(view), key=lambda use: (_natural(use.resource.name), _natural(use.device.id)))
    chosen = [(use, tuple(map(cell, row(use, now)))) for use in uses if _is_wanted(use, order)]
    found = [each for each in chosen if all(word in " ".join(each[1]).casefold() for word in words)]
    return [cells for _, cells in _sorted(found, order)[:MOST_ROWS]], max(0, len(found) - MOST_ROWS)


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


def _sorted(rows: list[_Row], order: TopOrder) -> list[_Row]:
    """In order, what is unknown at the end whichever way round."""
    known = [each for each in rows if each[1][order.column] not in _UNKNOWN]
    unknown = [each for each in rows if each[1][order.column] in _UNKNOWN]
    if order.column == _SINCE:
        known.sort(key=_since, reverse=not order.is_reversed)
    else:
        known.sort(key=lambda each: _natural(each[1][order.column]), reverse=order.is_reversed)
    return known + unknown


def _since(item: _Row) -> float:
    holder = item[0].holder
    return holder.since.timestamp() if holder and holder.since else 0.0


def _natural(text: str) -> list[str | int]:
    """A key by which ``gpu-10`` comes after ``gpu-9``: texts and numbers take turns."""
    return [int(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(text))]
