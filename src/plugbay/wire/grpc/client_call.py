"""One call that we make: its answers as they arrive, and how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc import texts
from plugbay.wire.grpc.framing import MessageReader
from plugbay.wire.grpc.statuses import read_status
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.events import Fields

if TYPE_CHECKING:
    from plugbay.wire.grpc.link import Link


class _Good(Enum):
    END = "end"


_Outcome = RpcFailed | _Good


class NotProcessed(Exception):
    """The server has not seen the call, and says so: it may be made again.

    Attributes:
        failure: what happened.
    """

    def __init__(self, failure: RpcFailed) -> None:
        super().__init__(failure)
        self.failure = failure


class ClientCall:
    """A call, from its headers to its end.

    Args:
        max_message_bytes: the longest answer that is read.
        until: the time of the loop at which the call fails; None for never.
    """

    def __init__(self, link: Link, stream: int, *, max_message_bytes: int, until: float | None) -> None:
        self._link = link
        self._stream = stream
        self._reader = MessageReader(max_message_bytes)
        self._unread: deque[bytes] = deque()
        self._owed = 0
        self._outcome: _Outcome | None = None
        self._is_processed = True
        self._until = until
        self._has_headers = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if until is not None:
            self._timer = asyncio.get_running_loop().call_at(until, self._fail, texts.deadline_passed())

    # --- for the caller ---------------------------------------------------------------------------------------------

    async def next(self) -> bytes | None:
        """The next answer; None at the good end of the call.

        Raises:
            RpcFailed: the call failed; answers that came before are given first.
            NotProcessed: it may be made again.
        """
        while not self._unread and self._outcome is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._unread:
            message = self._unread.popleft()
            if not self._unread and self._owed:
                self._link.http2.consumed(self._stream, self._owed)
                self._link.flush()
                self._owed = 0
            return message
        if isinstance(self._outcome, RpcFailed):
            if not self._is_processed:
                raise NotProcessed(self._outcome)
            # A new one, of which nothing here keeps hold: its traceback holds the call, and that the connection.
            raise RpcFailed(self._outcome.code, self._outcome.detail)
        return None

    async def only(self) -> bytes:
        """The one answer of a unary call.

        Raises:
            RpcFailed: the call failed, or has another number of answers.
            NotProcessed: it may be made again.
        """
        answer = await self.next()
        if answer is None:
            raise texts.no_answer()
        if await self.next() is not None:
            raise texts.too_many_answers()
        return answer

    def end(self) -> None:
        """Give the call up, unless it has ended."""
        if self._outcome is None:
            self._fail(RpcFailed(RpcCode.CANCELLED, "context canceled"))

    # --- for its link -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The connection is about to be closed by us."""
        self._settle(texts.closing())

    def unseen(self) -> None:
        """The server leaves without having seen the call."""
        self._is_processed = False
        self._settle(texts.draining())

    # --- what arrives -----------------------------------------------------------------------------------------------

    def headers(self, fields: Fields, *, ends: bool) -> None:
        headers = dict(fields)
        if not self._has_headers:
            if (failure := texts.not_grpc(headers)) is not None:
                self._fail(failure)
                return
            self._has_headers = True
            self._reader.encoding = headers.get(b"grpc-encoding", b"identity")
        if ends:
            self._forgo_sending()
            self._settle(texts.cut_off() if self._reader.is_within_message else read_status(headers) or _Good.END)

    def data(self, data: bytes, *, ends: bool) -> None:
        self._owed += len(data)
        try:
            self._unread += self._reader.read(data)
        except RpcFailed as failure:
            self._fail(failure)
            return
        if not self._unread:  # else they are given back when they are read
            self._link.http2.consumed(self._stream, self._owed)
            self._owed = 0
        if ends:
            self._forgo_sending()
            self._settle(texts.cut_off() if self._reader.is_within_message else texts.no_trailers())
        self._wake()

    def reset(self, code: int) -> None:
        if code == ErrorCode.REFUSED_STREAM:
            self._is_processed = False
        if code == ErrorCode.CANCEL and self._is_late():  # the server's clock was quicker
            self._settle(texts.deadline_passed())
        else:
            self._settle(texts.reset(code))

    def malformed(self) -> None:
        self._settle(texts.malformed())

    def drained(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        self._settle(texts.connection_lost(reason))

    def _is_late(self) -> bool:
        return self._until is not None and self._until <= asyncio.get_running_loop().time()

    # --- the end ----------------------------------------------------------------------------------------------------

    def _forgo_sending(self) -> None:
        """Close the stream if a part of the request still waits, as the server has ended the call without it."""
        self._link.http2.reset(self._stream, ErrorCode.NO_ERROR)

    def _fail(self, failure: RpcFailed) -> None:
        """End the call from our side."""
        if self._outcome is None:
            self._link.http2.reset(self._stream, ErrorCode.CANCEL)
            self._settle(failure)
            self._link.flush()

    def _settle(self, outcome: _Outcome) -> None:
        if self._outcome is not None:
            return
        self._outcome = outcome
        if self._timer is not None:
            self._timer.cancel()
        if self._owed:
            self._link.http2.consumed(self._stream, self._owed)
            self._owed = 0
        self._link.forget(self._stream)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
