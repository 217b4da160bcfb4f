"""gRPC over unix sockets: the one place that makes grpcio's channels and servers.

Every channel sets an authority: Go servers refuse the path that grpcio would send instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import grpc

from plugbay.errors import PathTooLong, PathUnusable
from plugbay.wire.umask import with_umask

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The most that Go's gRPC, and so a kubelet, receives; we take no more either."""
_MAX_METADATA_BYTES: Final = 16 * 1024 * 1024
"""The most that Go's gRPC takes of headers, and of trailers, which hold error texts. We would announce 16 KiB, and a Go
plugin resets the stream instead of sending a longer text."""
MAX_SOCKET_PATH_BYTES: Final = 107
"""``sun_path`` holds 108 bytes, the last one is NUL."""
_METADATA_OPTIONS: Final = (
    ("grpc.max_metadata_size", _MAX_METADATA_BYTES),  # beyond this one, calls are refused at random
    ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
)
LOCALHOST: Final = "localhost"
"""The authority that a kubelet, and Go's gRPC for a unix socket, sends."""
_NOT_ESCAPED: Final = "!$&'()*+,;=:[]@"
"""Characters of an authority, besides letters, digits and ``-_.~``."""
_ALL_BUT_OURS: Final = 0o177
"""The umask for sockets: they get mode 0600."""
FLUSH_S: Final = 1.0
"""The time that the end of a server may take once no call is left."""
_CHANNEL_OPTIONS: Final = (
    *_METADATA_OPTIONS,
    ("grpc.enable_http_proxy", 0),
    # Without it every channel to one path shares a connection, and closing one says nothing about the other.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_SERVER_OPTIONS: Final = (
    *_METADATA_OPTIONS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)


def check_socket_path(path: Path) -> Path:
    """``path``, if the kernel can bind it.

    Raises:
        PathTooLong: more than 107 bytes.
    """
    if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
        raise PathTooLong(str(path), MAX_SOCKET_PATH_BYTES)
    return path


def authority_of(path: Path) -> str:
    """The authority that Go's gRPC sends when a kubelet dials a bare path: Rust servers refuse it, as no host has it.

    Source: grpc-go 1.81 ``clientconn.go``, ``encodeAuthority``.
    """
    return quote(bytes(path), safe=_NOT_ESCAPED)


def open_channel(
    path: Path, *, authority: str = LOCALHOST, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> grpc.aio.Channel:
    """A channel to the server at the unix socket ``path``; it connects when first used.

    Args:
        authority: the server's name in each call.
        max_message_bytes: the limit for received messages.

    Raises:
        PathTooLong: grpcio would make a channel that never connects, and then keep the process from ending.
    """
    options = (
        *_CHANNEL_OPTIONS,
        ("grpc.default_authority", authority),
        ("grpc.max_receive_message_length", max_message_bytes),
    )
    return grpc.aio.insecure_channel(_target(check_socket_path(path)), options=options)


async def wait_connected(channel: grpc.aio.Channel, timeout_s: float) -> None:
    """Connect now, trying again until it succeeds.

    Raises:
        TimeoutError: no server answered within ``timeout_s``.
    """
    async with asyncio.timeout(timeout_s):
        await channel.channel_ready()


@asynccontextmanager
async def serve_grpc(
    path: Path, handlers: Sequence[grpc.GenericRpcHandler], *, grace_s: float = 0, max_calls: int = 100
) -> AsyncIterator[None]:
    """Serve ``handlers`` on the unix socket ``path`` until the block ends; the socket is gone afterwards.

    Only its owner, and root, may connect, from the first moment on and under any umask.

    A stale socket at ``path`` is replaced, so callers make sure that no server is there: grpcio would bind a second one
    silently. Calls still running at the end get ``grace_s`` to finish.

    Args:
        max_calls: so many calls of one connection run at a time. A peer that makes more and breaks them off would have
            calls of others cancelled.

    Raises:
        PathTooLong: the kernel cannot bind the path.
        PathUnusable: the directory is missing or closed to us, or something else is at ``path``.
    """
    check_socket_path(path)
    if await asyncio.to_thread(_is_in_the_way, path):
        raise PathUnusable(str(path), "cannot listen: something is there that is not a socket")
    server = grpc.aio.server(options=(*_SERVER_OPTIONS, ("grpc.max_concurrent_streams", max_calls)))
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        with_umask(_ALL_BUT_OURS, lambda: server.add_insecure_port(_target(path)))
    except RuntimeError as error:
        problem = await asyncio.to_thread(_why_not_bound, path)
        raise PathUnusable(str(path.parent), f"cannot make a socket here: {problem}") from error
    try:
        await _to_the_end(server.start())
        yield
    finally:
        await _to_the_end(_stop(server, path, grace_s))
        with contextlib.suppress(OSError):
            os.unlink(path)


async def _stop(server: grpc.aio.Server, path: Path, grace_s: float) -> None:
    """A peer that has stopped reading, because it is frozen for instance, would keep a server from ever ending."""
    stopping = asyncio.ensure_future(server.stop(grace_s))
    await asyncio.wait([stopping], timeout=grace_s + FLUSH_S)
    if not stopping.done():
        await asyncio.to_thread(_hang_up, path)
    await stopping


def _hang_up(path: Path) -> None:
    """Close what has been accepted at ``path``; grpcio has no call for that.

    Kept because grpcio 1.85 waits without end for a client that has stopped reading, whatever grace ``stop`` was given:
    ``tests/contract/wire/test_frozen.py`` shows it with a client under SIGSTOP. A plugin would never end.
    """
    descriptors = Path("/proc/self/fd")
    for name in os.listdir(descriptors):
        with contextlib.suppress(OSError):  # it is closed by now, or has lost its peer
            if os.readlink(descriptors / name).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.getsockname() == os.fspath(path):
                        connection.shutdown(socket.SHUT_RDWR)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``, also when cancelled meanwhile. `plugbay.ops.tasks` has the same, on a floor above this one.

    A server whose start is cancelled is never stopped, and before Python 3.12 the end of one could swallow a
    cancellation, with which `asyncio.wait_for` does so.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def _is_in_the_way(path: Path) -> bool:
    return path.exists() and not path.is_socket()


def _why_not_bound(path: Path) -> str:
    """The reason why grpcio could not bind, which it does not report: found by a second try."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.bind(os.fspath(path))
    except OSError as error:
        return error.strerror or str(error)
    path.unlink(missing_ok=True)
    return "gRPC could not, for a moment"


def _target(path: Path) -> str:
    return f"unix:{quote(bytes(path))}"
