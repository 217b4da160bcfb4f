"""Serves one plugin: its devices, its socket, its registration, until told to stop.

Serve first, then register: a kubelet dials back before it answers. A kubelet that restarts removes our socket and
makes its own anew; either sight begins a new incarnation or registration. Source: spec 1.4, 1.5, 2.4, 2.5.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from enum import Enum, auto
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, RpcFailed
from plugbay.kernel.watch import PathWatch, watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.discovery import Discovery
from plugbay.sdk.plugin import DevicePlugin, options_of, resource_of
from plugbay.sdk.service import PluginService
from plugbay.sdk.sockets import new_socket_path, remove_leftovers
from plugbay.sdk.states import TRANSITIONS, Event, State
from plugbay.wire.plugin_server import device_plugin_handler
from plugbay.wire.registration import API_VERSION, Registration, register
from plugbay.wire.transport import serve_grpc

logger = logging.getLogger(__name__)

REGISTER_TIMEOUT_S: Final = 15.0
"""A kubelet dials back for at most 10 s inside the call."""
DRAIN_S: Final = 2.0
"""How long calls under way may take when we stop."""


class _Need(Enum):
    """What the supervision of one incarnation waits for."""

    NEW_SOCKET = auto()
    STOP = auto()


class PluginServer:
    """The life of one plugin, see `states`."""

    def __init__(self, plugin: DevicePlugin, paths: KubeletPaths) -> None:
        self.resource = resource_of(plugin)
        self.state = State.STARTING
        self._plugin = plugin
        self._paths = paths
        self._service = PluginService(plugin, self._streams_changed)
        self._discovery = Discovery(plugin, self._service.publish)
        self._backoff = Backoff()
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._kubelet: tuple[int, int] | None = None
        self._last_refusal = ""
        self._had_streams = False

    def reload(self) -> None:
        """Look for devices again and register again, as on SIGHUP."""
        self._discovery.refresh()
        self._lose_registration()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()

    async def run(self) -> None:
        """Serve until `stop`, then drain."""
        self.state = State.STARTING
        self._plugin._refresh = self._discovery.refresh  # type: ignore[method-assign]  # how refresh() reaches us
        async with asyncio.TaskGroup() as tasks:
            discovering = tasks.create_task(self._discovery.run(), name=f"discover {self.resource}")
            looked = tasks.create_task(self._discovery.looked.wait())
            stopping = tasks.create_task(self._stopping.wait())
            await asyncio.wait((looked, stopping), return_when=asyncio.FIRST_COMPLETED)
            while not self._stopping.is_set():
                await self._serve_incarnation()
            discovering.cancel()
            looked.cancel()

    async def _serve_incarnation(self) -> None:
        """One socket, from its making to its end."""
        directory = self._paths.device_plugins
        socket = new_socket_path(directory, self.resource)
        if not await asyncio.to_thread(directory.is_dir):
            await self._wait_for(directory)
            return
        async with watch_paths([self._paths.registration_socket, socket]) as changes, AsyncExitStack() as up:
            await asyncio.to_thread(remove_leftovers, directory, self.resource)
            try:
                await up.enter_async_context(
                    serve_grpc(socket, [device_plugin_handler(self._service)], grace_s=DRAIN_S)
                )
            except PathUnusable as error:
                logger.error("%s: %s", self.resource, error)
                await self._pause(changes, self._backoff.next_delay_s())
                return
            up.callback(self._drain)
            self._move(Event.LISTENING)
            need = await self._stay_registered(socket, changes)
            if need is _Need.STOP:
                self._move(Event.STOP_REQUESTED)
            else:
                logger.info("%s: our socket vanished; making a new one", self.resource)
                self._move(Event.SOCKET_LOST)
        if self.state is State.DRAINING:
            self._move(Event.DRAINED)

    async def _wait_for(self, directory: Path) -> None:
        async with watch_paths([directory]) as changes:
            logger.warning("%s: waiting for %s, which a kubelet makes", self.resource, directory)
            while not await asyncio.to_thread(directory.is_dir) and not self._stopping.is_set():
                await self._pause(changes, None)

    async def _stay_registered(self, socket: Path, changes: PathWatch) -> _Need:
        while not self._stopping.is_set():
            # In this order: a kubelet that starts clears the directory before it makes its own socket.
            kubelet = await asyncio.to_thread(_identity, self._paths.registration_socket)
            if not await asyncio.to_thread(socket.exists):
                return _Need.NEW_SOCKET
            if kubelet != self._kubelet:
                self._kubelet = kubelet
                self._backoff.reset()
                if self.state is not State.SERVING:
                    self._move(Event.REGISTRATION_LOST)
            delay_s = None
            if self.state is State.SERVING and kubelet is not None and not await self._register(socket, changes):
                delay_s = self._backoff.next_delay_s()
            await self._pause(changes, delay_s)
        return _Need.STOP

    async def _register(self, socket: Path, changes: PathWatch) -> bool:
        registering = asyncio.ensure_future(
            register(
                self._paths.registration_socket,
                Registration(API_VERSION, socket.name, self.resource),
                options=options_of(self._plugin),
                timeout_s=REGISTER_TIMEOUT_S,
            )
        )
        try:
            if not await self._outlives(registering, socket, changes):
                return False
            await registering
        except RpcFailed as error:
            self._report_refusal(error)
            return False
        logger.info("%s: registered with the kubelet", self.resource)
        self._last_refusal = ""
        self._backoff.reset()
        self._move(Event.REGISTERED)
        if self._service.open_streams:
            self._move(Event.STREAM_OPENED)
        return True

    async def _outlives(self, registering: asyncio.Future[None], socket: Path, changes: PathWatch) -> bool:
        """Wait for ``registering``, but no longer than our socket is there: a kubelet dials a vanished one for 10 s."""
        try:
            while not registering.done():
                changed = asyncio.ensure_future(_next_change(changes))
                try:
                    await asyncio.wait((registering, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                    await asyncio.gather(changed, return_exceptions=True)
                if not await asyncio.to_thread(socket.exists):
                    self._woken.set()  # the next look sees it too
                    return False
            return True
        finally:
            registering.cancel()

    def _report_refusal(self, error: RpcFailed) -> None:
        """A kubelet's word is an error, once for each text; a kubelet that is not there yet is not."""
        if error.code != "Unknown":
            logger.debug("%s: registration not answered: %s", self.resource, error)
        elif error.detail != self._last_refusal:
            self._last_refusal = error.detail
            logger.error("%s: the kubelet refuses the registration: %s", self.resource, error.detail)

    async def _pause(self, changes: PathWatch, delay_s: float | None) -> None:
        """Until something happened to our files or our state, or ``delay_s`` has passed."""
        self_woken = asyncio.ensure_future(self._woken.wait())
        changed = asyncio.ensure_future(_next_change(changes))
        try:
            await asyncio.wait((self_woken, changed), timeout=delay_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (self_woken, changed):
                waiting.cancel()
            await asyncio.gather(self_woken, changed, return_exceptions=True)
        self._woken.clear()
        if self._stopping.is_set():
            self._woken.set()

    def _drain(self) -> None:
        """Before the server stops: the kubelet learns by the end of the stream."""
        self._service.end_streams()

    def _streams_changed(self) -> None:
        has_streams = self._service.open_streams > 0
        if has_streams != self._had_streams:
            self._had_streams = has_streams
            self._move(Event.STREAM_OPENED if has_streams else Event.STREAM_LOST)
            self._woken.set()

    def _lose_registration(self) -> None:
        self._kubelet = None  # no identity: the next look takes the kubelet for a new one
        self._woken.set()

    def _move(self, event: Event) -> None:
        before, self.state = self.state, TRANSITIONS[self.state][event]
        if self.state is not before:
            logger.debug("%s: %s, %s -> %s", self.resource, event.value, before.value, self.state.value)


async def _next_change(changes: PathWatch) -> None:
    await anext(changes)


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a socket from a later one at the same path; None if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_ctime_ns
