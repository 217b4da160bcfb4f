"""The calls we make. Whatever grpcio raises or leaves unsaid, a failing call raises `RpcFailed`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.status import translate
from plugbay.wire.transport import LOCALHOST, MAX_MESSAGE_BYTES, open_channel, wait_connected

_Answer = TypeVar("_Answer", bound=Message)
_CLOSING: Final = (RpcCode.CANCELLED, "grpc: the client connection is closing")
"""The message of Go's gRPC for a call whose connection we closed ourselves."""
_NO_METADATA: Final[Mapping[str, str]] = {}


class Connection:
    """A channel to one unix socket, and the calls under way on it.

    It connects when first used. The calls are known here because not every grpcio ends them with their channel.
    """

    def __init__(self, path: Path, *, authority: str = LOCALHOST, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._channel = open_channel(path, authority=authority, max_message_bytes=max_message_bytes)
        self._calls: set[grpc.aio.Call] = set()
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._losing: asyncio.Task[None] | None = None

    async def connect(self, timeout_s: float) -> None:
        """Connect now, and try again while no server listens yet.

        Raises:
            TimeoutError: no server answered in time.
        """
        await wait_connected(self._channel, timeout_s)

    @property
    def is_connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def until_lost(self) -> None:
        """Wait until the connection is lost, at once if there is none. An idle one may be lost without a fault."""
        while self.is_connected:
            # One task for all waiters: grpcio keeps each question until the state changes, even a cancelled one.
            if self._losing is None or self._losing.done():
                self._losing = asyncio.create_task(
                    self._channel.wait_for_state_change(grpc.ChannelConnectivity.READY),
                    name="until a connection is lost",
                )
            await asyncio.wait([self._losing])

    async def close(self) -> None:
        """Close the channel; calls under way fail."""
        if self._losing is not None:
            self._losing.cancel()
        for call in tuple(self._calls):
            call.cancel()
        await self._channel.close()

    async def unary(
        self, method: str, request: Message, answer: type[_Answer], *, timeout_s: float | None = None
    ) -> _Answer:
        """Call ``method``, such as ``/v1beta1.DevicePlugin/Allocate``.

        Raises:
            RpcFailed: refused, no answer in time, an answer of another shape, or the connection was closed meanwhile.
        """
        with _failures_translated():
            call = self._method(method)(request.SerializeToString(), timeout=timeout_s)
            with self._under_way(call):
                encoded = await call
        try:
            return answer.FromString(encoded)
        except DecodeError as error:
            raise RpcFailed(RpcCode.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from error

    async def stream(
        self, method: str, request: Message, *, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[bytes, None]:
        """The encoded messages of the server's stream until it ends normally; the call ends with the iteration.

        Raises:
            RpcFailed: refused, broken off, or the connection was closed meanwhile.
        """
        with _failures_translated():
            call: grpc.aio.UnaryStreamCall[Message, bytes] = self._channel.unary_stream(
                method, request_serializer=type(request).SerializeToString, response_deserializer=None
            )(request, metadata=tuple(metadata.items()))
            # Unless this iterator is closed, it and the call hold each other, and both hold the connection, which then
            # stays open until the garbage is collected.
            messages = cast("AsyncGenerator[bytes, None]", aiter(call))
            with self._under_way(call):
                async with aclosing(messages):
                    async for message in messages:
                        yield message

    def _method(self, name: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
        """Pass encoded messages through: a message that grpcio could not read it would log, and give as None."""
        if (known := self._methods.get(name)) is None:
            known = self._methods[name] = self._channel.unary_unary(name)
        return known

    @contextmanager
    def _under_way(self, call: grpc.aio.Call) -> Iterator[None]:
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            call.cancel()  # no task waits for it any more; harmless when it is over


@contextmanager
def _failures_translated() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error
    except grpc.aio.UsageError as error:  # the channel was closed before the call
        raise RpcFailed(*_CLOSING) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # This task was not cancelled: grpcio raises the same when the channel is closed under a call.
        raise RpcFailed(*_CLOSING) from error
