"""A server on a unix socket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.wire.grpc.server_link import Offer, ServerLink
from plugbay.wire.grpc.services import Otherwise, Service
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.sockets import ONLY_OURS, listening

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 512
"""For a peer beyond them, an idle one has to go, or else the peer itself. A kubelet makes one for each plugin."""
BACKLOG: Final = 128
"""So many peers may wait to be accepted."""
PAUSE_S: Final = 1.0
"""The time until the next try when no connection can be accepted, as for lack of descriptors."""


@asynccontextmanager
async def serve_grpc(
    path: Path,
    services: Sequence[Service],
    *,
    grace_s: float = 0,
    max_calls: int = 100,
    mode: int = ONLY_OURS,
    stays: Callable[[], bool] = lambda: False,
    otherwise: Otherwise | None = None,
) -> AsyncIterator[None]:
    """Serve ``services`` on the unix socket ``path`` until the block ends; the socket is gone afterwards.

    By default only its owner, and root, may connect, from the first moment on and under any umask.

    A stale socket at ``path`` is replaced, so callers make sure that no server is there. Calls still running at the end
    get ``grace_s`` to finish, and are then cancelled; the end waits for what they do on their way out. A peer that is
    frozen does not hold it up.

    Args:
        max_calls: so many calls of one connection run at a time.
        mode: the mode of the socket.
        stays: asked at the end: whether the socket's file stays, as when a process is killed.
        otherwise: answers calls of methods that no service has, for servers that pass calls on.

    Raises:
        PathTooLong: the kernel cannot bind the path.
        PathUnusable: the directory is missing or closed to us, or something else is at ``path``.
    """
    server = _Server(services, max_calls, otherwise)
    try:
        with listening(path, mode=mode, stays=stays) as listener, server.accepting(listener):
            yield
    finally:
        await _to_the_end(server.stop(grace_s))


class _Server:
    """Accepts connections by itself: asyncio's server loses those that come while it closes (CPython 3.11 to 3.13)."""

    def __init__(self, services: Sequence[Service], max_calls: int, otherwise: Otherwise | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._offer = Offer({service.name: service for service in services}, max_calls, otherwise)
        self._joining: dict[asyncio.Task[object], ServerLink] = {}
        self._pause: asyncio.TimerHandle | None = None

    @contextmanager
    def accepting(self, listener: socket.socket) -> Iterator[None]:
        listener.listen(BACKLOG)
        self._resume(listener)
        try:
            yield
        finally:
            self._loop.remove_reader(listener)
            if self._pause is not None:
                self._pause.cancel()

    async def stop(self, grace_s: float) -> None:
        if self._joining:
            await asyncio.wait(self._joining)
        for link in self._offer.links:
            link.stop()
        running = self._offer.running
        # Requests that have begun to arrive may still become calls.
        until = self._loop.time() + grace_s
        while running and (left_s := until - self._loop.time()) > 0:
            await asyncio.wait(running, timeout=left_s)
        while running:
            for link in self._offer.links:
                link.cancel_calls()
            await asyncio.wait(running)
        for link in tuple(self._offer.links):
            link.end()
        if self._offer.links:
            await asyncio.wait([link.lost for link in self._offer.links])

    def _resume(self, listener: socket.socket) -> None:
        self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if self._make_room():
                return  # the next try follows at once
            logger.error("a connection cannot be accepted now, and is tried again in %g s: %s", PAUSE_S, error)
            self._loop.remove_reader(listener)
            self._pause = self._loop.call_later(PAUSE_S, self._resume, listener)
            return
        if self._count() >= MAX_CONNECTIONS and not self._make_room():
            connection.close()
            return
        connection.setblocking(False)
        link = ServerLink(self._offer)
        joining: asyncio.Task[object] = self._loop.create_task(
            # `connect_accepted_socket` would load OpenSSL, to ask whether the socket speaks TLS.
            self._loop.create_unix_connection(lambda: link, sock=connection),
            name="accept a connection",
        )
        self._joining[joining] = link
        joining.add_done_callback(self._joining.pop)

    def _count(self) -> int:
        """The number of connections; one that is still being taken up may be among the links already."""
        return len(self._offer.links) + sum(link not in self._offer.links for link in self._joining.values())

    def _make_room(self) -> bool:
        """Hang up on the peer that can do best without its connection, if no call of it runs; False if there is none.

        Its client connects again when it next makes a call.
        """
        idle = [link for link in self._offer.links if link.is_idle]
        if idle:
            min(idle, key=ServerLink.importance).hang_up(ErrorCode.NO_ERROR, "max_idle")
        return bool(idle)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``, also when cancelled meanwhile. `plugbay.ops.tasks` has the same, on a floor above this one."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
