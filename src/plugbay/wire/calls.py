"""The calls we make, with messages of protobuf."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.channel import Channel

_Answer = TypeVar("_Answer", bound=Message)


async def call(
    channel: Channel, method: str, request: Message, answer: type[_Answer], *, timeout_s: float | None = None
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
