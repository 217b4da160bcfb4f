"""The methods we serve. What a method raises reaches the caller as a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from plugbay.errors import PlugbayError, RpcCode, RpcFailed
from plugbay.wire.status import grpc_code

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Message)
_Context = grpc.aio.ServicerContext[Any, Any]


def unary(
    request_type: type[_Request], answer: Callable[[_Request], Awaitable[Message]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler for a method with one answer.

    `RpcFailed` becomes the status it names, every other exception UNKNOWN with its text.
    """

    async def handle(encoded: bytes, context: _Context) -> bytes:
        try:
            return (await answer(_parse(request_type, encoded))).SerializeToString()
        except Exception as error:  # the servicer's edge
            await _fail(context, error, request_type)

    return grpc.unary_unary_rpc_method_handler(handle)


def server_stream(
    request_type: type[_Request],
    answers: Callable[[_Request], AsyncIterator[bytes]],
    heed: Callable[[Mapping[str, str | bytes]], object] | None = None,
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler for a method that streams encoded messages; failures as in `unary`.

    When the caller goes away the iterator is closed, so that its ``finally`` runs.

    Args:
        heed: given the call's metadata, before the first answer is asked for.
    """

    async def handle(encoded: bytes, context: _Context) -> None:
        async with AsyncExitStack() as closing:
            try:
                if heed is not None:
                    heed(dict(context.invocation_metadata() or ()))
                stream = answers(_parse(request_type, encoded))
                if isinstance(stream, AsyncGenerator):
                    closing.push_async_callback(stream.aclose)
                async for message in stream:
                    await _write(context, message)
            except Exception as error:  # the servicer's edge
                await _fail(context, error, request_type)

    return grpc.unary_stream_rpc_method_handler(handle)


async def _write(context: _Context, message: bytes) -> None:
    """Send ``message``; when the caller is gone, end as if it had cancelled: grpcio logs nothing then."""
    try:
        await context.write(message)
    except grpc.aio.InternalError as error:
        raise asyncio.CancelledError from error


def _parse(request_type: type[_Request], encoded: bytes) -> _Request:
    try:
        return request_type.FromString(encoded)
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"grpc: error unmarshalling request: {error}") from error


async def _fail(context: _Context, error: Exception, request_type: type[Message]) -> NoReturn:
    """End the call with the status of ``error``; an author's bug is logged here too, with where it happened."""
    match error:
        case RpcFailed():
            await context.abort(grpc_code(error.code), error.detail)
        case PlugbayError():
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        case _:
            logger.error("answering %s failed unexpectedly", request_type.DESCRIPTOR.name, exc_info=error)
            await context.abort(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")
    raise AssertionError("abort() returned")
