"""Watches of objects: one JSON object a line, as long as the client stays or its time lasts.

Source: Kubernetes API concepts, "Efficient detection of changes"; apiserver 1.36 ``pkg/endpoints/handlers/watch.go``,
``pkg/storage/cacher``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.parameters import is_set, whole_number
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.forms import in_form
from plugbay.node.api.reading.items import ApiItem, ChangedItem
from plugbay.node.api.reading.listing import included_in
from plugbay.node.api.reading.negotiation import MediaForm, wanted_form
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.resources import ApiResource
from plugbay.objects.watch import Change
from plugbay.ops.routing import JSON, HttpError, Request, StreamResponse, error_status

_BOOKMARK_S: Final = 60.0
"""An API server sends one a minute."""
_END_OF_INITIAL: Final = "k8s.io/initial-events-end"

_WRITE_S: Final = 30.0
"""A client that takes nothing for so long watches no more: what it was to be told is kept for it meanwhile."""
_LARGE_BYTES: Final = 64 * 1024

_Line = Callable[[str, ApiItem], tuple[bytes, ...]]


def watch_response(
    collection: Collection, resource: ApiResource, request: Request, now: Callable[[], datetime]
) -> StreamResponse:
    """The changes of the objects that a request selects, after the resource version that it names.

    Without a version, and with 0, it first has all objects as added, unless the request says ``sendInitialEvents``.

    Raises:
        HttpError: 400 or 406, it asks for what there is not. A version that is too old is told in the stream, as an API
            server does.
        UsageError: a selector cannot be read.
    """
    form = wanted_form(request.headers.get("accept", ""), is_stream=True)
    selection = ItemSelection(request, resource)
    says_initial = "sendInitialEvents" in request.query
    wants_initial = is_set(request, "sendInitialEvents")
    version = whole_number(request, "resourceVersion") or 0
    if says_initial and not wants_initial:
        version = version or collection.version
    line = _as_it_is if form is MediaForm.OBJECTS else partial(_formed, resource, form, request, now)
    bookmarks = _Bookmarks(resource) if is_set(request, "allowWatchBookmarks") else None
    lines = _lines(
        collection,
        selection,
        line,
        version=version,
        initial=wants_initial or not version,
        ends_initial=wants_initial,
        bookmarks=bookmarks,
    )
    seconds = whole_number(request, "timeoutSeconds")
    return StreamResponse(_for_seconds(seconds, lines) if seconds else lines, content_type=JSON, write_s=_WRITE_S)


async def _lines(
    collection: Collection,
    selection: ItemSelection,
    line: _Line,
    *,
    version: int,
    initial: bool,
    ends_initial: bool,
    bookmarks: _Bookmarks | None,
) -> AsyncGenerator[bytes, None]:
    try:
        if initial:
            version = collection.version
            present = [item for item in collection.all() if selection.holds(item)]
            for piece in _joined(line(Change.ADDED.value, item) for item in present):
                yield piece
            if ends_initial and bookmarks is not None:
                yield bookmarks.end_of_initial(version)
        else:
            collection.check_known(version)
        changes = collection.changes(version)
        async with aclosing(_with_bookmarks(changes, collection, bookmarks)) as told:
            async for part in told:
                if isinstance(part, bytes):
                    yield part
                elif seen := [each for each in map(selection.seen, part) if each is not None]:
                    for piece in _joined(line(change.value, item) for change, item in seen):
                        yield piece
    except HttpError as error:
        yield _event("ERROR", error_status(error))


def _joined(lines: Iterable[tuple[bytes, ...]]) -> Iterator[bytes]:
    """Pieces of lines to be sent: small ones together; a large one is not copied."""
    waiting: list[bytes] = []
    size = 0
    for piece in chain.from_iterable(lines):
        if len(piece) >= _LARGE_BYTES:
            yield from filter(None, (b"".join(waiting), piece))
            waiting, size = [], 0
            continue
        waiting.append(piece)
        size += len(piece)
        if size >= _LARGE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


async def _with_bookmarks(
    changes: AsyncIterator[list[ChangedItem]], collection: Collection, bookmarks: _Bookmarks | None
) -> AsyncGenerator[list[ChangedItem] | bytes, None]:
    """The changes; between them, now and then, how far they go."""
    if bookmarks is None:
        async for some in changes:
            yield some
        return
    next_change = asyncio.ensure_future(anext(changes))
    try:
        while True:
            done, _ = await asyncio.wait([next_change], timeout=_BOOKMARK_S)
            if not done:
                yield bookmarks.at(collection.version)
                continue
            try:
                yield next_change.result()
            except StopAsyncIteration:
                return
            next_change = asyncio.ensure_future(anext(changes))
    finally:
        next_change.cancel()
        await asyncio.wait([next_change])


class _Bookmarks:
    """Lines that tell no change, but the version up to which all changes were told."""

    def __init__(self, resource: ApiResource) -> None:
        self._resource = resource

    def at(self, version: int) -> bytes:
        return _event("BOOKMARK", self._object({"resourceVersion": str(version)}))

    def end_of_initial(self, version: int) -> bytes:
        annotations = {_END_OF_INITIAL: "true"}
        return _event("BOOKMARK", self._object({"resourceVersion": str(version), "annotations": annotations}))

    def _object(self, metadata: Json) -> Json:
        return {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}


def _as_it_is(kind: str, item: ApiItem) -> tuple[bytes, ...]:
    return item.line(kind)


def _formed(
    resource: ApiResource, form: MediaForm, request: Request, now: Callable[[], datetime], kind: str, item: ApiItem
) -> tuple[bytes, ...]:
    return (_event(kind, in_form(resource, item, form, now(), included=included_in(request))),)


def _event(kind: str, value: Json) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


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
