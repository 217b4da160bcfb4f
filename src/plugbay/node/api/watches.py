"""v1 watches: one JSON object a line, as long as the client stays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from plugbay.model.ids import PodUid
from plugbay.node.broadcast import Change, Subscription
from plugbay.node.status import Json
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


async def _lines(
    subscription: Subscription[Key, Item],
    seen: Callable[[Change, Item], Change | None],
    shown: Callable[[Item], Json],
) -> AsyncIterator[bytes]:
    while True:
        lines = [
            json.dumps({"type": change.value, "object": shown(item)})
            for happened, item in await subscription.next()
            if (change := seen(happened, item)) is not None
        ]
        if lines:
            yield "".join(f"{line}\n" for line in lines).encode()
