"""The methods we serve, with messages of protobuf. What a method raises reaches the caller as a status."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from plugbay.errors import PlugbayError, RpcCode, RpcFailed
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import ServerStream, Unary

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Message)


def unary(request_type: type[_Request], answer: Callable[[_Request], Awaitable[Message]]) -> Unary:
    """A method with one answer.

    `RpcFailed` becomes the status it names, every other exception UNKNOWN with its text.
    """

    async def handle(encoded: bytes) -> bytes:
        try:
            return (await answer(_parse(request_type, encoded))).SerializeToString()
        except Exception as error:  # the servicer's edge
            raise _failure(error, request_type) from None

    return Unary(handle)


def server_stream(
    request_type: type[_Request],
    answers: Callable[[_Request], AsyncIterator[bytes]],
    heed: Callable[[Metadata], object] | None = None,
) -> ServerStream:
    """A method that streams encoded messages; failures as in `unary`.

    When the caller goes away the iterator is closed, so that its ``finally`` runs.

    Args:
        heed: given the call's metadata, before the first answer is asked for.
    """

    async def handle(encoded: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
        try:
            if heed is not None:
                heed(metadata)
            stream = answers(_parse(request_type, encoded))
            async with AsyncExitStack() as closing:
                if isinstance(stream, AsyncGenerator):
                    closing.push_async_callback(stream.aclose)
                async for message in stream:
                    yield message
        except Exception as error:  # the servicer's edge
            raise _failure(error, request_type) from None

    return ServerStream(handle)


def _parse(request_type: type[_Request], encoded: bytes) -> _Request:
    try:
        return request_type.FromString(encoded)
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"grpc: error unmarshalling request: {error}") from error


def _failure(error: Exception, request_type: type[Message]) -> RpcFailed:
    """The status of ``error``; an author's bug is logged here too, with where it happened."""
    match error:
        case RpcFailed():
            return error
        case PlugbayError():
            return RpcFailed(RpcCode.UNKNOWN, str(error))
        case _:
            logger.error("answering %s failed unexpectedly", request_type.DESCRIPTOR.name, exc_info=error)
            return RpcFailed(RpcCode.UNKNOWN, f"{type(error).__name__}: {error}")
