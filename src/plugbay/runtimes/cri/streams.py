"""Streams of commands and containers: the engine names a URL, and there it streams what goes in and what comes out.

The protocol is that of ``kubectl exec`` and ``attach``: HTTP that is upgraded to SPDY/3.1, with a stream for each
standard stream, one for how the command ends, and on a terminal one for its size.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/httpstream.go``.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Final

from plugbay.errors import ExecFailed
from plugbay.runtimes.cri.stream_urls import (
    ANSWER_S,
    CONNECT_S,
    HEAD_END,
    MAX_HEAD_BYTES,
    StreamUrl,
    check_switched,
    stream_url,
)
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream
from plugbay.wire.spdy.connection import (
    SpdyAnswer,
    SpdyConnection,
    SpdyData,
    SpdyEnded,
    SpdyEvent,
    SpdyReset,
    SpdyRole,
)

PROTOCOL: Final = "v4.channel.k8s.io"
"""The first version of the protocol that tells the exit code, and the newest over SPDY."""

_ERROR: Final = "error"
_STDIN: Final = "stdin"
_STDOUT: Final = "stdout"
_STDERR: Final = "stderr"
_RESIZE: Final = "resize"
_OUTPUTS: Final = {_STDOUT: ExecStream.STDOUT, _STDERR: ExecStream.STDERR}
_END_OF_INPUT: Final = b"\x04"
"""The character of Ctrl-D: the input of a terminal has no other end."""
_INTERRUPT: Final = b"\x03"
"""Ctrl-C."""
_MAX_STATUS_BYTES: Final = 1024 * 1024
_HIGH_WATER_BYTES: Final = 256 * 1024
"""The most bytes that wait for the consumer; beyond that the command has to wait."""


class Streamed(Enum):
    """The process whose streams are at a URL."""

    COMMAND = "command"
    """Beside the container. When the client leaves, its input ends, and on a terminal it is interrupted first."""
    CONTAINER = "container"
    """The container's own, which goes on without the client."""
    CONTAINER_OUTPUT = "container output"
    """The same, without its input."""


async def run_streamed(
    container: ContainerId,
    url: str,
    given: ExecInput,
    streamed: Streamed = Streamed.COMMAND,
    *,
    answer_s: float = ANSWER_S,
) -> AsyncGenerator[ExecOutput | ExecExit, None]:
    """Exchange the streams that the engine has put at ``url``; the last item is the exit, 0 for that of a container.

    CRI has no way to kill a command when the consumer leaves; see `Streamed`.

    Args:
        given: the input, if any, and the size of a terminal.
        answer_s: how long the engine may take to say whether it streams.

    Raises:
        ExecFailed: the engine cannot be reached there, or the command does not run.
    """
    try:
        where = stream_url(url)
    except ValueError as error:
        raise ExecFailed(container, str(error)) from error
    session = _Session(where, given, streamed)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            transport, _ = await loop.create_connection(lambda: session, where.host, where.port)
    except (OSError, TimeoutError) as error:
        raise ExecFailed(container, where.unreachable(error)) from error
    try:
        try:
            async with asyncio.timeout(answer_s):
                await session.answered.wait()
        except TimeoutError as error:
            raise ExecFailed(container, where.silent(answer_s)) from error
        while items := await session.receive():
            for item in items:
                yield item
        try:
            yield ExecExit(session.exit_code())
        except ValueError as error:
            raise ExecFailed(container, str(error)) from error
    finally:
        session.leave()
        transport.close()


