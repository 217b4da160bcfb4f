"""The API of a node over TCP: with TLS, for clients that have the token."""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import SocketInUse
from plugbay.kernel.files import write_durably
from plugbay.node.access.account_access import AccountAccess
from plugbay.node.access.bearer import bearer_check
from plugbay.node.access.keys import open_keys
from plugbay.node.access.kubeconfig import kubeconfig
from plugbay.ops.clock import Clock
from plugbay.ops.http import serve_http
from plugbay.ops.http_access import Access
from plugbay.ops.http_limits import Limits
from plugbay.ops.listening import TcpAddress
from plugbay.ops.routing import Router

logger = logging.getLogger(__name__)

_LIMITS: Final = Limits(connections=6000)
"""A client may have a watch for each kind of objects, and a test thousands of clients."""
_TLS_READ_BYTES: Final = 8 * 1024
"""asyncio keeps a buffer of this size for each connection, of 256 KiB if it is not told: too much for idle watches."""
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_FREE_PORT: Final = 0


@asynccontextmanager
async def serve_api(
    router: Router,
    address: TcpAddress,
    *,
    directory: Path,
    node: str,
    config: Path,
    accounts: AccountAccess,
    clock: Clock,
) -> AsyncIterator[str]:
    """Serve until the block ends; yields the URL, which the kubeconfig has as well.

    A port that the kernel chose is asked for again at the next start, so that kubeconfigs stay right.

    Args:
        directory: keeps the keys.
        node: the name of the node.
        accounts: checks the tokens of service accounts; told when pods can use the API.
        config: the kubeconfig that is written, and removed at the end.

    Raises:
        SocketInUse, PathUnusable, UsageError: it cannot be served.
    """
    asyncio.sslproto.SSLProtocol.max_size = _TLS_READ_BYTES
    names = list(dict.fromkeys([*_LOOPBACK, node, socket.gethostname().lower(), *_own(address)]))
    keys = await open_keys(directory, names, clock=clock)
    access = Access(keys.tls, bearer_check(keys.token, names, accounts.check_owner, accounts.check))
    before = directory / "port"
    async with AsyncExitStack() as stack:
        bound = await _listen(stack, router, address, await asyncio.to_thread(_port, before), access)
        host = "127.0.0.1" if address.host in _EVERY_ADDRESS else address.host
        url = f"https://{TcpAddress(host, bound.port)}"
        accounts.open(TcpAddress(host, bound.port), authority=keys.authority)
        text = kubeconfig(url, authority=keys.authority, token=keys.token)
        await asyncio.to_thread(write_durably, before, f"{bound.port}\n".encode())
        await asyncio.to_thread(write_durably, config, text.encode())
        logger.info("the API is at %s; clients find it by KUBECONFIG=%s", url, config)
        stack.callback(config.unlink, missing_ok=True)
        yield url


async def _listen(
    stack: AsyncExitStack, router: Router, address: TcpAddress, before: int, access: Access
) -> TcpAddress:
    """Serve at an address; if any port will do, at the one of ``before`` when it is free."""
    serve = partial(serve_http, router, limits=_LIMITS, access=access)
    try:
        bound = await stack.enter_async_context(serve(TcpAddress(address.host, address.port or before)))
    except SocketInUse:
        if address.port:
            raise
        logger.warning(
            "port %d, where the API was before, is in use: it takes another one, and clients need the new kubeconfig",
            before,
        )
        bound = await stack.enter_async_context(serve(address))
    assert isinstance(bound, TcpAddress)
    return bound


def _own(address: TcpAddress) -> list[str]:
    return [] if address.host in _EVERY_ADDRESS else [address.host.lower()]


def _port(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return _FREE_PORT
