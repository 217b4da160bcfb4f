"""All plugins of a process, and the signals that reach it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import DuplicateResource
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.service_manager import ServiceManager
from plugbay.ops.tasks import background
from plugbay.sdk.assigned import assigned_by_checkpoint
from plugbay.sdk.author.release_settings import DEFAULT_RELEASE, ReleaseSettings
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.sdk.process.endings import STAY, Endings, until_over
from plugbay.sdk.process.readiness import ToldReadiness
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.process.sources import Member, known_plugins
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.sockets import check_directory, new_socket_path
from plugbay.sdk.watching import watching
from plugbay.wire.sockets import check_socket_path

logger = logging.getLogger(__name__)

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
NO_MANAGER: Final = ServiceManager("")
END_S: Final = 25.0
"""The time a process has to end. A kubelet kills a pod's processes after 30 s, without a word about what hung."""


async def serve(
    members: Sequence[Member],
    *,
    paths: KubeletPaths,
    endings: Endings = STAY,
    route: RegistrationRoute = RegistrationRoute.KUBELET,
    cdi_directory: Path = CDI_DIRECTORY,
    release: ReleaseSettings = DEFAULT_RELEASE,
    onlooker: Callable[[Roster], object] = lambda _: None,
    manager: ServiceManager = NO_MANAGER,
) -> None:
    """Serve ``members`` to the kubelet at ``paths`` until SIGTERM, SIGINT or SIGQUIT; a second one ends it at once.

    The process ends 25 s after the first one in any case, whatever hook of an author's goes on.

    SIGHUP makes every source look for plugins, and every plugin look for devices and register again. Call it from the
    main thread, in a process that has no other use for these signals; elsewhere use `serving`.

    Args:
        members: plugins, and sources of plugins that come and go.
        endings: what else ends it.
        route: how the plugins get registered.
        cdi_directory: where specs of plugins with a CDI kind go.
        release: how uses of devices come to their end.
        onlooker: given what is served, before it is.
        manager: told when all is registered, and when this ends.

    Raises:
        As `serving`.
        RegistrationRefused: a kubelet refused a plugin, and that is to be the end.
        OperatorError: a source of plugins can serve nothing at all.
    """
    stop = asyncio.Event()

    def ask_to_stop(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    def look_again() -> None:
        if told is not None:  # else it is about to look for the first time
            told.reload()

    told: ToldReadiness | None = None
    handlers: dict[signal.Signals, Callable[[], None]] = {signal.SIGHUP: look_again}
    handlers |= {number: partial(ask_to_stop, number) for number in _ENDING}
    # From the very first to the end of serving: a second signal may come then, or time run out.
    with _handling(handlers), ExitStack() as ending:
        async with _roster(members, paths, route, cdi_directory, release) as roster:
            onlooker(roster)
            told = ToldReadiness(roster, manager)
            async with roster.serving(members):
                async with background(told.keep_told(), name="tell the service manager"):
                    error = await until_over(roster, endings, stop)
                manager.stopping()
                ending.enter_context(_no_longer_than(END_S, roster))
    if error is not None:
        raise error


@asynccontextmanager
async def serving(
    members: Sequence[Member],
    *,
    paths: KubeletPaths,
    route: RegistrationRoute = RegistrationRoute.KUBELET,
    cdi_directory: Path = CDI_DIRECTORY,
    release: ReleaseSettings = DEFAULT_RELEASE,
) -> AsyncIterator[Callable[[], None]]:
    """Serve ``members`` until the block ends, then drain; gives a function that does what SIGHUP does.

    A plugin that fails is started again with back-off and disturbs no other.

    Raises:
        InvalidResourceName, DuplicateResource, InvalidCdiName: nothing was served.
        UsageError: a plugin insists on releases, and there are to be none.
        PathTooLong, PathUnusable: a directory for sockets can never be used, for instance because it is a file.
    """
    async with _roster(members, paths, route, cdi_directory, release) as roster, roster.serving(members):
        yield roster.reload


@asynccontextmanager
async def _roster(
    members: Sequence[Member],
    paths: KubeletPaths,
    route: RegistrationRoute,
    cdi_directory: Path,
    release: ReleaseSettings,
) -> AsyncIterator[Roster]:
    """Make the roster that serves ``members``, once they are checked. It serves none of them yet."""
    shared = Shared(release, paths)
    check(members, paths, route, shared)
    async with watching() as watches:
        yield Roster(
            lambda plugin: PluginServer(plugin, paths, route, cdi_directory=cdi_directory, shared=shared),
            watches,
            shared.pod_lists,
            partial(assigned_by_checkpoint, paths, cdi_directory),
        )


def check(members: Sequence[Member], paths: KubeletPaths, route: RegistrationRoute, shared: Shared) -> None:
    """Check that the plugins among ``members`` can be served.

    Raises:
        As `serving`.
    """
    names = [PluginServer(plugin, paths, route, shared=shared).resource for plugin in known_plugins(members)]
    if len(set(names)) < len(names):
        raise DuplicateResource(max(names, key=names.count))
    for directory in route.directories(paths):
        for name in names:
            check_socket_path(new_socket_path(directory, name))
        check_directory(directory)


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


@contextmanager
def _no_longer_than(seconds: float, roster: Roster) -> Iterator[None]:
    """End the process if the block takes longer. In a thread: what holds up the end may hold up the event loop."""

    def give_up() -> None:
        late = ", ".join(server.resource for server in roster.servers) or "a source of plugins"
        logger.error("%s has not ended %g s after it was asked to; exiting anyway", late, seconds)
        os._exit(1)

    limit = threading.Timer(seconds, give_up)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
