"""A node that is followed for all readers of its page together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from plugbay.documents import Json
from plugbay.observe.page.happenings import happenings
from plugbay.observe.page.history import History, events_json
from plugbay.observe.page.rows import NODE, Rows, changes_between, rows_of
from plugbay.observe.view import ObservedNode
from plugbay.ops.changes import Changes
from plugbay.ops.slices import joined, json_pieces

_RECONNECT_MS: Final = 1000


class LiveNode:
    """The newest state of a node, its last hour, and streams of what changes.

    A view without an answer of the kubelet changes nothing but the notes: a kubelet that restarts has lost no device.

    Attributes:
        view: the last one that was whole, or the last one while there was none such; None until the node was read.
    """

    def __init__(self) -> None:
        self.view: ObservedNode | None = None
        self._rows: Rows = {}
        self._history = History()
        self._told = 0
        self._changes = Changes()

    async def follow(self, views: AsyncIterable[ObservedNode]) -> None:
        """Show each view of ``views``, which has no end."""
        async for view in views:
            await self.show(view)

    async def show(self, view: ObservedNode) -> None:
        """Take a view in; the states between two turns of a reader become one for it."""
        is_first = self.view is None
        rows = await asyncio.to_thread(rows_of, view, self._rows)
        if view.is_partial and self.view is not None and not self.view.is_partial:
            rows = {**self._rows, NODE: rows[NODE]}
        else:
            self.view = view
        if rows == self._rows:
            return
        at = view.taken.timestamp()
        found = [] if is_first else await asyncio.to_thread(happenings, self._rows, rows, at=at)
        self._history.take(rows, found, at=at)
        self._told += len(found)
        self._rows = rows
        self._changes.notify()

    async def state(self) -> bytes:
        """All rows and the last hour, as JSON."""
        return await _encoded(
            {
                "put": map(list, self._rows.items()),
                "gone": [],
                "samples": self._history.samples(),
                "events": events_json(self._history.events()),
            }
        )

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events without end: the state, then what changes."""
        shown, told = self._rows, self._told
        yield _event("state", await self.state(), retry_ms=_RECONNECT_MS)
        async for _ in self._changes:
            rows, now_told = self._rows, self._told
            changes = changes_between(shown, rows)
            events = self._history.events()
            newest = events[max(0, len(events) - (now_told - told)) :]
            shown, told = rows, now_told
            if changes or newest:
                change: Json = {"put": map(list, changes.put.items()), "gone": list(changes.gone)}
                yield _event("change", await _encoded(change | {"events": events_json(newest)}))


async def _encoded(content: Json) -> bytes:
    return (await joined(json_pieces(content))).encode()


def _event(name: str, data: bytes, *, retry_ms: int | None = None) -> bytes:
    """One event in the format of the HTML standard, section 9.2; JSON has no line ends."""
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"%bevent: %b\ndata: %b\n\n" % (retry, name.encode(), data)
