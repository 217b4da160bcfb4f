"""Several plugins in one process, and the signals that reach it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from plugbay.errors import DuplicateResource
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.backoff import MOST_S, Backoff
from plugbay.sdk.endings import STAY, Endings, until_over
from plugbay.sdk.plugin import DevicePlugin
from plugbay.sdk.routes import Route
from plugbay.sdk.server import PluginServer
from plugbay.sdk.sockets import check_directory, new_socket_path
from plugbay.sdk.watching import Watches, watching
from plugbay.wire.transport import check_socket_path

logger = logging.getLogger(__name__)


async def serve(
    plugins: Sequence[DevicePlugin],
    *,
    paths: KubeletPaths,
    endings: Endings = STAY,
    route: Route = Route.KUBELET,
) -> None:
    """Serve ``plugins`` to the kubelet at ``paths`` until SIGTERM or SIGINT; a second one ends the process at once.

    SIGHUP makes every plugin look for devices and register again. Call it from the main thread, in a process that has
    no other use for these signals; elsewhere use `serving`.

    Args:
        endings: what else ends it.
        route: how the plugins get registered.

    Raises:
        As `serving`.
        RegistrationRefused: a kubelet refused a plugin, and that is to be the end.
    """
    stop = asyncio.Event()

    def ask_to_stop(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    servers = _servers(plugins, paths, route)
    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGTERM: lambda: ask_to_stop(signal.SIGTERM),
        signal.SIGINT: lambda: ask_to_stop(signal.SIGINT),
        signal.SIGHUP: lambda: _reload(servers),
    }
    with _handling(handlers):  # around the end of serving too: that is when a second signal may come
        async with _running(servers):
            refusal = await until_over(servers, endings, stop)
    if refusal is not None:
        raise refusal


@asynccontextmanager
async def serving(
    plugins: Sequence[DevicePlugin], *, paths: KubeletPaths, route: Route = Route.KUBELET
) -> AsyncIterator[Callable[[], None]]:
    """Serve ``plugins`` until the block ends, then drain; gives a function that does what SIGHUP does.

    A plugin that fails is started again with back-off and disturbs no other.

    Raises:
        InvalidResourceName, DuplicateResource: nothing was served.
        PathTooLong, PathUnusable: a directory for sockets can never be used, for instance because it is a file.
    """
    servers = _servers(plugins, paths, route)
    async with _running(servers):
        yield lambda: _reload(servers)


def _servers(plugins: Sequence[DevicePlugin], paths: KubeletPaths, route: Route) -> list[PluginServer]:
    servers = [PluginServer(plugin, paths, route) for plugin in plugins]
    names = [server.resource for server in servers]
    if len(set(names)) < len(names):
        raise DuplicateResource(max(names, key=names.count))
    for directory in route.directories(paths):
        for name in names:
            check_socket_path(new_socket_path(directory, name))
        check_directory(directory)
    return servers


def _reload(servers: Sequence[PluginServer]) -> None:
    for server in servers:
        server.reload()


@asynccontextmanager
async def _running(servers: Sequence[PluginServer]) -> AsyncIterator[None]:
    async with watching() as watches, asyncio.TaskGroup() as tasks:
        for server in servers:
            tasks.create_task(_supervise(server, watches), name=f"serve {server.resource}")
        try:
            yield
        finally:
            for server in servers:
                server.stop()


async def _supervise(server: PluginServer, watches: Watches) -> None:
    backoff, loop = Backoff(), asyncio.get_running_loop()
    while not server.stopping.is_set():
        began = loop.time()
        try:
            await server.run(watches)
        except Exception:  # the supervising loop: one plugin's failure is its own
            logger.exception("%s: failed; starting it again", server.resource)
            if loop.time() - began > MOST_S:
                backoff.reset()  # it was well in between
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff.next_delay_s()):
                    await server.stopping.wait()


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
