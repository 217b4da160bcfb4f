"""One unary call, with every way it can fail as `RpcFailed`."""

from __future__ import annotations

from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from plugbay.errors import RpcFailed
from plugbay.wire.status import translate

_Answer = TypeVar("_Answer", bound=Message)


async def call_unary(
    channel: grpc.aio.Channel, method: str, request: Message, answer: type[_Answer], *, timeout_s: float | None
) -> _Answer:
    """The answer to ``request``.

    Args:
        method: full name, such as ``/v1beta1.DevicePlugin/Allocate``.

    Raises:
        RpcFailed: a status other than OK, no answer in time, or an answer that is no such message.
    """
    # The bytes are read here: grpcio would log an unreadable answer and hand out None.
    call: grpc.aio.UnaryUnaryMultiCallable[Message, bytes] = channel.unary_unary(
        method, request_serializer=type(request).SerializeToString, response_deserializer=None
    )
    try:
        return answer.FromString(await call(request, timeout=timeout_s))
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error
    except DecodeError as error:
        raise RpcFailed("Internal", f"grpc: failed to unmarshal the received message: {error}") from error
