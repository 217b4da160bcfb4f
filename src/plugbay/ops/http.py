"""A small HTTP/1.1 server for control sockets, metrics and pages."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from plugbay.errors import UsageError
from plugbay.ops.listening import Address, bound_address, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from plugbay.ops.http_connection import Connection, Limits
    from plugbay.ops.routing import Router

GRACE_S: Final = 2.0
"""Long enough for any handler that waits for the disk only; streams are cut after it."""


@asynccontextmanager
async def serve_http(
    router: Router, address: Address, *, limits: Limits | None = None, grace_s: float = GRACE_S
) -> AsyncIterator[Address]:
    """Serve until the context ends; yields the address, with the port that the kernel chose.

    At the end no more connections are accepted, idle ones are closed, handlers at work get ``grace_s`` to finish
    and are then cancelled. All of them have ended when the context has.

    Raises:
        SocketInUse, PathTooLong, PathUnusable: the address cannot be listened at.
        UsageError: h11 is not installed.
    """
    try:
        from plugbay.ops.http_connection import Connection, Limits
    except ModuleNotFoundError as error:
        if error.name != "h11":
            raise
        raise UsageError("serving HTTP needs the package h11; install it with: pip install h11") from error

    connections: dict[asyncio.Task[None], Connection] = {}
    accepting = True

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not accepting:
            writer.transport.abort()
            return
        connection = Connection(router, limits or Limits(), reader=reader, writer=writer)
        task = tasks.create_task(connection.serve(), name="serve an HTTP client")
        connections[task] = connection
        task.add_done_callback(connections.pop)

    failure: Exception | None = None
    with ExitStack() as listening:
        listener = listening.enter_context(listen(address))
        async with asyncio.TaskGroup() as tasks:
            # A duplicate, because the server closes what it gets, and `listen` has to outlive that.
            server = await asyncio.start_server(accept, sock=listener.dup())
            try:
                yield bound_address(listener, address)
            except Exception as error:  # of the caller's block; the task group would wrap it
                failure = error
            finally:
                accepting = False
                server.close()
                listening.close()
                await _finish(connections, grace_s)
    if failure is not None:
        raise failure


async def _finish(connections: dict[asyncio.Task[None], Connection], grace_s: float) -> None:
    for task, connection in connections.items():
        if connection.is_idle:
            task.cancel()
        else:
            connection.close_after_response()
    if connections:
        await asyncio.wait(list(connections), timeout=grace_s)
    for task in connections:
        task.cancel()
