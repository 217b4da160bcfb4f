"""A recording over the control socket, and over nothing else: it tells of all pods, and may hold secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from plugbay.node.api.parameters import is_set
from plugbay.node.api.recording.node import NodeRecorder, Recorded
from plugbay.ops.routing import Handler, HttpError, Request, Router, StreamResponse
from plugbay.traffic.file_format import LOST, RecordLines, header_line
from plugbay.traffic.records import TrafficRecord

RECORDING: Final = "/plugbay/v1/recording"
MOST_WAITING_BYTES: Final = 32 * 2**20
"""The records that wait for a client that is slow; one that is slower is told that its recording ends."""
_RECORD_BYTES: Final = 1000
"""The size of a record without its message, roughly."""


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


class WaitingRecords:
    """The records that a client has not read yet. It takes no more once they are too many."""

    def __init__(self, *, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._left = most_bytes
        self._records: asyncio.Queue[Recorded | None] = asyncio.Queue()
        self._is_lost = False

    def put(self, event: Recorded) -> None:
        if self._is_lost:
            return
        self._left -= _size(event)
        self._is_lost = self._left < 0
        self._records.put_nowait(None if self._is_lost else event)

    async def get(self) -> Recorded | None:
        """The next record; None where the recording ends, since some were lost."""
        event = await self._records.get()
        if event is not None:
            self._left += _size(event)
        return event


def _size(event: Recorded) -> int:
    return _RECORD_BYTES + (len(event.message) if isinstance(event, TrafficRecord) else 0)


async def _lines(recorder: NodeRecorder, *, is_masked: bool) -> AsyncIterator[bytes]:
    waiting, lines = WaitingRecords(), RecordLines()
    with recorder.listening(waiting.put, is_masked=is_masked):
        yield header_line(recorder.header(is_masked=is_masked)).encode()
        while (event := await waiting.get()) is not None:
            yield lines.line(event).encode(errors="backslashreplace")
    yield LOST.encode()
