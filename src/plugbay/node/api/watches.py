"""v1 watches: one JSON object a line, as long as the client stays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from plugbay.model.ids import PodUid
from plugbay.node.broadcast import Change, Subscription
from plugbay.node.status import Json
from plugbay.ops.changes import Changes
from plugbay.ops.routing import JSON, Request, StreamResponse

Item = TypeVar("Item")
Key = TypeVar("Key", PodUid, str)


def is_watch(request: Request) -> bool:
    return request.query.get("watch", "") in ("true", "1")


def watch_response(
    subscription: Subscription[Key, Item],
    *,
    seen: Callable[[Change, Item], Change | None],
    shown: Callable[[Item], Json],
) -> StreamResponse:
    """The changes, each as it is ``seen``; those that are seen as None are left out."""
    return StreamResponse(_lines(subscription, seen, shown), content_type=JSON)


async def state_lines(changes: Changes, state: Callable[[], Json | None]) -> AsyncIterator[bytes]:
    """A watch of one object that is kept nowhere, only computed: a line whenever ``state`` differs; none for None."""
    shown: Json | None = None
    async for _ in changes:
        now = state()
        if now is not None and now != shown:
            change = Change.MODIFIED if shown else Change.ADDED
            shown = now
            yield _line(change, now)


def _line(change: Change, item: Json) -> bytes:
    return json.dumps({"type": change.value, "object": item}).encode() + b"\n"


async def _lines(
    subscription: Subscription[Key, Item],
    seen: Callable[[Change, Item], Change | None],
    shown: Callable[[Item], Json],
) -> AsyncIterator[bytes]:
    while True:
        lines = [
            _line(change, shown(item))
            for happened, item in await subscription.next()
            if (change := seen(happened, item)) is not None
        ]
        if lines:
            yield b"".join(lines)
