"""A command with input: both ways on one connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from plugbay.errors import ExecFailed, InstanceNotFound
from plugbay.node.api.exec_frames import STDERR, InputDecoder, encode, frame
from plugbay.node.parts import race
from plugbay.node.runtimes.exec_input import ExecInput, TerminalSize
from plugbay.node.runtimes.port import ContainerId, ContainerRuntime, ExecExit
from plugbay.ops.routing import UpgradedStream

PROTOCOL: Final = "plugbay-exec"
_CANNOT_RUN_EXIT_CODE: Final = 126


async def output_frames(
    runtime: ContainerRuntime, instance: ContainerId, argv: list[str], given: ExecInput | None = None
) -> AsyncGenerator[bytes, None]:
    """What the command prints and how it ends; one that cannot run says so like a shell."""
    try:
        async with aclosing(runtime.exec(instance, argv, given)) as items:
            async for item in items:
                yield encode(item)
    except (ExecFailed, InstanceNotFound) as error:
        yield frame(STDERR, f"error: {error}\n".encode())
        yield encode(ExecExit(_CANNOT_RUN_EXIT_CODE))


async def serve_session(stream: UpgradedStream, frames: AsyncGenerator[bytes, None], given: ExecInput) -> None:
    """Until the command has ended, or the client is gone, or says what no client may say."""
    try:
        await race(_send(stream, frames), _receive(stream, given))
    except* ConnectionError:
        pass  # the client is gone


async def _send(stream: UpgradedStream, frames: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(frames):  # it kills the command when the client goes first
        async for each in frames:
            await stream.write(each)


async def _receive(stream: UpgradedStream, given: ExecInput) -> None:
    decoder = InputDecoder()
    try:
        while chunk := await stream.read():
            for item in decoder.feed(chunk):
                await _pass_on(item, given)
    except ValueError as error:
        await stream.write(frame(STDERR, f"error: {error}\n".encode()))


async def _pass_on(item: bytes | TerminalSize, given: ExecInput) -> None:
    match item:
        case TerminalSize():
            await given.resize(item)
        case b"":
            await given.end()
        case bytes():
            await given.send(item)
