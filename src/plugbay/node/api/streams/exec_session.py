"""A command, or a container itself, with a client: both ways on one connection, whatever the protocol.

A transport gives `serve_session` the bytes for what is printed, made of a `SessionOutput`, and a `SessionDecoder` for
what the client sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol, TypeAlias

from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.node.api.streams.exec_frames import encode
from plugbay.node.api.streams.frames import ExecChannel, Frame
from plugbay.ops.routing import UpgradedStream
from plugbay.ops.tasks import first
from plugbay.runtimes.exec_input import ExecInput, TerminalSize
from plugbay.runtimes.port import ExecExit, ExecOutput

PROTOCOL: Final = "plugbay-exec"
_CANNOT_RUN_EXIT_CODE: Final = 126
_BACKLOG_BYTES: Final = 256 * 1024
_CHUNK_OVERHEAD_BYTES: Final = 64


SessionOutput: TypeAlias = AsyncGenerator[ExecOutput | ExecExit, None]
"""All that is printed, and the end."""


async def output_frames(output: SessionOutput) -> AsyncGenerator[bytes, None]:
    """The output and the end of the command; for a command that cannot run they are like those of a shell."""
    try:
        async with aclosing(output) as items:
            async for item in items:
                yield encode(item)
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        yield Frame(ExecChannel.STDERR, f"error: {error}\n".encode()).encode()
        yield encode(ExecExit(_CANNOT_RUN_EXIT_CODE))


class Reply(NamedTuple):
    """Bytes that the protocol has sent back at once."""

    content: bytes


class SessionDecoder(Protocol):
    """Reads what a client sends, from pieces of any size."""

    def feed(self, chunk: bytes) -> Iterable[bytes | TerminalSize | Reply]:
        """The input that is complete with ``chunk``; empty bytes are the end of the input.

        Raises:
            ValueError: the client breaks the protocol.
            ConnectionError: the client leaves.
        """
        ...

    def refusal(self, problem: str) -> bytes:
        """The last words to a client that has broken the protocol."""
        ...


async def serve_session(
    stream: UpgradedStream, frames: AsyncGenerator[bytes, None], given: ExecInput, decoder: SessionDecoder
) -> None:
    """Serve the session until the command has ended, the client is gone, or the client breaks the protocol."""
    backlog = _Backlog()
    try:
        await first(
            _send(stream, frames),
            _receive(stream, backlog, given, decoder),
            _pass_on(backlog, given),
            stream.until_gone(),
        )
    except* ConnectionError:
        pass  # the client is gone


async def _send(stream: UpgradedStream, frames: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(frames):  # it kills the command when the client goes first
        async for each in frames:
            await stream.write(each)


async def _receive(stream: UpgradedStream, backlog: _Backlog, given: ExecInput, decoder: SessionDecoder) -> None:
    try:
        while chunk := await stream.read():
            for item in decoder.feed(chunk):
                match item:
                    case TerminalSize():
                        given.resize(item)
                    case Reply(content):
                        await stream.write(content)
                    case bytes():
                        backlog.add(item)
            await backlog.has_room.wait()
    except ValueError as error:
        await stream.write(decoder.refusal(str(error)))


async def _pass_on(backlog: _Backlog, given: ExecInput) -> None:
    while True:
        for chunk in await backlog.take():
            await (given.send(chunk) if chunk else given.end())


class _Backlog:
    """Input that the command has not taken yet: a window changes its size meanwhile. A client waits when it is full."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._has_some = asyncio.Event()
        self.has_room = asyncio.Event()
        self.has_room.set()

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk) + _CHUNK_OVERHEAD_BYTES
        if self._size >= _BACKLOG_BYTES:
            self.has_room.clear()
        self._has_some.set()

    async def take(self) -> list[bytes]:
        await self._has_some.wait()
        self._has_some.clear()
        chunks, self._chunks, self._size = self._chunks, [], 0
        self.has_room.set()
        return chunks
