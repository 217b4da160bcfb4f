"""The clients of one HTTP server: accepted one by one, never more than its limits allow."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from plugbay.ops.http_access import Access
from plugbay.ops.http_connection import ConnectionPhase, HttpConnection
from plugbay.ops.http_limits import Limits, Pace
from plugbay.ops.rate_limit import TokenBucket
from plugbay.ops.routing import Router

logger = logging.getLogger(__name__)

_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S: Final = 0.1
_CLOSABLE: Final = (ConnectionPhase.IDLE, ConnectionPhase.RECEIVING, ConnectionPhase.SENDING)
"""The phases in which a connection may be closed to make room, in the order of preference."""


class Clients:
    """The open connections, in the order in which they were made.

    `asyncio.start_server` would accept a hundred clients at once, and log as many tracebacks when no file descriptor
    is left.

    Args:
        refusal: why a client just accepted is disconnected at once; empty if it is served.
    """

    def __init__(
        self,
        router: Router,
        limits: Limits,
        tasks: asyncio.TaskGroup,
        access: Access,
        refusal: Callable[[socket.socket], str] = lambda client: "",
    ) -> None:
        self._router = router
        self._refusal = refusal
        self._limits = limits
        self._tasks = tasks
        self._access = access
        self._pace = Pace(limits.interval_s)
        self._connections: dict[asyncio.Task[None], HttpConnection] = {}

    async def accept(self, listener: socket.socket) -> None:
        """Accept and serve clients until cancelled."""
        loop = asyncio.get_running_loop()
        warnings = TokenBucket(rate=1 / 60, burst=1, monotonic=loop.time)
        while True:
            await self._pace.turn()
            await _readable(listener)
            try:
                client, _ = listener.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    if warnings.take():
                        logger.warning(
                            "cannot accept an HTTP client: %s; idle clients are disconnected until it can; raise the "
                            "limit of open files if this goes on",
                            error.strerror,
                        )
                    while self._close_one(ConnectionPhase.IDLE):
                        pass
                    await asyncio.sleep(_PAUSE_S)
                continue  # or the client is gone already
            if problem := self._refusal(client):
                if warnings.take():
                    logger.warning("an HTTP client was disconnected: %s", problem)
                client.close()
                continue
            await self._make_room()
            self._serve(client)

    async def finish(self, grace_s: float) -> None:
        """Close what is idle; the others have ``grace_s`` to finish what they are at."""
        for task, connection in self._connections.items():
            if connection.phase is ConnectionPhase.IDLE:
                task.cancel()
            else:
                connection.close_after_response()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=grace_s)
        for task in self._connections:
            task.cancel()

    async def _make_room(self) -> None:
        while len(self._connections) >= self._limits.connections:
            closable = (*_CLOSABLE, ConnectionPhase.STREAMING) if self._limits.streams_yield else _CLOSABLE
            if not any(self._close_one(phase) for phase in closable):
                await asyncio.wait(list(self._connections), return_when=asyncio.FIRST_COMPLETED)

    def _close_one(self, phase: ConnectionPhase) -> bool:
        """Close the oldest connection that is at ``phase``."""
        for task, connection in self._connections.items():
            if connection.phase is phase:
                task.cancel()
                del self._connections[task]
                return True
        return False

    def _serve(self, client: socket.socket) -> None:
        connection = HttpConnection(self._router, self._limits, self._pace, self._access, client)
        task = self._tasks.create_task(connection.serve(), name="serve an HTTP client")
        self._connections[task] = connection
        task.add_done_callback(partial(self._ended, connection))

    def _ended(self, connection: HttpConnection, task: asyncio.Task[None]) -> None:
        connection.abort()  # the task may have been cancelled before its first step
        self._connections.pop(task, None)


async def _readable(listener: socket.socket) -> None:
    """Wait for a connection. `sock_accept` of the loop loses one if its caller is cancelled at that moment."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)
