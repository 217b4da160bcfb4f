"""Plugins that a replay plays: they answer as recorded, and compare what they are asked with what was asked then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from plugbay.errors import RpcCode, RpcFailed
from plugbay.ops.changes import Changes
from plugbay.testing.tracing.comparing import compare_request
from plugbay.testing.tracing.manager.derived_pods import devices_asked
from plugbay.testing.tracing.manager.script import RecordedCall
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from plugbay.wire.message_values import ALLOCATE, LIST_AND_WATCH, METHODS, OPTIONS, method_name
from plugbay.wire.plugin_answers import nothing_allocated, preferred_devices, with_preferences

PREFERRED = "/v1beta1.DevicePlugin/GetPreferredAllocation"
RELEASES = frozenset({"/v1beta1.DevicePlugin/PostStopContainer", "/v1beta1.DevicePlugin/Deallocate"})
"""A manager repeats them until they are confirmed, at its leisure."""
_SERVICE = "v1beta1.DevicePlugin"
_NOTHING = RpcFailed(RpcCode.UNAVAILABLE, "this call has no answer in the recording")


class RecordedAnswers:
    """All calls of a recording, each of which is made once.

    Args:
        is_steered: whether the plugins prefer the devices that were given out in the recording.
        tell: takes a call, and how it differs now.

    Attributes:
        until_line: calls of later lines are not made yet.
        at_line: the line that the replay has come to; calls of `RELEASES` are answered when theirs has come.
        held: the devices that pods held before, by resource: they are given out without a recorded call.
    """

    def __init__(
        self,
        calls: Collection[RecordedCall],
        *,
        is_steered: bool,
        tell: Callable[[RecordedCall | None, str, list[str]], object],
    ) -> None:
        self.until_line = 0
        self.at_line = 0.0
        self.held: dict[str, tuple[str, ...]] = {}
        self.is_steered = is_steered
        self._calls = calls
        self._tell = tell
        self._made = Changes()
        self._reached = Changes()

    def reach(self, line: float) -> None:
        """Come to a line."""
        self.at_line = line
        self._reached.notify()

    async def answer(self, resource: str, method: str, request: bytes) -> bytes:
        """The recorded answer to a call.

        Raises:
            RpcFailed: as recorded.
        """
        if self.held:
            return self._for_held(resource, method)
        call = self._take(resource, method, request)
        if call is None:
            return self._unrecorded(resource, method, request)
        if method not in RELEASES or not call.is_made:
            self._tell(call, call.title, compare_request(method, call.request, request))
        call.is_made = True
        self._made.notify()
        if method in RELEASES and call.answer is not None:
            async for _ in self._reached:
                if self.at_line >= call.end_line:
                    break
        if call.answer is None:
            failure = call.failure or _NOTHING
            raise RpcFailed(failure.code, failure.detail)
        return with_preferences(call.answer) if method == OPTIONS and self.is_steered else call.answer

    async def until_released(
        self, line: float, timeout_s: float, is_done: Callable[[RecordedCall], bool] = lambda call: True
    ) -> None:
        """Wait until the calls of `RELEASES` that had ended by a line are made and done, or until the time is over."""
        calls = [call for call in self._calls if call.method in RELEASES and call.answer is not None]
        wanted = [call for call in calls if call.end_line < line]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                async for _ in self._made:
                    if all(call.is_made and is_done(call) for call in wanted):
                        return

    def look_again(self) -> None:
        """Something has changed on which a call's being done depends."""
        self._made.notify()

    def _take(self, resource: str, method: str, request: bytes) -> RecordedCall | None:
        """The call that this one repeats: of those that may be made now, one with these devices, or so many."""
        known = [call for call in self._calls if call.resource == resource and call.method == method]
        open_calls = [call for call in known if not call.is_made]
        if method == OPTIONS:
            return open_calls[0] if open_calls else (known[-1] if known else None)
        devices = devices_asked(method, request)
        if method in RELEASES:
            same = [call for call in (*open_calls, *known) if devices_asked(method, call.request) == devices]
            return same[0] if same else None
        now = [call for call in open_calls if call.line <= self.until_line]
        for is_like in (
            lambda asked: asked == devices,
            lambda asked: len(asked) == len(devices),
            lambda asked: True,
        ):
            for call in now:
                if is_like(devices_asked(method, call.request)):
                    return call
        return None

    def _for_held(self, resource: str, method: str) -> bytes:
        if method == PREFERRED:
            return preferred_devices(self.held.get(resource, ()))
        return nothing_allocated() if method == ALLOCATE else b""

    def _unrecorded(self, resource: str, method: str, request: bytes) -> bytes:
        if method == OPTIONS:
            return with_preferences(b"") if self.is_steered else b""
        if method == PREFERRED and self.is_steered:
            coming = [
                call
                for call in self._calls
                if call.resource == resource
                and call.method == ALLOCATE
                and not call.is_made
                and call.line <= self.until_line
            ]
            return preferred_devices(devices_asked(ALLOCATE, coming[0].request) if coming else ())
        if method not in RELEASES:
            devices = ", ".join(devices_asked(method, request))
            now = f"not called in the recording, called for {devices or 'no devices'} now"
            self._tell(None, f"{resource}  {method_name(method)}", [now])
        return nothing_allocated() if method == ALLOCATE else b""


class PlayedPlugin:
    """A plugin on a socket of its own; `serve` it before it registers."""

    def __init__(self, resource: str, socket: Path, answers: RecordedAnswers) -> None:
        self.resource = resource
        self.socket = socket
        self._answers = answers
        self._last: bytes | None = None
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._up = AsyncExitStack()

    async def serve(self) -> None:
        """Listen until `close`."""
        paths = [path for path in METHODS if path.startswith(f"/{_SERVICE}/") and path != LIST_AND_WATCH]
        methods: dict[str, Unary | ServerStream] = {
            method_name(path): Unary(partial(self._answers.answer, self.resource, path)) for path in paths
        }
        methods[method_name(LIST_AND_WATCH)] = ServerStream(self._lists)
        await self._up.enter_async_context(serve_grpc(self.socket, [Service(_SERVICE, methods)]))

    async def close(self) -> None:
        self.end_streams()
        await self._up.aclose()

    def send(self, message: bytes) -> None:
        """Send a list, now or when the manager asks for lists."""
        self._last = message
        for stream in self._streams:
            stream.put_nowait(message)

    def end_streams(self) -> None:
        self._last = None
        for stream in self._streams:
            stream.put_nowait(None)

    async def _lists(self, request: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        if self._last is not None:
            stream.put_nowait(self._last)
        self._streams.add(stream)
        try:
            while (message := await stream.get()) is not None:
                yield message
        finally:
            self._streams.discard(stream)
