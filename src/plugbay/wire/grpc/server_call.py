"""One call that a peer makes: its request is read, its method runs, and the answers and the status are sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES, MessageReader, frame
from plugbay.wire.grpc.kept import CALL_BYTES, KeptOfPeer
from plugbay.wire.grpc.link import Link
from plugbay.wire.grpc.metadata import decode_metadata
from plugbay.wire.grpc.services import AnyMethod, Forwarded, ServerStream, Unary
from plugbay.wire.grpc.statuses import OK_TRAILERS, trailers
from plugbay.wire.grpc.texts import deadline_passed
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.events import Fields
from plugbay.wire.http2.header_blocks import encode

logger = logging.getLogger(__name__)

_ANSWER_FIELDS: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ANSWER: Final = encode(_ANSWER_FIELDS)
_NO_ANSWERS: Final = _ANSWER + OK_TRAILERS

_TOO_MANY: Final = "cardinality violation: received multiple request messages for non-client-streaming RPC"
_NONE: Final = "cardinality violation: received no request message from non-client-streaming RPC"

_TOO_MUCH: Final = "the requests on this connection are too large together"

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Makes a task that its server waits for."""


class ServerCall:
    """A call, from its headers to its end. It is known to its link as long as its stream is open.

    Args:
        fields: the headers of the call.
        timeout_s: the time that the peer gives it, from now on.
        kept: counts the bytes that the peer's calls take.
    """

    def __init__(
        self,
        link: Link,
        stream: int,
        method: AnyMethod,
        fields: Fields,
        *,
        timeout_s: float | None,
        start: Start,
        kept: KeptOfPeer,
    ) -> None:
        self._link = link
        self._stream = stream
        self._method = method
        self._fields = fields
        self._start = start
        self._until: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            loop = asyncio.get_running_loop()
            self._until = loop.time() + timeout_s
            self._timer = loop.call_at(self._until, self._expire)
        self._kept = kept
        self._takes = CALL_BYTES + sum(len(name) + len(value) for name, value in fields)
        self._kept.add(self._takes)
        self._reader = MessageReader(MAX_MESSAGE_BYTES)
        self._requests: list[bytes] = []
        self._is_answered = False
        self._is_over = False
        self._is_cancelled = False
        self._scope: asyncio.Timeout | None = None
        self._task: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    # --- what arrives -----------------------------------------------------------------------------------------------

    def headers(self, fields: Fields, *, ends: bool) -> None:
        """Trailers of a request mean nothing, but may be its end."""
        self.data(b"", ends=ends)

    def data(self, data: bytes, *, ends: bool) -> None:
        self._link.http2.consumed(self._stream, len(data))
        if self._task is not None:
            return
        self._takes += len(data)
        may_go_on = self._kept.add(len(data))
        if self._is_over:
            return
        try:
            if not may_go_on:
                raise RpcFailed(RpcCode.RESOURCE_EXHAUSTED, _TOO_MUCH)
            self._requests += self._reader.read(data)
            if len(self._requests) > 1:
                raise RpcFailed(RpcCode.INTERNAL, _TOO_MANY)
            if ends and self._reader.is_within_message:
                raise RpcFailed(RpcCode.INTERNAL, "unexpected EOF")
            if ends and not self._requests:
                raise RpcFailed(RpcCode.INTERNAL, _NONE)
        except RpcFailed as failure:
            self._end(failure)
            return
        if ends:
            self._stop_timer()
            self._task = self._start(self._run(self._requests.pop()))
            self._task.add_done_callback(self._method_ended)

    def reset(self, code: int) -> None:
        self._leave()
        self.cancel()

    def malformed(self) -> None:
        self.reset(ErrorCode.PROTOCOL_ERROR)

    def lost(self, reason: str) -> None:
        self.reset(ErrorCode.CANCEL)

    def drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def cancel(self) -> None:
        """Cancel the method, unless it has been or its time has passed: what it does on its way out is left alone."""
        if self._task is None or self._is_cancelled or (self._scope is not None and self._scope.expired()):
            return
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.reschedule(None)
        self._task.cancel()

    # --- what is answered -------------------------------------------------------------------------------------------

    async def _run(self, request: bytes) -> None:
        try:
            await self._in_time(request)
        except RpcFailed as failure:
            self._end(failure)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._end(RpcFailed(RpcCode.CANCELLED, "context canceled"))  # the method did that to itself
        except Exception as error:  # the edge to what others wrote
            logger.error("a method failed unexpectedly", exc_info=error)
            self._end(RpcFailed(RpcCode.UNKNOWN, f"{type(error).__name__}: {error}"))
        except BaseException as error:  # the caller has to learn of it before the process does
            self._end(RpcFailed(RpcCode.UNKNOWN, f"{type(error).__name__}: {error}"))
            raise
        else:
            self._end(None)

    async def _in_time(self, request: bytes) -> None:
        """Answer.

        Raises:
            RpcFailed: the peer's time has passed, or what the method raised.
        """
        if self._until is None:
            await self._answer(request)
            return
        if self._until <= asyncio.get_running_loop().time():
            raise deadline_passed()
        try:
            async with asyncio.timeout_at(self._until) as scope:
                self._scope = scope
                try:
                    await self._answer(request)
                finally:
                    self._scope = None
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise deadline_passed() from error

    def _expire(self) -> None:
        """The request has not come in time."""
        self._end(deadline_passed())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _answer(self, request: bytes) -> None:
        match self._method:
            case Unary(answer):
                self._put(await answer(request))
                await self._until_taken()
            case ServerStream(answers):
                await self._put_all(answers(request, decode_metadata(self._fields)))
            case Forwarded(answers):
                left_s = None if self._until is None else self._until - asyncio.get_running_loop().time()
                await self._put_all(answers(request, decode_metadata(self._fields), left_s))

    async def _put_all(self, answers: AsyncGenerator[bytes, None]) -> None:
        async with aclosing(answers) as messages:
            async for message in messages:
                self._put(message)
                self._link.flush()
                await self._until_taken()

    def _put(self, message: bytes) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._link.http2.send_headers(self._stream, _ANSWER)
        self._link.http2.send_data(self._stream, frame(message))

    async def _until_taken(self) -> None:
        """Wait while the peer does not read."""
        if self._link.http2.unsent(self._stream):
            self._link.flush()  # what the windows let through makes the peer open them
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        if not self._link.may_write.is_set():
            await self._link.may_write.wait()

    def _end(self, failure: RpcFailed | None) -> None:
        """Send the status, after what was answered; without an answer it comes in one block with the headers."""
        http2 = self._link.http2
        if failure is None:
            http2.send_headers(self._stream, OK_TRAILERS if self._is_answered else _NO_ANSWERS, ends=True)
        else:
            fields = trailers(failure, max_bytes=http2.remote.max_header_bytes)
            http2.send_headers(
                self._stream, encode(fields if self._is_answered else (*_ANSWER_FIELDS, *fields)), ends=True
            )
        if self._task is None:
            http2.reset(self._stream, ErrorCode.NO_ERROR)  # the rest of the request is of no use
        self._leave()
        self._link.flush()

    def _leave(self) -> None:
        """The call is over but for its task."""
        self._is_over = True
        self._stop_timer()
        self._link.forget(self._stream)
        if self._task is None:
            self._release()

    def _method_ended(self, _: object) -> None:
        self._is_over = True
        self._task = None  # if it was cancelled, it keeps the traceback of that, which keeps the call
        self._release()

    def _release(self) -> None:
        self._kept.remove(self._takes)
        self._takes = 0


def _is_cancelled() -> bool:
    """Whether this task was told to end. Its caller keeps no hold of the task, which would keep the caller's frame."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