class _Session(asyncio.Protocol):
    """One connection, and where input goes; see `plugbay.runtimes.exec_input.InputSink`.

    Attributes:
        answered: set when the engine has said whether it streams, or never will.
    """

    def __init__(self, where: StreamUrl, given: ExecInput, streamed: Streamed) -> None:
        self._where = where
        self._given = given
        self._streamed = streamed
        self._transport: asyncio.Transport | None = None
        self._head: bytearray | None = bytearray()
        self._streams = SpdyConnection(SpdyRole.CLIENT)
        self._numbers: dict[str, int] = {}
        self._kinds: dict[int, str] = {}
        self._waiting: deque[ExecOutput] = deque()
        self._waiting_bytes = 0
        self._status = bytearray()
        self._problem = "the engine broke the connection off"
        self._is_over = False
        self._changed = asyncio.Event()
        self.answered = asyncio.Event()

    # --- the consumer's side ----------------------------------------------------------------------------------------

    async def receive(self) -> list[ExecOutput]:
        """Wait for output; returns nothing when no more can come."""
        while not self._waiting and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        items = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        return items

    def exit_code(self) -> int:
        """The exit code of the command, once its streams have ended.

        Raises:
            ValueError: the command did not run, or its end is not known.
        """
        if not self._status:
            raise ValueError(self._problem)
        return exit_code_of(bytes(self._status))

    def leave(self) -> None:
        """Take no more; a command that still runs has nothing more to read."""
        self._given.disconnect()
        if not self._is_over and self._head is None and self._streamed is Streamed.COMMAND:
            if self._given.console is Console.TERMINAL:
                self._send(_STDIN, _INTERRUPT)
            self._write(self._streams.end(self._numbers[_STDIN]))
        self._is_over = True

    # --- the sink of the input --------------------------------------------------------------------------------------

    def write(self, chunk: bytes) -> None:
        if self._streamed is not Streamed.CONTAINER_OUTPUT:
            self._send(_STDIN, chunk)

    def end(self) -> None:
        if self._streamed is Streamed.CONTAINER_OUTPUT:
            return
        if self._given.console is Console.TERMINAL:
            self._send(_STDIN, _END_OF_INPUT)
        else:
            self._write(self._streams.end(self._numbers[_STDIN]))

    def resize(self, size: TerminalSize) -> None:
        if self._given.console is Console.TERMINAL:
            self._send(_RESIZE, json.dumps({"Width": size.width, "Height": size.height}).encode() + b"\n")

    # --- the engine's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._where.request(PROTOCOL))

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._head is not None:
            self._head += data
            data = self._upgraded()
        try:
            for event in self._streams.feed(data):
                self._take(event)
        except ValueError as error:
            self._finish(f"the engine streams what cannot be read: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def pause_writing(self) -> None:
        self._given.pause()

    def resume_writing(self) -> None:
        self._given.resume()

    def _upgraded(self) -> bytes:
        """The bytes after the head of the answer; empty before the head is complete."""
        assert self._head is not None
        head, end, rest = bytes(self._head).partition(HEAD_END)
        if not end:
            if len(head) > MAX_HEAD_BYTES:
                self._finish("the engine answers with something else than HTTP")
            return b""
        self._head = None
        self.answered.set()
        try:
            check_switched(head)
        except ValueError as error:
            self._finish(str(error))
            return b""
        self._open_streams()
        return rest

    def _open_streams(self) -> None:
        """The engine starts the command when it has seen all that it expects."""
        last = _RESIZE if self._given.console is Console.TERMINAL else _STDERR
        stdin = () if self._streamed is Streamed.CONTAINER_OUTPUT else (_STDIN,)
        for kind in (_ERROR, *stdin, _STDOUT, last):
            number, frame = self._streams.open({"streamtype": kind})
            self._numbers[kind], self._kinds[number] = number, kind
            self._write(frame)
        self._given.connect(self)

    def _take(self, event: SpdyEvent) -> None:
        match event:
            case SpdyData(stream, chunk):
                self._take_chunk(self._kinds[stream], chunk)
            case SpdyEnded(stream) | SpdyReset(stream) if self._kinds[stream] == _ERROR:
                self._finish()  # all that the command printed has come before
            case SpdyAnswer(content):
                self._write(content)

    def _take_chunk(self, kind: str, chunk: bytes) -> None:
        if kind in _OUTPUTS:
            self._waiting.append(ExecOutput(_OUTPUTS[kind], chunk))
            self._waiting_bytes += len(chunk)
            if self._waiting_bytes > _HIGH_WATER_BYTES and self._transport is not None:
                self._transport.pause_reading()
            self._changed.set()
        elif kind == _ERROR and len(self._status) + len(chunk) <= _MAX_STATUS_BYTES:
            self._status += chunk

    def _finish(self, problem: str = "") -> None:
        if self._is_over:
            return
        self._is_over = True
        self._problem = problem or self._problem
        self._given.disconnect()
        self.answered.set()
        self._changed.set()

    def _send(self, kind: str, chunk: bytes) -> None:
        self._write(self._streams.send(self._numbers[kind], chunk))

    def _write(self, frames: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames)


def exit_code_of(status: bytes) -> int:
    """The exit code in an engine's ``Status``, which tells how a command ended.

    Raises:
        ValueError: the command did not run; the text says why.

    Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/exec.go``.
    """
    try:
        told = json.loads(status)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ValueError("the engine does not say how the command ended")
    if told.get("status") == "Success":
        return 0
    if told.get("reason") == "NonZeroExitCode" and (code := _cause(told)).isdecimal():
        return int(code)
    raise ValueError(str(told.get("message") or "the engine does not say why"))


def _cause(status: dict[str, object]) -> str:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else []:
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            return str(cause.get("message"))
    return ""
