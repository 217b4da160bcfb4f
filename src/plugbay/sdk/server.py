"""Serves one plugin: its devices, its socket, its registration, until told to stop.

Serve first, then register: a kubelet dials back before it answers. A kubelet that restarts removes our socket and
makes its own anew; either sight begins a new incarnation or registration. Source: spec 1.4, 1.5, 2.4, 2.5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from enum import Enum, auto
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, RegistrationRefused
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.discovery import Discovery
from plugbay.sdk.health import HealthMonitor
from plugbay.sdk.listing import Listing
from plugbay.sdk.plugin import DevicePlugin, bind_refresh, health_checks, options_of, resource_of
from plugbay.sdk.preparation import set_up, tear_down
from plugbay.sdk.registration import Registrar, SocketId, identify
from plugbay.sdk.reporting import Report
from plugbay.sdk.service import PluginService
from plugbay.sdk.sockets import new_socket_path, remove_leftovers
from plugbay.sdk.states import TRANSITIONS, Event, State
from plugbay.sdk.waiting import wait_first
from plugbay.sdk.watching import Changes, Watches
from plugbay.wire.plugin_server import device_plugin_handler
from plugbay.wire.transport import serve_grpc

logger = logging.getLogger(__name__)

DRAIN_S: Final = 2.0
"""How long calls under way, and streams told to end, may take."""
STREAM_PATIENCE_S: Final = 10.0
"""Kubelets ask for the list right after they answered; one that has not by now never will."""
STEADY_S: Final = 1.0
"""A stream that lasted less says that the next one may not last either: the back-off goes on."""
SLOW_DISCOVERY_S: Final = 10.0


class _Need(Enum):
    """What the supervision of one incarnation waits for."""

    NEW_SOCKET = auto()
    STOP = auto()


class PluginServer:
    """The life of one plugin, see `states`.

    Attributes:
        on_refusal: told each time a kubelet refuses the registration.
    """

    def __init__(self, plugin: DevicePlugin, paths: KubeletPaths) -> None:
        self.resource = resource_of(plugin)
        self.state = State.SETTING_UP
        self.stopping = asyncio.Event()
        self.on_refusal: Callable[[RegistrationRefused], None] | None = None
        self._plugin = plugin
        self._paths = paths
        self._listing = Listing(self._publish)
        self._service = PluginService(plugin, self._streams_changed, self._listing.allocation_failed)
        self._discovery = Discovery(plugin, self._listing)
        self._monitors = tuple(HealthMonitor(check, self._listing) for check in health_checks(plugin))
        self._registrar = Registrar(paths.registration_socket, self.resource, options_of(plugin), self._refused)
        self._backoff = Backoff()
        self._woken = asyncio.Event()
        self._kubelet: SocketId | None = None
        self._due = 0.0
        self._streaming_since = 0.0
        self._had_streams = False
        self._lost_streams = 0
        self._state_since = asyncio.get_running_loop().time()
        self._registrations = 0

    @property
    def looked(self) -> asyncio.Event:
        """Set once there is a list of devices, be it empty."""
        return self._discovery.found

    @property
    def device_count(self) -> int:
        return len(self._listing.devices)

    @property
    def report(self) -> Report:
        """How it is with the plugin now."""
        in_state_s = asyncio.get_running_loop().time() - self._state_since
        return Report(self.resource, self.state, in_state_s, self._registrations, self._registrar.refusal)

    def reload(self) -> None:
        """Look for devices again and register again, as on SIGHUP."""
        self._discovery.refresh()
        self._kubelet = None  # no identity: the next look takes the kubelet for a new one
        self._woken.set()

    def stop(self) -> None:
        self.stopping.set()
        self._woken.set()

    async def run(self, watches: Watches) -> None:
        """Set up, serve until `stop`, then drain and tear down."""
        self.state = State.SETTING_UP
        await wait_first(self._set_up, self.stopping.wait)
        if self.state is State.SETTING_UP:
            self._move(Event.STOP_REQUESTED)
            return
        try:
            await self._serve(watches)
        finally:
            await tear_down(self._plugin)
        self._move(Event.TORN_DOWN)

    async def _set_up(self) -> None:
        await set_up(self._plugin, lambda: self._move(Event.SET_UP_FAILED))
        self._move(Event.SET_UP)

    async def _serve(self, watches: Watches) -> None:
        """Find devices and serve them on one socket after the other until `stop`, then drain."""
        loop = asyncio.get_running_loop()
        bind_refresh(self._plugin, lambda: loop.call_soon_threadsafe(self._discovery.refresh))
        try:
            async with asyncio.TaskGroup() as tasks:
                working = [tasks.create_task(self._discovery.run(watches), name=f"discover {self.resource}")]
                working += [tasks.create_task(each.run(), name=f"check {self.resource}") for each in self._monitors]
                await self._wait_for_devices()
                while not self.stopping.is_set():
                    await self._serve_incarnation(watches)
                for task in working:
                    task.cancel()
        finally:
            self._listing.close()
            bind_refresh(self._plugin, None)
        if self.state is not State.DRAINING:  # there was no socket
            self._move(Event.STOP_REQUESTED)
        self._move(Event.DRAINED)

    def _refused(self, error: RegistrationRefused) -> None:
        if self.on_refusal is not None:
            self.on_refusal(error)

    def _publish(self, devices: Iterable[Device]) -> None:
        self._service.publish(devices)

    async def _wait_for_devices(self) -> None:
        waits = (self._discovery.found.wait, self.stopping.wait)
        if not await wait_first(*waits, timeout_s=SLOW_DISCOVERY_S):
            logger.warning("%s: still looking for devices; not registered before there is a list", self.resource)
            await wait_first(*waits)

    async def _serve_incarnation(self, watches: Watches) -> None:
        """One socket, from its making to its end."""
        directory = self._paths.device_plugins
        if not await asyncio.to_thread(directory.is_dir):
            await self._wait_for(directory, watches)
            return
        socket = new_socket_path(directory, self.resource)
        async with AsyncExitStack() as up:
            changes = up.enter_context(watches.watch([self._paths.registration_socket, socket]))
            await asyncio.to_thread(remove_leftovers, directory, self.resource)
            self._service.accept_streams()
            try:
                await up.enter_async_context(
                    serve_grpc(socket, [device_plugin_handler(self._service)], grace_s=DRAIN_S)
                )
            except PathUnusable as error:
                logger.error("%s: %s", self.resource, error)
                await self._pause(changes, self._backoff.next_delay_s())
                return
            # Before the server stops: the kubelet learns by the end of the stream.
            up.push_async_callback(self._service.drain, DRAIN_S)
            self._move(Event.LISTENING)
            self._kubelet = None
            need = await self._stay_registered(socket, changes)
            if need is _Need.STOP:
                self._move(Event.STOP_REQUESTED)
            else:
                logger.info("%s: our socket vanished; making a new one", self.resource)
                self._move(Event.SOCKET_LOST)

    async def _wait_for(self, directory: Path, watches: Watches) -> None:
        with watches.watch([directory]) as changes:
            logger.warning("%s: waiting for %s, which a kubelet makes", self.resource, directory)
            while not await asyncio.to_thread(directory.is_dir) and not self.stopping.is_set():
                await self._pause(changes, None)

    async def _stay_registered(self, socket: Path, changes: Changes) -> _Need:
        while not self.stopping.is_set():
            # In this order: a kubelet that starts clears the directory before it makes its own socket.
            kubelet = await asyncio.to_thread(identify, self._paths.registration_socket)
            if not await asyncio.to_thread(socket.exists):
                return _Need.NEW_SOCKET
            if kubelet != self._kubelet:
                self._kubelet = kubelet
                self._backoff.reset()
                self._due = 0.0
                if self.state is not State.SERVING:
                    self._move(Event.REGISTRATION_LOST)
            delay_s = await self._advance(socket, changes)
            await self._pause(changes, delay_s)
        return _Need.STOP

    async def _advance(self, socket: Path, changes: Changes) -> float | None:
        """Do what is due; returns the seconds until something is due again, None when it is the kubelet's turn."""
        loop = asyncio.get_running_loop()
        if self.state not in (State.SERVING, State.REGISTERED) or self._kubelet is None:
            return None
        if (delay_s := self._due - loop.time()) > 0:
            return delay_s
        if self.state is State.REGISTERED:
            logger.warning("%s: the kubelet never asked for the list; registering again", self.resource)
            self._move(Event.STREAM_MISSING)
            return self._put_off()
        if not await self._register(socket, changes):
            return self._put_off()
        if self.state is State.SERVING:  # registered, and lost again already
            return self._due - loop.time()
        self._due = loop.time() + STREAM_PATIENCE_S
        return STREAM_PATIENCE_S

    def _put_off(self) -> float:
        delay_s = self._backoff.next_delay_s()
        self._due = asyncio.get_running_loop().time() + delay_s
        return delay_s

    async def _register(self, socket: Path, changes: Changes) -> bool:
        # A kubelet 1.36 takes the end of an old stream for the end of the newest registration, and 1.37 refuses a
        # second one while the first is connected (spec 2.5): so the streams of before end first.
        await self._service.end_streams(DRAIN_S)
        lost_before = self._lost_streams
        async with asyncio.TaskGroup() as tasks:
            registering = tasks.create_task(self._registrar.register(socket.name))
            others = (
                tasks.create_task(self._until_outdated(socket, changes)),
                tasks.create_task(self.stopping.wait()),
            )
            await asyncio.wait((registering, *others), return_when=asyncio.FIRST_COMPLETED)
            for task in (registering, *others):
                task.cancel()
        self._woken.set()  # it may have swallowed a change: look again
        if registering.cancelled():
            return True
        if not registering.result():
            return False
        self._move(Event.REGISTERED)
        if self._service.open_streams:
            self._stream_opened()
        elif self._lost_streams > lost_before:  # a kubelet that was faster with hanging up than with its answer
            self._stream_opened()
            self._stream_lost()
        return True

    async def _until_outdated(self, socket: Path, changes: Changes) -> None:
        """Until an attempt to register makes no sense any more: a kubelet dials a vanished socket for 10 s."""
        async for _ in changes:
            kubelet = await asyncio.to_thread(identify, self._paths.registration_socket)
            if kubelet != self._kubelet or not await asyncio.to_thread(socket.exists):
                return

    async def _pause(self, changes: Changes, delay_s: float | None) -> None:
        """Until something happened to our files or our state, or ``delay_s`` has passed."""
        await wait_first(self._woken.wait, changes.__anext__, timeout_s=delay_s)
        self._woken.clear()

    def _streams_changed(self) -> None:
        has_streams = self._service.open_streams > 0
        if has_streams == self._had_streams:
            return
        self._had_streams = has_streams
        if has_streams:
            self._stream_opened()
        else:
            self._stream_lost()
        self._woken.set()

    def _stream_opened(self) -> None:
        self._streaming_since = asyncio.get_running_loop().time()
        self._move(Event.STREAM_OPENED)

    def _stream_lost(self) -> None:
        self._lost_streams += 1
        was_streaming = self.state is State.STREAMING
        self._move(Event.STREAM_LOST)
        if was_streaming:
            if asyncio.get_running_loop().time() - self._streaming_since >= STEADY_S:
                self._backoff.reset()
            self._put_off()

    def _move(self, event: Event) -> None:
        before, self.state = self.state, TRANSITIONS[self.state][event]
        self._registrations += event is Event.REGISTERED
        if self.state is not before:
            self._state_since = asyncio.get_running_loop().time()
            logger.debug("%s: %s, %s -> %s", self.resource, event.value, before.value, self.state.value)
