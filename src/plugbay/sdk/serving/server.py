"""Serves one plugin: its devices, its socket, its registration, until told to stop.

Serve first, then register: a kubelet dials back before it answers. A kubelet that restarts removes our socket and
makes its own anew; either sight begins a new incarnation or registration. Source: spec 1.4, 1.5, 2.4, 2.5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import PathUnusable, RegistrationRefused, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import first
from plugbay.sdk.assigned import restore_modes
from plugbay.sdk.author.mistakes import check_attributes
from plugbay.sdk.author.modes import Modes
from plugbay.sdk.author.near_misses import near_hooks
from plugbay.sdk.author.plugin import (
    DevicePlugin,
    bind_refresh,
    gives_back,
    health_checks,
    offers,
    options_of,
    resource_of,
)
from plugbay.sdk.author.release_settings import DEFAULT_RELEASE, ReleasePolicy, ReleaseSource
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.sdk.discovery.discovery import Discovery
from plugbay.sdk.discovery.history import DeviceHistory, Looks
from plugbay.sdk.discovery.listing import Listing
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.serving.counting import CountedService
from plugbay.sdk.serving.handover import Handover
from plugbay.sdk.serving.keeper import DRAIN_S, Keeper
from plugbay.sdk.serving.life import PluginLife
from plugbay.sdk.serving.preparation import set_up, tear_down
from plugbay.sdk.serving.registration import FoundRegistration, Registrar
from plugbay.sdk.serving.reporting import ServingReport
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.sdk.serving.service import PluginService
from plugbay.sdk.serving.states import LifeEvent, State, shown
from plugbay.sdk.sockets import check_directory, is_directory, new_socket_path, remove_leftovers, sockets_of
from plugbay.sdk.watching import Watches
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.handover import handover_handler
from plugbay.wire.plugin_server import Caller
from plugbay.wire.plugin_versions import device_plugin_handlers
from plugbay.wire.pluginregistration import plugin_registration_handler

if TYPE_CHECKING:
    from plugbay.sdk.cdi.publication import CdiPublication
    from plugbay.sdk.health.monitor import HealthMonitor
    from plugbay.sdk.release.release import Release

logger = logging.getLogger(__name__)

SLOW_DISCOVERY_S: Final = 10.0


class PluginServer:
    """The server of one plugin, from its setting up to its end; see `states`.

    Attributes:
        on_refusal: is called each time a kubelet refuses the registration.
        plugin, paths, route: the plugin, its kubelet, and the way of registration.
        sockets: those made last.
        history: the history of the devices.
        counted: counts the kubelet's calls.
        release: the uses of the devices; None for a plugin with nothing to do when a use is over.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        paths: KubeletPaths,
        route: RegistrationRoute = RegistrationRoute.KUBELET,
        *,
        cdi_directory: Path = CDI_DIRECTORY,
        shared: Shared | None = None,
    ) -> None:
        self.resource = resource_of(plugin)
        check_attributes(plugin)
        self.stopping = asyncio.Event()
        self.on_refusal: Callable[[RegistrationRefused], None] | None = None
        self.plugin = plugin
        self.paths = paths
        self.route = route
        self.sockets: tuple[Path, ...] = ()
        self.history = DeviceHistory()
        self._listing = Listing(self._publish)
        self._life = PluginLife(self.resource)
        self._cdi = _cdi_publication(plugin, cdi_directory, paths)
        shared = shared or Shared(DEFAULT_RELEASE, paths)
        source = shared.settings.source
        self._service = PluginService(
            plugin, self._streams_changed, self._listing.allocation_failed, self._cdi, source=source
        )
        self.release = _release(plugin, paths, shared, self._service)
        self._service.quiet = shared.quiet if self.release is None else None
        self._pod_lists = shared.pod_lists
        self.counted = CountedService(self._service)
        self._discovery = Discovery(plugin, self._listing, self._cdi)
        self._monitors = _monitors_of(plugin, self._listing)
        self._handover = Handover(self.resource)
        self._keeper = Keeper(
            self._life,
            self._service,
            Registrar(paths.registration_socket, self._life, options_of(plugin, source), self._refused),
            self._handover,
            kubelet=paths.registration_socket,
            route=route,
            stopping=self.stopping,
        )
        self._backoff = Backoff(RETRIES)
        self._last_problem = ""

    @property
    def state(self) -> State:
        """The state that onlookers are told."""
        return shown(self._life.state)

    @property
    def looked(self) -> asyncio.Event:
        """Set once there is a list of devices, be it empty."""
        return self._discovery.found

    @property
    def device_count(self) -> int:
        return len(self._listing.devices)

    @property
    def report(self) -> ServingReport:
        """A report on the plugin now."""
        problem = self._last_problem if self.looked.is_set() else self.looks.problem
        return replace(self._life.report, problem=problem)

    @property
    def life(self) -> PluginLife:
        return self._life

    @property
    def looks(self) -> Looks:
        """The runs of `discover`, and how they went."""
        return self._discovery.looks

    def reload(self) -> None:
        """Look for devices again and register again, as on SIGHUP."""
        self._discovery.refresh("SIGHUP")
        self._keeper.ask_anew()

    def stop(self) -> None:
        self.stopping.set()
        self._keeper.wake()

    async def run(self, watches: Watches) -> None:
        """Set up, serve until `stop`, then drain and tear down."""
        self._life.begin()
        with nullcontext() if self.plugin.modes is None else self.plugin.modes.looking(self.resource):
            await self._run(watches)

    async def _run(self, watches: Watches) -> None:
        for near in near_hooks(type(self.plugin)):
            logger.warning("%s: %s", self.resource, near)
        await first(self._set_up(), self.stopping.wait())
        if self.state is State.SETTING_UP:
            self._life.move(LifeEvent.STOP_REQUESTED)
            return
        try:
            await self._serve(watches)
        finally:
            await tear_down(self.plugin)
        self._life.move(LifeEvent.TORN_DOWN)

    async def _set_up(self) -> None:
        await set_up(self.plugin, lambda: self._life.move(LifeEvent.SET_UP_FAILED))
        if self.plugin.modes is not None:
            await restore_modes(self.plugin.modes, self.paths)
        self._life.move(LifeEvent.SET_UP)

    async def _serve(self, watches: Watches) -> None:
        """Find devices and serve them on one socket after the other until `stop`, then drain."""
        loop = asyncio.get_running_loop()
        bind_refresh(self.plugin, lambda: loop.call_soon_threadsafe(self._discovery.refresh))
        try:
            if self.release is not None:
                await self.release.open(watches, self.stopping)
            async with asyncio.TaskGroup() as tasks:
                working = [tasks.create_task(self._discovery.run(watches), name=f"discover {self.resource}")]
                working += [tasks.create_task(each.run(), name=f"check {self.resource}") for each in self._monitors]
                if self.release is not None:
                    working.append(tasks.create_task(self._service.releasing.run(), name=f"release {self.resource}"))
                if self._cdi is not None:
                    working.append(tasks.create_task(self._cdi.run(watches), name=f"CDI spec of {self.resource}"))
                if self.release is not None:
                    working.append(tasks.create_task(self.release.run(), name=f"ends of uses of {self.resource}"))
                await self._wait_for_devices()
                while not self.stopping.is_set():
                    await self._serve_incarnation(watches)
                for task in working:
                    task.cancel()
        finally:
            self._listing.close()
            bind_refresh(self.plugin, None)
            try:
                if self._cdi is not None:
                    await self._cdi.close()
            finally:
                if self.release is not None:
                    self.release.close()
        if self.state is not State.DRAINING:  # there was no socket
            self._life.move(LifeEvent.STOP_REQUESTED)
        self._life.move(LifeEvent.DRAINED)

    def _refused(self, error: RegistrationRefused) -> None:
        if self.on_refusal is not None:
            self.on_refusal(error)

    def _publish(self, devices: Iterable[Device]) -> None:
        self._service.publish(devices)
        self.history.offered(devices)

    def _streams_changed(self) -> None:
        self._keeper.streams_changed()

    async def _wait_for_devices(self) -> None:
        waits = (self._discovery.found.wait, self.stopping.wait)
        if not await first(*(wait() for wait in waits), timeout_s=SLOW_DISCOVERY_S):
            logger.warning(
                "%s: still looking for devices; the plugin is not registered before there is a list", self.resource
            )
            await first(*(wait() for wait in waits))
        if self.plugin.modes is not None and not self.stopping.is_set():
            await self._wait_for_other_modes(self.plugin.modes)

    async def _wait_for_other_modes(self, modes: Modes) -> None:
        """Wait until it is known which of our devices are in use as another resource."""
        modes.looked(self.resource)
        waits = (modes.until_looked, self.stopping.wait)
        if not await first(*(wait() for wait in waits), timeout_s=SLOW_DISCOVERY_S) and (unseen := modes.unseen):
            logger.warning(
                "%s: the plugin is not registered before there is a list of %s, which share its hardware",
                self.resource,
                ", ".join(unseen),
            )
            await first(*(wait() for wait in waits))

    # --- sockets ----------------------------------------------------------------------------------------------------

    async def _serve_incarnation(self, watches: Watches) -> None:
        """Serve one socket for each route, from their making to their end."""
        try:
            for directory in self.route.directories(self.paths):
                if not await self._wait_for(directory, watches):
                    return
                await asyncio.to_thread(self._prepare, directory)
            await self._serve_sockets(watches)
        except PathUnusable as error:
            if str(error) != self._last_problem:  # the same one over and over is one line in the log
                logger.error("%s: cannot serve a socket, and tries again: %s", self.resource, error)
            self._last_problem = str(error)
            await first(self.stopping.wait(), timeout_s=self._backoff.next_delay_s())

    def _prepare(self, directory: Path) -> None:
        check_directory(directory)
        remove_leftovers(directory, self.resource)

    async def _wait_for(self, directory: Path, watches: Watches) -> bool:
        """Wait until a kubelet has made ``directory``; returns False when told to stop."""
        if await asyncio.to_thread(is_directory, directory):
            return True
        with watches.watch([directory]) as changes:
            logger.warning("%s: there is no kubelet yet (%s is missing); waiting for one", self.resource, directory)
            while not await asyncio.to_thread(is_directory, directory):
                await first(self.stopping.wait(), changes.__anext__())
                if self.stopping.is_set():
                    return False
        return True

    def _heed(self, caller: Caller) -> None:
        self._pod_lists.heed(caller)
        self._service.heed(caller)

    async def _serve_sockets(self, watches: Watches) -> None:
        sockets = [new_socket_path(directory, self.resource) for directory in self.route.directories(self.paths)]
        async with AsyncExitStack() as up:
            self.sockets = tuple(sockets)
            self._service.accept_streams()
            self._keeper.begin()
            for socket in sockets:
                handlers = (
                    *device_plugin_handlers(self.counted, self._heed),
                    handover_handler(self._handover.stand_by),
                )
                if socket.parent == self.paths.plugins_registry:
                    found = FoundRegistration(self.resource, self._handover, self._keeper.asked, self._keeper.answered)
                    handlers += (plugin_registration_handler(found),)
                await up.enter_async_context(serve_grpc(socket, handlers, grace_s=DRAIN_S))
            # Not before: of two processes that begin together, one has to find the other.
            await up.enter_async_context(self._handover.looking(lambda: self._others(sockets)))
            # Not before: where files are only looked at now and then, one made and gone in between was never there.
            changes = up.enter_context(watches.watch([*sockets, *[self.paths.registration_socket] * self.route.calls]))
            self._backoff.reset()
            self._last_problem = ""
            # Before the servers stop: the kubelet learns by the end of the stream.
            up.push_async_callback(self._service.drain, DRAIN_S)
            up.callback(self._handover.let_go)
            if await self._keeper.keep(sockets, changes) is LifeEvent.SOCKET_LOST:
                logger.info("%s: our socket vanished; making a new one", self.resource)

    def _others(self, own: Sequence[Path]) -> list[Path]:
        """The sockets of other processes that serve the resource, whichever way they register."""
        directories = (self.paths.device_plugins, self.paths.plugins_registry)
        return [path for each in directories for path in sockets_of(each, self.resource) if path not in own]


