"""A small HTTP/1.1 server for control sockets, metrics and pages."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from plugbay.errors import UsageError
from plugbay.ops.http_access import FREE, Access
from plugbay.ops.http_limits import Limits
from plugbay.ops.listening import Address, bound_address, listen

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from plugbay.ops.routing import Router

GRACE_S: Final = 2.0
"""The time that handlers have to end; it is enough for those that only wait for the disk. Streams are cut after it."""


@asynccontextmanager
async def serve_http(
    router: Router,
    address: Address,
    *,
    limits: Limits | None = None,
    grace_s: float = GRACE_S,
    refusal: Callable[[socket.socket], str] = lambda client: "",
    access: Access = FREE,
) -> AsyncIterator[Address]:
    """Serve until the context ends; yields the address, with the port that the kernel chose.

    At the end no more connections are accepted, idle ones are closed, handlers at work get ``grace_s`` to finish
    and are then cancelled. All of them have ended when the context has.

    Args:
        refusal: why a client just accepted is disconnected at once; empty if it is served. It must not wait.
        access: the conditions for a request to be served.

    Raises:
        SocketInUse, PathTooLong, PathUnusable: the address cannot be listened at.
        UsageError: h11 is not installed.
    """
    try:
        from plugbay.ops.http_clients import Clients
    except ModuleNotFoundError as error:
        if error.name != "h11":
            raise
        raise UsageError("serving HTTP needs the package h11; install it with: pip install h11") from error

    failure: Exception | None = None
    with ExitStack() as listening:
        listener = listening.enter_context(listen(address))
        async with asyncio.TaskGroup() as tasks:
            clients = Clients(router, limits or Limits(), tasks, access, refusal)
            accepting = tasks.create_task(clients.accept(listener), name="accept HTTP clients")
            try:
                yield bound_address(listener, address)
            except Exception as error:  # of the caller's block; the task group would wrap it
                failure = error
            finally:
                accepting.cancel()
                await asyncio.wait([accepting])
                listening.close()
                await clients.finish(grace_s)
    if failure is not None:
        raise failure
