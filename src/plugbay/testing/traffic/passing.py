"""Take one call from its caller to its answerer: recorded, and disturbed by the switches that concern it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, TypeVar

from plugbay.errors import RpcCode, RpcFailed
from plugbay.testing.traffic.faults import DisturbedCall, FaultKind, FaultSwitch, FaultSwitches
from plugbay.traffic.recorder import CallRecorder
from plugbay.wire.grpc import texts
from plugbay.wire.message_values import without_newer_fields

PassOn = Callable[[bytes, float | None], Awaitable[bytes]]
"""Makes the call itself, with the request as it arrives and the time that is left; returns the answer."""
PassStream = Callable[[bytes, float | None], AsyncGenerator[bytes, None]]

_Result = TypeVar("_Result")
_GIVEN_UP: Final = RpcFailed(RpcCode.CANCELLED, "context canceled")


class Passage:
    """The way of one call.

    The records show what passed at the answerer's socket: a request that a fault holds back is recorded once it is sent
    there, and an answer that a fault loses is recorded as it came.
    """

    def __init__(self, call: DisturbedCall, record: CallRecorder, switches: FaultSwitches) -> None:
        self._call = call
        self._record = record
        self._switches = switches

    async def unary(self, request: bytes, timeout_s: float | None, pass_on: PassOn) -> bytes:
        """The answer as the caller gets it.

        Raises:
            RpcFailed: from the answerer, by a fault, or because the time has passed.
        """
        try:
            with self._switches.under_way(self._call):
                async with asyncio.timeout(timeout_s) as scope:
                    return await self._unless_broken(self._unary(request, scope, pass_on))
        except TimeoutError:
            self._record.given_up(texts.deadline_passed())
            raise texts.deadline_passed() from None
        except asyncio.CancelledError:
            self._record.given_up(_GIVEN_UP)
            raise

    async def stream(self, request: bytes, timeout_s: float | None, pass_on: PassStream) -> AsyncGenerator[bytes, None]:
        """The messages as the caller gets them.

        Raises:
            RpcFailed: from the answerer, or by a fault.
        """
        with self._switches.under_way(self._call):
            self._record.request(request)
            async with aclosing(pass_on(self._stripped(request, is_answer=False), timeout_s)) as messages:
                try:
                    while (message := await self._unless_broken(self._next(messages))) is not None:
                        if message:
                            yield message[0]
                except (GeneratorExit, asyncio.CancelledError):
                    self._record.given_up(_GIVEN_UP)
                    raise

    async def _unary(self, request: bytes, scope: asyncio.Timeout, pass_on: PassOn) -> bytes:
        await self._hold_back()
        request = self._stripped(request, is_answer=False)
        self._record.request(request)
        until = scope.when()
        try:
            answer = await pass_on(request, None if until is None else until - asyncio.get_running_loop().time())
        except RpcFailed as failure:
            self._failed(failure)
            raise
        self._record.answer(answer)
        self._record.end()
        self._break()
        if self._is_dropped():
            await asyncio.get_running_loop().create_future()
        return self._stripped(answer, is_answer=True)

    async def _next(self, messages: AsyncGenerator[bytes, None]) -> tuple[bytes, ...] | None:
        """The next message; an empty tuple when it was lost, None at the end."""
        try:
            message = await anext(messages)
        except StopAsyncIteration:
            self._record.end()
            return None
        except RpcFailed as failure:
            self._failed(failure)
            raise
        self._record.answer(message)
        await self._hold_back()
        self._break()
        return () if self._is_dropped() else (self._stripped(message, is_answer=True),)

    def _failed(self, failure: RpcFailed) -> None:
        """Record the answerer's failure, unless the connection was broken from here."""
        if not self._call.broken.done():
            self._record.end(failure)

    async def _unless_broken(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """The result of ``work``; it is cancelled when the call is broken."""
        task = asyncio.ensure_future(work)
        try:
            either: list[asyncio.Future[Any]] = [task, self._call.broken]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # or it would be told of as never retrieved
        if not self._call.broken.done():
            return task.result()
        breakage = self._call.broken.result()
        if breakage.kind is not None:
            self._record.fault(breakage.kind.value)
        self._record.given_up(breakage.failure)
        raise RpcFailed(breakage.failure.code, breakage.failure.detail)

    # --- faults -----------------------------------------------------------------------------------------------------

    async def _hold_back(self) -> None:
        if (delay := self._take(FaultKind.DELAY)) is not None:
            self._record.fault(f"delay of {delay.seconds:g} s")
            await asyncio.sleep(delay.seconds)
        if (hang := self._take(FaultKind.HANG)) is not None:
            self._record.fault("hang")
            await hang.until_off()

    def _break(self) -> None:
        """Break the call in place of its answer."""
        for kind in (FaultKind.RESET_CONNECTION, FaultKind.RESET):
            if self._take(kind) is not None:
                self._call.break_by(kind)

    def _is_dropped(self) -> bool:
        if self._take(FaultKind.DROP) is None:
            return False
        self._record.fault("answer dropped")
        return True

    def _stripped(self, message: bytes, *, is_answer: bool) -> bytes:
        if (strip := self._take(FaultKind.STRIP)) is None:
            return message
        return without_newer_fields(self._call.method, message, strip.version, is_answer=is_answer)

    def _take(self, kind: FaultKind) -> FaultSwitch | None:
        return self._switches.take(kind, self._call.method, self._call.resource)