def _monitors_of(plugin: DevicePlugin, listing: Listing) -> tuple[HealthMonitor, ...]:
    checks = health_checks(plugin)
    if not checks:
        return ()
    from plugbay.sdk.health.monitor import HealthMonitor  # imported here: it can start processes, and few plugins check

    return tuple(HealthMonitor(check, listing) for check in checks)


def _cdi_publication(plugin: DevicePlugin, directory: Path, paths: KubeletPaths) -> CdiPublication | None:
    if plugin.cdi_kind is None:
        return None
    # Imported here: it reads YAML, for which most plugins have no use.
    from plugbay.sdk.cdi.publication import CdiPublication

    return CdiPublication(
        resource_of(plugin),
        kind=plugin.cdi_kind,
        how=plugin.cdi_answer,
        join_env=plugin.join_env,
        directory=directory,
        paths=paths,
    )


def _release(plugin: DevicePlugin, paths: KubeletPaths, shared: Shared, service: PluginService) -> Release | None:
    if not (gives_back(plugin) or offers(plugin, "post_stop")):
        return None
    if shared.settings.source is ReleaseSource.OFF:
        if plugin.release_policy is ReleasePolicy.STRICT and offers(plugin, "release"):
            raise UsageError(
                f"{plugin.resource_name}: its devices are given clean or not at all; release cannot be off"
            )
        return None
    from plugbay.sdk.release.release import Release  # imported here: few plugins need it

    service.release = Release(
        plugin, paths, shared, service.releasing, starting=service.starting, resend=service.send_again
    )
    return service.release
