"""A node that is followed for all readers of its page together."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Final

from plugbay.documents import Json
from plugbay.observe.page.happenings import NodeHappening, happenings
from plugbay.observe.page.history import History, events_json
from plugbay.observe.page.rows import (
    NODE,
    DeviceRow,
    NodeRow,
    PageRow,
    RowChanges,
    Rows,
    changes_between,
    node_row,
    row_object,
    rows_of,
)
from plugbay.observe.view import ObservedNode

_RECONNECT_MS: Final = 1000
_PORTION: Final = 500
"""Rows in one event: a browser takes them in a few milliseconds, where ten thousand would hold it up."""
_KEPT_CHANGES: Final = 32
"""A reader that is further behind gets the whole state anew."""
_SIGN_OF_LIFE_S: Final = 20.0
_SIGN_OF_LIFE: Final = b":\n\n"


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
        self._version = 0
        self._recent = deque[tuple[int, bytes]](maxlen=_KEPT_CHANGES)
        self._readers = 0
        self._moved = asyncio.Event()

    async def follow(self, views: AsyncIterable[ObservedNode]) -> None:
        """Show each view of ``views``, which has no end."""
        async for view in views:
            await self.show(view)

    async def show(self, view: ObservedNode) -> None:
        """Take a view in; its rows are compared apart from the event loop."""
        is_first = self.view is None
        is_less = view.is_partial and self.view is not None and not self.view.is_partial
        rows = (
            {**self._rows, NODE: node_row(view, kept=self.view)} if is_less else await asyncio.to_thread(rows_of, view)
        )
        at = view.taken.timestamp()
        changes, found = await asyncio.to_thread(_compared, self._rows, rows, at)
        found = [] if is_first else found
        event = await asyncio.to_thread(_change_events, changes, found) if changes and self._readers else b""
        if not is_less:
            self.view = view
        self._rows = rows
        if not changes:
            return
        self._history.take(rows, found, at=at)
        self._version += 1
        if event:
            self._recent.append((self._version, event))
        self._moved.set()
        self._moved = asyncio.Event()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what the newest view lacks."""
        row = self._rows.get(NODE)
        return (*filter(None, (row.lacking,)), *row.problems) if isinstance(row, NodeRow) else ()

    async def state(self) -> bytes:
        """All rows and the last hour, as JSON."""
        return await asyncio.to_thread(_encoded, self._last_hour(), self._rows.items())

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events without end: the whole state, then what changes, and comments as a sign of life."""
        self._readers += 1
        try:
            shown = self._version
            async for event in self._whole():
                yield event
            while True:
                if shown == self._version and not await _comes(self._moved, _SIGN_OF_LIFE_S):
                    yield _SIGN_OF_LIFE
                    continue
                missed, before = [event for version, event in self._recent if version > shown], shown
                shown = self._version
                if len(missed) < shown - before:
                    async for event in self._whole():
                        yield event
                else:
                    for event in missed:
                        yield event
        finally:
            self._readers -= 1

    async def _whole(self) -> AsyncIterator[bytes]:
        """The state: ``state`` with all but devices, which come in portions as ``more``; ``live`` ends it."""
        rows, last_hour = self._rows, self._last_hour()
        devices = [item for item in rows.items() if isinstance(item[1], DeviceRow)]
        others = [item for item in rows.items() if not isinstance(item[1], DeviceRow)]
        yield _event("state", _encoded(last_hour, others), retry_ms=_RECONNECT_MS)
        for start in range(0, len(devices), _PORTION):
            yield _event("more", await asyncio.to_thread(_encoded, {}, devices[start : start + _PORTION]))
        yield _event("live", b"{}")

    def _last_hour(self) -> Json:
        return {"samples": self._history.samples(), "events": events_json(self._history.events())}


async def _comes(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False


def _compared(before: Rows, after: Rows, at: float) -> tuple[RowChanges, list[NodeHappening]]:
    changes = changes_between(before, after)
    return changes, happenings(before, changes, at=at)


def _change_events(changes: RowChanges, found: Sequence[NodeHappening]) -> bytes:
    """``change``, with the last rows that changed; if there are many, the others come before as ``more``."""
    rows = list(changes.put.items())
    last = max(0, len(rows) - 1) // _PORTION * _PORTION
    earlier = [_event("more", _encoded({}, rows[start : start + _PORTION])) for start in range(0, last, _PORTION)]
    content: Json = {"gone": list(changes.gone), "events": events_json(found)}
    return b"".join([*earlier, _event("change", _encoded(content, rows[last:]))])


def _encoded(content: Json, put: Iterable[tuple[str, PageRow]]) -> bytes:
    """JSON of ``content`` with the rows as ``put``, made row by row."""
    rows = ", ".join(json.dumps([key, row_object(row)]) for key, row in put)
    return f'{json.dumps(content)[:-1]}{", " if content else ""}"put": [{rows}]}}'.encode()


def _event(name: str, data: bytes, *, retry_ms: int | None = None) -> bytes:
    """One event in the format of the HTML standard, section 9.2; JSON has no line ends."""
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"%bevent: %b\ndata: %b\n\n" % (retry, name.encode(), data)
