"""Commands with input: the engine names a URL, and there it streams what goes in and what comes out.

The protocol is that of ``kubectl exec``: HTTP that is upgraded to SPDY/3.1, with a stream for each standard stream,
one for how the command ends, and on a terminal one for its size.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/httpstream.go``.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from plugbay.errors import ExecFailed, quote
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream
from plugbay.wire.cri_spdy import Data, FrameReader, FrameWriter, Item, Ping, StreamEnd

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""An engine answers before it starts the command."""
PROTOCOL: Final = "v4.channel.k8s.io"
"""The first version of the protocol that tells the exit code, and the newest over SPDY."""

_ERROR: Final = 1
_STDIN: Final = 3
_STDOUT: Final = 5
_STDERR: Final = 7
_RESIZE: Final = 9
_OUTPUTS: Final = {_STDOUT: ExecStream.STDOUT, _STDERR: ExecStream.STDERR}
_END_OF_INPUT: Final = b"\x04"
"""The character of Ctrl-D: the input of a terminal has no other end."""
_INTERRUPT: Final = b"\x03"
"""Ctrl-C."""
_MAX_HEAD_BYTES: Final = 64 * 1024
_MAX_STATUS_BYTES: Final = 1024 * 1024
_HIGH_WATER_BYTES: Final = 256 * 1024
"""The most bytes that wait for the consumer; beyond that the command has to wait."""


async def run_streamed(
    container: ContainerId, url: str, given: ExecInput, *, answer_s: float = ANSWER_S
) -> AsyncGenerator[ExecOutput | ExecExit, None]:
    """Run the command that the engine has put at ``url``; the last item is the exit.

    When the consumer leaves, the command's input ends, and on a terminal it is interrupted first; CRI has no way to
    kill it.

    Args:
        answer_s: how long the engine may take to say whether it streams.

    Raises:
        ExecFailed: the engine cannot be reached there, or the command does not run.
    """
    where = _address(container, url)
    session = _Session(where, given)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            transport, _ = await loop.create_connection(lambda: session, where.host, where.port)
    except (OSError, TimeoutError) as error:
        raise ExecFailed(container, _unreachable(where, error)) from error
    try:
        try:
            async with asyncio.timeout(answer_s):
                await session.answered.wait()
        except TimeoutError as error:
            problem = f"the engine takes connections at {where.authority}, and answers none within {answer_s:g} s"
            raise ExecFailed(container, problem) from error
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

    def __init__(self, where: _Address, given: ExecInput) -> None:
        self._where = where
        self._given = given
        self._transport: asyncio.Transport | None = None
        self._head: bytearray | None = bytearray()
        self._writer = FrameWriter()
        self._reader = FrameReader()
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
        if not self._is_over and self._head is None:
            if self._given.console is Console.TERMINAL:
                self._send(_STDIN, _INTERRUPT)
            self._write(self._writer.end(_STDIN))
        self._is_over = True

    # --- the sink of the input --------------------------------------------------------------------------------------

    def write(self, chunk: bytes) -> None:
        self._send(_STDIN, chunk)

    def end(self) -> None:
        if self._given.console is Console.TERMINAL:
            self._send(_STDIN, _END_OF_INPUT)
        else:
            self._write(self._writer.end(_STDIN))

    def resize(self, size: TerminalSize) -> None:
        if self._given.console is Console.TERMINAL:
            self._send(_RESIZE, json.dumps({"Width": size.width, "Height": size.height}).encode() + b"\n")

    # --- the engine's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        where = self._where
        head = (
            f"POST {where.target} HTTP/1.1\r\nHost: {where.authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {PROTOCOL}\r\nContent-Length: 0\r\n\r\n"
        )
        transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._head is not None:
            self._head += data
            data = self._upgraded()
        try:
            for item in self._reader.feed(data):
                self._take(item)
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
        head, end, rest = bytes(self._head).partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD_BYTES:
                self._finish("the engine answers with something else than HTTP")
            return b""
        self._head = None
        self.answered.set()
        version, _, status = head.split(b"\r\n")[0].decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("101"):
            self._finish(f"the engine refuses to stream: {status or version}")
            return b""
        self._open_streams()
        return rest

    def _open_streams(self) -> None:
        """The engine starts the command when it has seen all that it expects."""
        last = {_RESIZE: "resize"} if self._given.console is Console.TERMINAL else {_STDERR: "stderr"}
        for stream, kind in ({_ERROR: "error", _STDIN: "stdin", _STDOUT: "stdout"} | last).items():
            self._write(self._writer.open(stream, {"streamtype": kind}))
        self._given.connect(self)

    def _take(self, item: Item) -> None:
        match item:
            case Data(stream, chunk) if stream in _OUTPUTS:
                self._waiting.append(ExecOutput(_OUTPUTS[stream], chunk))
                self._waiting_bytes += len(chunk)
                if self._waiting_bytes > _HIGH_WATER_BYTES and self._transport is not None:
                    self._transport.pause_reading()
                self._changed.set()
            case Data(stream=1, chunk=chunk) if len(self._status) + len(chunk) <= _MAX_STATUS_BYTES:
                self._status += chunk
            case StreamEnd(stream=1):  # all that it printed has come before
                self._finish()
            case Ping(frame):
                self._write(frame)

    def _finish(self, problem: str = "") -> None:
        if self._is_over:
            return
        self._is_over = True
        self._problem = problem or self._problem
        self._given.disconnect()
        self.answered.set()
        self._changed.set()

    def _send(self, stream: int, chunk: bytes) -> None:
        self._write(self._writer.send(stream, chunk))

    def _write(self, frames: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames)


@dataclass(frozen=True, slots=True)
class _Address:
    """The address at which a command waits; ``target`` is the path with the query."""

    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(container: ContainerId, url: str) -> _Address:
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and parts.port is not None:
            return _Address(parts.hostname, parts.port, parts.path + (f"?{parts.query}" if parts.query else ""))
    except ValueError:
        pass  # as bad as the others
    problem = f"the engine streams at {quote(url)}, and plugbay reads streams at http://HOST:PORT only"
    raise ExecFailed(container, problem)


def _unreachable(where: _Address, error: Exception) -> str:
    reason = f"nothing answers within {CONNECT_S:g} s" if isinstance(error, TimeoutError) else _reason(error)
    hint = ""
    if where.host in ("127.0.0.1", "::1", "localhost"):
        hint = "; it listens on loopback, which can be reached only from the engine's network namespace"
    return f"the engine's streams at {where.authority} cannot be reached: {reason}{hint}"


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number).lower() if number else str(error)


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
