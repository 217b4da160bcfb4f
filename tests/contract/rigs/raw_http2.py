"""HTTP/2 frames, for what no gRPC peer sends.

Source: RFC 9113 section 4.1, RFC 7541 section 6.2.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, _, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
ACK: Final = 1
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, SETTINGS_TIMEOUT = 0, 1, 7, 8, 11, 4
EMPTY: Final = b"\0\0\0\0\0"
"""A message of gRPC without content."""
_PIECE: Final = 65_536


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of GOAWAY and RST_STREAM."""
        return int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload)

    @property
    def text(self) -> str:
        """What GOAWAY says."""
        return self.payload[8:].decode()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _text(text: str) -> bytes:
    assert len(text) < 127
    return bytes([len(text)]) + text.encode()


def block(fields: Iterable[tuple[str, str]]) -> bytes:
    """Fields as literals without indexing."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def request_block(path: str) -> bytes:
    return block(
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
    )


ANSWER_BLOCK: Final = b"\x88" + block([("content-type", "application/grpc")])
"""``:status`` 200 by its index."""
OK_BLOCK: Final = block([("grpc-status", "0")])


def message(content: bytes) -> bytes:
    return struct.pack(">BI", 0, len(content)) + content


def headers(stream: int, path: str = "/rig.Rig/Echo", *, ends: bool = False) -> bytes:
    """The headers of a call."""
    return frame(HEADERS, END_HEADERS | END_STREAM * ends, stream, request_block(path))


def data(stream: int, content: bytes, *, ends: bool = False) -> bytes:
    return frame(DATA, END_STREAM * ends, stream, content)


def call_on(stream: int, path: str, content: bytes = b"") -> bytes:
    """A whole call."""
    return headers(stream, path) + data(stream, message(content), ends=True)


def answer_on(stream: int, content: bytes = b"") -> bytes:
    """A whole answer."""
    return (
        frame(HEADERS, END_HEADERS, stream, ANSWER_BLOCK)
        + data(stream, message(content))
        + frame(HEADERS, END_HEADERS | END_STREAM, stream, OK_BLOCK)
    )


def reset(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def widen(stream: int, count: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count))


def settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in values))


def goaway(last_stream: int, code: int = NO_ERROR) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream, code))


class RawPeer:
    """A socket that speaks HTTP/2 as a test wants it.

    Attributes:
        seen: all frames that were read.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._begun = b""
        self._unread: deque[Frame] = deque()
        self.seen: list[Frame] = []

    async def send(self, sent: bytes) -> None:
        await self._loop.sock_sendall(self._socket, sent)

    def send_now(self, sent: bytes) -> int:
        """Send as much as the socket takes at once."""
        return self._socket.send(sent)

    async def frames(self) -> AsyncIterator[Frame]:
        """What the other side sends until it hangs up."""
        while True:
            if not self._unread:
                self._unread.extend(self._complete())
            while self._unread:
                found = self._unread.popleft()
                self.seen.append(found)
                yield found
            try:
                piece = await self._loop.sock_recv(self._socket, _PIECE)
            except ConnectionError:
                return
            if not piece:
                return
            self._begun += piece

    async def until_waits(self, content: bytes) -> None:
        """Leave unread what the other side has sent, and return when ``content`` is in it."""
        while content not in self._peek():  # noqa: ASYNC110  # the kernel tells nobody
            await asyncio.sleep(0)

    def _peek(self) -> bytes:
        try:
            return self._socket.recv(_PIECE, socket.MSG_PEEK)
        except BlockingIOError:
            return b""

    async def preface(self) -> None:
        """Read the preface of a client."""
        while len(self._begun) < len(PREFACE):
            piece = await self._loop.sock_recv(self._socket, _PIECE)
            assert piece
            self._begun += piece
        assert self._begun.startswith(PREFACE)
        self._begun = self._begun[len(PREFACE) :]

    async def until(self, kind: int, *, flags: int = 0, stream: int | None = None) -> Frame:
        """The next frame of that kind, with at least these flags."""
        async for each in self.frames():
            if each.kind == kind and each.flags & flags == flags and stream in {None, each.stream}:
                return each
        raise AssertionError(f"hung up; came {self.seen}")

    async def goodbye(self) -> Frame | None:
        """The last GOAWAY before the other side hangs up; None if it does so without a word."""
        async for _ in self.frames():
            pass
        return next((each for each in reversed(self.seen) if each.kind == GOAWAY), None)

    async def flood(self, pieces: Iterable[bytes]) -> Frame | None:
        """Send until the other side hangs up, reading meanwhile; its last GOAWAY. Not all may be sent before."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self.goodbye())
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    await self.send(piece)
            return await reading

    def _complete(self) -> Iterator[Frame]:
        """The frames that are all there."""
        begun = self._begun
        at = 0
        while len(begun) - at >= 9:
            end = at + 9 + int.from_bytes(begun[at : at + 3])
            if end > len(begun):
                break
            yield Frame(begun[at + 3], begun[at + 4], int.from_bytes(begun[at + 5 : at + 9]), begun[at + 9 : end])
            at = end
        self._begun = begun[at:]

    def close(self) -> None:
        self._socket.close()


@contextlib.asynccontextmanager
async def raw_client(path: Path, *values: tuple[int, int], greets: bool = True) -> AsyncIterator[RawPeer]:
    """A client of the server at ``path``, with these settings."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(os.fspath(path))
        peer = RawPeer(connection)
        if greets:
            await peer.send(PREFACE + settings(*values))
        yield peer


@contextlib.contextmanager
def raw_listener(path: Path) -> Iterator[socket.socket]:
    """A socket that raw servers accept from."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        yield listener


async def accept(listener: socket.socket) -> RawPeer:
    """The server's side of the next connection."""
    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
    return RawPeer(connection)


async def open_connection(path: Path) -> asyncio.StreamWriter:
    """A connection to a gRPC server that reads nothing unless it is told to."""
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # every socket's transport can
    writer.write(PREFACE + settings())
    return writer


def call(path: str) -> bytes:
    """The first call on a connection, with an empty message."""
    return begin_call(path) + end_of_call()


def begin_call(path: str) -> bytes:
    return headers(1, path)


def end_of_call() -> bytes:
    return data(1, EMPTY, ends=True)


def call_and_reset(path: str, number: int) -> bytes:
    """The call of this number, from 0 on, given up at once."""
    stream = 2 * number + 1
    return headers(stream, path) + reset(stream)
