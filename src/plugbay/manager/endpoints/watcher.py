"""The plugin watcher: finds plugins by their sockets, asks for their names and registers them.

The sockets in the file system are those to be registered (*desired*); those that are registered are known here
(*actual*). For each socket path one task brings the second in line with the first, so a plugin that hangs does not
hold up other plugins. A kubelet compares the two every second. Here a change is acted on at once, and cuts short
what is being done about an older socket at the same path, waiting included.

Source: kubelet 1.36 ``pluginmanager``; spec 1.6, 2.6, 2.7.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, RegistrationRefused, RpcFailed
from plugbay.kernel.socket_watch import watch_sockets
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.endpoints.registration import check_plugin_info
from plugbay.model.ids import ResourceName
from plugbay.ops.backoff import OPERATIONS, Backoff
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background, first
from plugbay.values import dataclass
from plugbay.wire.plugin_transport import PluginTransport
from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginRegistrationClient, RegistrationStatus

logger = logging.getLogger(__name__)

DIAL_TIMEOUT_S: Final = 10.0
INFO_TIMEOUT_S: Final = 1.0
NOTIFY_TIMEOUT_S: Final = 5.0
DIRECTORY_MODE: Final = 0o750


# --- deciding --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Actual:
    """The plugin that is registered, or just being registered, for a socket path.

    Attributes:
        incarnation: which socket at this path it came from.
        endpoint: the plugin's own socket.
    """

    incarnation: int
    resource: ResourceName
    endpoint: Path


class WatchStep(Enum):
    """The next step for a socket path."""

    REGISTER = "register"
    DEREGISTER = "deregister"
    REST = "rest"
    FORGET = "forget"


def next_step(desired: int | None, actual: Actual | None) -> WatchStep:
    """The step that brings ``actual`` in line with the socket; an old plugin goes before a new one comes."""
    if actual is not None:
        return WatchStep.REST if actual.incarnation == desired else WatchStep.DEREGISTER
    return WatchStep.FORGET if desired is None else WatchStep.REGISTER


# --- doing -----------------------------------------------------------------------------------------------------------


def make_directory(directory: Path) -> None:
    """Make the directory that plugins put their sockets in; an existing directory stays as it is.

    Raises:
        PathUnusable: it cannot be made.
    """
    try:
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot make this directory: {error.strerror}") from error


@asynccontextmanager
async def run_watcher(
    directory: Path, endpoints: Endpoints, *, clock: Clock, transport: PluginTransport
) -> AsyncIterator[PluginWatcher]:
    """Watch ``directory`` until the block ends. Plugins that are registered then stay registered."""
    watcher = PluginWatcher(directory, endpoints, clock, transport)
    async with background(watcher.run(), name="plugin watcher"):
        yield watcher


@dataclass(slots=True)
class _Socket:
    """One socket path; see `next_step`."""

    path: Path
    desired: int | None = None
    actual: Actual | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class PluginWatcher:
    """Made by `run_watcher`."""

    def __init__(self, directory: Path, endpoints: Endpoints, clock: Clock, transport: PluginTransport) -> None:
        self._directory = directory
        self._endpoints = endpoints
        self._clock = clock
        self._transport = transport
        self._sockets: dict[Path, _Socket] = {}

    @property
    def desired(self) -> tuple[Path, ...]:
        """Sockets whose plugin should be registered: all that exist."""
        return tuple(path for path, socket in self._sockets.items() if socket.desired is not None)

    @property
    def actual(self) -> tuple[Path, ...]:
        """Sockets whose plugin is registered, or just being registered."""
        return tuple(path for path, socket in self._sockets.items() if socket.actual is not None)

    async def run(self) -> None:
        """Watch until cancelled; a directory that vanishes is made again, empty."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                async with watch_sockets(self._directory) as watch:
                    async for paths in watch:
                        there = watch.sockets
                        for path in paths:
                            self._desire(path, there.get(path), tasks)
                await self._make_again()

    async def _make_again(self) -> None:
        logger.warning(
            "plugin directory %s was removed; making it again, and plugins have to put their sockets there again",
            self._directory,
        )
        backoff = Backoff(OPERATIONS)
        while True:
            try:
                await asyncio.to_thread(make_directory, self._directory)
                return
            except PathUnusable as error:
                logger.warning("%s; trying again", error)
            await self._clock.sleep(backoff.next_delay_s())

    def _desire(self, path: Path, incarnation: int | None, tasks: asyncio.TaskGroup) -> None:
        socket = self._sockets.get(path)
        if socket is None:
            if incarnation is None:
                return
            socket = self._sockets[path] = _Socket(path)
            tasks.create_task(self._tend(socket), name=f"plugin socket {path}")
        socket.desired = incarnation
        socket.changed.set()

    async def _tend(self, socket: _Socket) -> None:
        while True:
            socket.changed.clear()
            match next_step(socket.desired, socket.actual):
                case WatchStep.REGISTER:
                    assert socket.desired is not None
                    await first(self._register(socket, socket.desired), socket.changed.wait())
                case WatchStep.DEREGISTER:
                    await self._deregister(socket)
                case WatchStep.REST:
                    await socket.changed.wait()
                case WatchStep.FORGET:
                    del self._sockets[socket.path]
                    return

    async def _register(self, socket: _Socket, incarnation: int) -> None:
        """Attempt it until it succeeds, for the socket that is there now; meanwhile it may vanish or be another one.

        A kubelet goes on counting failures when a socket is made again at the same path. Here that is a fresh start:
        a plugin that was down for ten minutes would otherwise wait for two more when it is back.
        """
        backoff = Backoff(OPERATIONS)
        while True:
            try:
                await self._attempt(socket, incarnation)
                return
            except (TimeoutError, RpcFailed) as error:
                logger.warning(
                    "plugin at %s does not answer and is tried again: %s",
                    socket.path,
                    str(error) or "nothing listens there",
                )
            except RegistrationRefused as error:
                logger.warning("plugin at %s is not registered and is tried again: %s", socket.path, error)
            except Exception:  # a supervising loop: one plugin must not stop the other plugins
                logger.exception("registering the plugin at %s failed unexpectedly; it is tried again", socket.path)
            await self._deregister(socket)
            await self._clock.sleep(backoff.next_delay_s())

    async def _attempt(self, socket: _Socket, incarnation: int) -> None:
        client = PluginRegistrationClient(socket.path, self._transport)
        try:
            await client.connect(DIAL_TIMEOUT_S)
            try:
                await self._connect(socket, incarnation, client)
            except RegistrationRefused as error:
                refusal = RegistrationStatus(False, f"RegisterPlugin error -- {error}")
                with suppress(RpcFailed):  # the log has to tell of the refusal, not of this
                    await client.notify(refusal, timeout_s=NOTIFY_TIMEOUT_S)
                raise
            await client.notify(RegistrationStatus(True), timeout_s=NOTIFY_TIMEOUT_S)
        finally:
            await client.close()

    async def _connect(self, socket: _Socket, incarnation: int, client: PluginRegistrationClient) -> None:
        info = await client.info(timeout_s=INFO_TIMEOUT_S)
        if info.type != DEVICE_PLUGIN:
            raise RegistrationRefused(f"no handler registered for plugin type: {info.type} at socket {socket.path}")
        try:
            resource, endpoint = check_plugin_info(info, socket.path)
        except RegistrationRefused as error:
            raise RegistrationRefused(f"plugin validation failed with err: {error}") from error
        # Set before the plugin is registered, so that an interruption leads to a de-registration.
        socket.actual = Actual(incarnation, resource, endpoint)
        try:
            await self._endpoints.connect(resource, endpoint)
        except RegistrationRefused as error:
            socket.actual = None
            raise RegistrationRefused(f"plugin registration failed with err: {error}") from error

    async def _deregister(self, socket: _Socket) -> None:
        actual, socket.actual = socket.actual, None
        if actual is not None:
            logger.info("plugin at %s is no longer registered", socket.path)
            await self._endpoints.disconnect(actual.resource, actual.endpoint)
