"""The calls we make. Whatever grpcio raises or leaves unsaid, a failing call raises `RpcFailed`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from plugbay.errors import RpcFailed
from plugbay.wire.status import translate

_Answer = TypeVar("_Answer", bound=Message)
_CLOSING: Final = ("Canceled", "grpc: the client connection is closing")
"""What Go's gRPC says of a call whose connection is closed by ourselves."""


async def call_unary(
    channel: grpc.aio.Channel, method: str, request: Message, answer: type[_Answer], *, timeout_s: float | None = None
) -> _Answer:
    """Call ``method``, such as ``/v1beta1.DevicePlugin/Allocate``.

    Raises:
        RpcFailed: refused, no answer in time, an answer of another shape, or the channel was closed meanwhile.
    """
    with _failures_translated():
        encoded: bytes = await channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=None,  # grpcio would log what cannot be read, and answer None
        )(request, timeout=timeout_s)
    try:
        return answer.FromString(encoded)
    except DecodeError as error:
        raise RpcFailed("Internal", f"grpc: failed to unmarshal the received message: {error}") from error


async def call_stream(channel: grpc.aio.Channel, method: str, request: Message) -> AsyncGenerator[bytes, None]:
    """The encoded messages of the server's stream until it ends normally; the call ends with the iteration.

    Raises:
        RpcFailed: refused, broken off, or the channel was closed meanwhile.
    """
    with _failures_translated():
        call: Any = channel.unary_stream(
            method, request_serializer=type(request).SerializeToString, response_deserializer=None
        )(request)
        try:
            async for message in call:
                yield message
        finally:
            call.cancel()


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
        # Nobody cancelled this task: grpcio raises the same when the channel is closed under a call.
        raise RpcFailed(*_CLOSING) from error
