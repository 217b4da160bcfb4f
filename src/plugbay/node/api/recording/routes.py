"""A recording over the control socket, and over nothing else: it tells of all pods, and may hold secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from plugbay.node.api.parameters import is_set
from plugbay.node.api.recording.node import NodeRecorder, Recorded
from plugbay.ops.routing import Handler, HttpError, Request, Router, StreamResponse
from plugbay.traffic.file_format import RecordLines, header_line

RECORDING: Final = "/plugbay/v1/recording"
_MOST_WAITING: Final = 20_000
"""The records that wait for a client that is slow; one that is slower is told that its recording ends."""
LOST: Final = {"event": "lost", "note": "the client was too slow, so the recording ends here"}


class LocalRouter(Router):
    """The routes of the control socket: its own, and those that the API has too."""

    def __init__(self, shared: Router, recorder: NodeRecorder) -> None:
        super().__init__()
        self._shared = shared
        self._recorder = recorder
        self.add("GET", RECORDING, self._record)

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        try:
            return super().find(method, path)
        except HttpError as error:
            if error.status != 404:
                raise
        return self._shared.find(method, path)

    async def _record(self, request: Request) -> StreamResponse:
        return StreamResponse(_lines(self._recorder, is_masked=not is_set(request, "unmasked")), "application/x-ndjson")


async def _lines(recorder: NodeRecorder, *, is_masked: bool) -> AsyncIterator[bytes]:
    waiting: asyncio.Queue[Recorded] = asyncio.Queue()
    lines = RecordLines()
    with recorder.listening(waiting.put_nowait, is_masked=is_masked):
        yield header_line(recorder.header(is_masked=is_masked)).encode()
        while True:
            event = await waiting.get()
            if waiting.qsize() > _MOST_WAITING:
                yield json.dumps(LOST).encode() + b"\n"
                return
            yield lines.line(event).encode(errors="backslashreplace")
