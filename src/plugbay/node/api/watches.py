"""v1 watches: one JSON object a line, as long as the client stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from plugbay.documents import Json
from plugbay.model.ids import PodUid
from plugbay.node.api.parameters import whole_number
from plugbay.ops.changes import Changes
from plugbay.ops.routing import JSON, HttpError, Request, StreamResponse
from plugbay.pods.store.watch import Change, Subscription

Item = TypeVar("Item")
Key = TypeVar("Key", PodUid, str)


def watch_response(
    subscription: Subscription[Key, Item],
    request: Request,
    *,
    seen: Callable[[Change, Item], Change | None],
    shown: Callable[[Item], Json],
) -> StreamResponse:
    """The changes, each as it is ``seen``; those that are seen as None are left out.

    It ends after the request's ``timeoutSeconds``, if there are any.
    """
    return stream(_lines(subscription, seen, shown), request)


def stream(lines: AsyncGenerator[bytes, None], request: Request) -> StreamResponse:
    """The lines of a watch, for as long as the request's ``timeoutSeconds`` say, if it has them."""
    seconds = whole_number(request, "timeoutSeconds")
    return StreamResponse(_for_seconds(seconds, lines) if seconds else lines, content_type=JSON)


def check_unversioned(request: Request) -> None:
    """Refuse a watch from a version on, of objects without one.

    Raises:
        HttpError: 410, as an API server refuses one of long ago.
    """
    if whole_number(request, "resourceVersion"):
        raise HttpError(410, "Expired", "these objects have no resource version; watch them without one")


async def _for_seconds(seconds: int, lines: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    end = asyncio.get_running_loop().time() + seconds
    async with aclosing(lines):
        while True:
            try:
                async with asyncio.timeout_at(end):
                    line = await anext(lines)
            except (TimeoutError, StopAsyncIteration):
                return
            yield line


async def state_lines(changes: Changes, state: Callable[[], Json | None]) -> AsyncGenerator[bytes, None]:
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
) -> AsyncGenerator[bytes, None]:
    while True:
        lines = [
            _line(change, shown(item))
            for happened, item in await subscription.next()
            if (change := seen(happened, item)) is not None
        ]
        if lines:
            yield b"".join(lines)
