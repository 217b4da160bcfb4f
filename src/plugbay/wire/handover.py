"""Two processes that serve one resource: the younger asks the older to stand by, for as long as the call lasts.

It is an API of our own, which no kubelet calls, served beside the device plugin API on the same socket.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import server_stream

_SERVICE: Final = "plugbay.v1.Handover"
_METHOD: Final = "StandBy"
_BEGAN: Final = "plugbay-began"

Began = tuple[float, str]
"""The beginning of a process's service, by the kernel's clock, which all containers of a machine share; and a random
text, for two that began together. The greater one is the younger."""


def handover_handler(stand_by: Callable[[Began], AsyncGenerator[None, None]]) -> Service:
    """The service, answered by ``stand_by``.

    Args:
        stand_by: given the caller's age, yields once when this process stands by; closed when the caller ends.
    """
    heard: list[Began] = []

    def heed(metadata: Metadata) -> None:
        heard.append(_began_of(str(metadata.get(_BEGAN, ""))))

    def answers(_: pb.Empty) -> AsyncGenerator[bytes, None]:
        return _confirmations(stand_by(heard.pop()))  # right after `heed`

    return Service(_SERVICE, {_METHOD: server_stream(pb.Empty, answers, heed)})


async def standing_by(socket: Path, began: Began) -> AsyncGenerator[None, None]:
    """Ask the process at ``socket`` to stand by: yields when it does. It goes on to until the iteration is closed.

    Raises:
        RpcFailed: it is younger, is gone, or knows no such call.
        PathTooLong: the kernel cannot connect to the path.
    """
    channel = Channel(socket)
    try:
        metadata = {_BEGAN: f"{began[0]!r} {began[1]}"}
        method = f"/{_SERVICE}/{_METHOD}"
        async with aclosing(channel.stream(method, pb.Empty().SerializeToString(), metadata=metadata)) as answers:
            async for _ in answers:
                yield
    finally:
        await channel.close()


async def _confirmations(stand_by: AsyncGenerator[None, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(stand_by):
        async for _ in stand_by:
            yield b""


def _began_of(text: str) -> Began:
    """The age of a caller; one that does not say it is the oldest of all."""
    number, _, token = text.partition(" ")
    try:
        return float(number), token
    except ValueError:
        return float("-inf"), token
