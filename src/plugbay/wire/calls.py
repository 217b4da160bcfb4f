"""The calls we make, with messages of protobuf."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.metadata import NO_METADATA, Metadata

_Answer = TypeVar("_Answer", bound=Message)


class CallChannel(Protocol):
    """Encoded calls to one server, as `plugbay.wire.grpc.channel.Channel` makes them."""

    @property
    def is_connected(self) -> bool: ...

    async def connect(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...

    async def unary(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> bytes: ...

    def stream(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> AsyncGenerator[bytes, None]: ...


async def call(
    channel: CallChannel, method: str, request: Message, answer: type[_Answer], *, timeout_s: float | None = None
) -> _Answer:
    """Call ``method``, such as ``/v1beta1.DevicePlugin/Allocate``.

    Raises:
        RpcFailed: refused, no answer in time, an answer of another shape, or the channel was closed meanwhile.
    """
    encoded = await channel.unary(method, request.SerializeToString(), timeout_s=timeout_s)
    try:
        return answer.FromString(encoded)
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from error
