"""The TCP ports of pods, as their own loopback has them: the way in for clients that forward ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from plugbay.errors import PortUnreachable
from plugbay.kernel.netns import in_netns
from plugbay.model.ids import PodUid

_CONNECT_S: Final = 10.0
_BUFFER_BYTES: Final = 64 * 1024
_LOOPBACKS: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
"""The addresses that ``localhost`` stands for, in the order in which engines try them."""


class PodConnection(Protocol):
    """A connection with a process in a pod. Both ways end apart from each other."""

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty once the process has ended its side.

        Raises:
            ConnectionError: the process broke the connection off.
            PortUnreachable: it turns out only now that the port cannot be reached.
        """
        ...

    async def write(self, chunk: bytes) -> None:
        """Send; waits as long as the process takes nothing.

        Raises:
            ConnectionError: the process takes nothing more.
        """
        ...

    async def end(self) -> None:
        """Tell the process that nothing more comes."""
        ...


class PodPorts(Protocol):
    """The ports of a runtime's pods."""

    def connect(self, pod: PodUid, port: int) -> AbstractAsyncContextManager[PodConnection]:
        """Connect to a port while the block runs; its end breaks off what is still open.

        Raises:
            PortUnreachable: nothing listens there, or the pod has no network.
        """
        ...


class LoopbackPorts:
    """The `PodPorts` of a runtime whose pods are on the host's network."""

    def connect(self, pod: PodUid, port: int) -> AbstractAsyncContextManager[PodConnection]:
        return connect_loopback(port)


class SocketConnection:
    """The `PodConnection` of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(_BUFFER_BYTES)

    async def write(self, chunk: bytes) -> None:
        self._writer.write(chunk)
        await self._writer.drain()

    async def end(self) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            self._writer.write_eof()


@asynccontextmanager
async def connect_loopback(port: int, *, netns: Path | None = None) -> AsyncIterator[PodConnection]:
    """Connect to a port of ``localhost`` while the block runs.

    Args:
        netns: the network namespace whose loopback it is; None is the host's.

    Raises:
        PortUnreachable: neither address has the port.
        NamespaceUnusable: the namespace cannot be entered.
    """
    connected = await _connected(port, netns)
    reader, writer = await asyncio.open_connection(sock=connected, limit=_BUFFER_BYTES)
    try:
        yield SocketConnection(reader, writer)
    finally:
        if writer.can_write_eof() and reader.at_eof():
            writer.close()  # what we have sent arrives
        else:
            writer.transport.abort()


async def _connected(port: int, netns: Path | None) -> socket.socket:
    problems = []
    for family, address in _LOOPBACKS:
        try:
            made = await _socket(family, netns)
        except OSError as error:
            problems.append(f"{address}: {_reason(error)}")
            continue
        try:
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
            return made
        except OSError as error:  # the timeout is one too
            made.close()
            problems.append(f"{address}: {_reason(error)}")
        except BaseException:
            made.close()
            raise
    raise PortUnreachable(port, f"failed to connect to localhost:{port} in the pod: {', '.join(problems)}")


async def _socket(family: socket.AddressFamily, netns: Path | None) -> socket.socket:
    """A socket in a namespace, which it stays in whatever thread uses it.

    The protocol is named for asyncio, which lets only sockets with it send small pieces at once (TCP_NODELAY).
    """
    kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
    make: Callable[[], socket.socket] = partial(socket.socket, family, kind, socket.IPPROTO_TCP)
    return make() if netns is None else await asyncio.to_thread(in_netns, netns, make)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or errno.ETIMEDOUT).lower()
