"""Listening to tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from plugbay.objects.watch import Change, Item, Key


class TableListener(Generic[Key, Item]):
    """Hands changes on. It has to be held as long as changes are to be told."""

    def __init__(self, told: Callable[[Change, Key, Item], None]) -> None:
        self._told = told

    def put(self, change: Change, key: Key, item: Item) -> None:
        self._told(change, key, item)
