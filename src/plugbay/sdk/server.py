"""Serves one plugin: its devices, its socket, its registration, until told to stop.

Serve first, then register: a kubelet dials back before it answers. A kubelet that restarts removes our socket and
makes its own anew; either sight begins a new incarnation or registration. Source: spec 1.4, 1.5, 2.4, 2.5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import PathUnusable, RegistrationRefused, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.sdk.assigned import restore_modes
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.sdk.counting import CountedService
from plugbay.sdk.discovery import Discovery
from plugbay.sdk.health import HealthMonitor
from plugbay.sdk.history import DeviceHistory, Looks
from plugbay.sdk.keeper import DRAIN_S, Keeper
from plugbay.sdk.life import Life
from plugbay.sdk.listing import Listing
from plugbay.sdk.modes import Modes
from plugbay.sdk.plugin import DevicePlugin, bind_refresh, gives_back, health_checks, offers, options_of, resource_of
from plugbay.sdk.preparation import set_up, tear_down
from plugbay.sdk.problems import check_attributes, misspelled_hooks
from plugbay.sdk.registration import FoundRegistration, Registrar
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import DEFAULT_RELEASE, ReleasePolicy, ReleaseSource
from plugbay.sdk.reporting import Report
from plugbay.sdk.routes import Route
from plugbay.sdk.service import PluginService
from plugbay.sdk.sockets import check_directory, is_directory, new_socket_path, remove_leftovers
from plugbay.sdk.states import Event, State
from plugbay.sdk.waiting import wait_first
from plugbay.sdk.watching import Watches
from plugbay.wire.plugin_versions import device_plugin_handlers
from plugbay.wire.pluginregistration import plugin_registration_handler
from plugbay.wire.transport import serve_grpc

if TYPE_CHECKING:
    from plugbay.sdk.cdi.publication import CdiPublication
    from plugbay.sdk.release.custody import Custody

logger = logging.getLogger(__name__)

SLOW_DISCOVERY_S: Final = 10.0


class PluginServer:
    """The life of one plugin, see `states`.

    Attributes:
        on_refusal: told each time a kubelet refuses the registration.
        plugin, paths, route: what is served, to whom and how.
        sockets: those made last.
        history: what became of the devices.
        counted: what the kubelet asked.
        custody: who has the devices; None for a plugin with nothing to do when a use is over.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        paths: KubeletPaths,
        route: Route = Route.KUBELET,
        *,
        cdi_directory: Path = CDI_DIRECTORY,
        shared: Shared | None = None,
    ) -> None:
        self.resource = resource_of(plugin)
        check_attributes(plugin)
        for sentence in misspelled_hooks(plugin):
            logger.warning("%s: %s", self.resource, sentence)
        self.stopping = asyncio.Event()
        self.on_refusal: Callable[[RegistrationRefused], None] | None = None
        self.plugin = plugin
        self.paths = paths
        self.route = route
        self.sockets: tuple[Path, ...] = ()
        self.history = DeviceHistory()
        self._listing = Listing(self._publish)
        self._life = Life(self.resource)
        self._cdi = _cdi_publication(plugin, cdi_directory, paths)
        shared = shared or Shared(DEFAULT_RELEASE, paths)
        source = shared.settings.source
        self._service = PluginService(
            plugin, self._streams_changed, self._listing.allocation_failed, self._cdi, source=source
        )
        self.custody = _custody(plugin, paths, shared, self._service)
        self.counted = CountedService(self._service)
        self._discovery = Discovery(plugin, self._listing, self._cdi)
        self._monitors = tuple(HealthMonitor(check, self._listing) for check in health_checks(plugin))
        self._keeper = Keeper(
            self._life,
            self._service,
            Registrar(paths.registration_socket, self._life, options_of(plugin, source), self._refused),
            kubelet=paths.registration_socket,
            route=route,
            stopping=self.stopping,
        )
        self._backoff = Backoff()
        self._last_problem = ""

    @property
    def state(self) -> State:
        return self._life.state

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
        problem = self._last_problem if self.looked.is_set() else self.looks.problem
        return replace(self._life.report, problem=problem)

    @property
    def life(self) -> Life:
        return self._life

    @property
    def looks(self) -> Looks:
        """How the runs of `discover` went."""
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
        await wait_first(self._set_up, self.stopping.wait)
        if self.state is State.SETTING_UP:
            self._life.move(Event.STOP_REQUESTED)
            return
        try:
            await self._serve(watches)
        finally:
            await tear_down(self.plugin)
        self._life.move(Event.TORN_DOWN)

    async def _set_up(self) -> None:
        await set_up(self.plugin, lambda: self._life.move(Event.SET_UP_FAILED))
        if self.plugin.modes is not None:
            await restore_modes(self.plugin.modes, self.paths)
        self._life.move(Event.SET_UP)

    async def _serve(self, watches: Watches) -> None:
        """Find devices and serve them on one socket after the other until `stop`, then drain."""
        loop = asyncio.get_running_loop()
        bind_refresh(self.plugin, lambda: loop.call_soon_threadsafe(self._discovery.refresh))
        try:
            if self.custody is not None:
                await self.custody.open(watches, self.stopping)
            async with asyncio.TaskGroup() as tasks:
                working = [tasks.create_task(self._discovery.run(watches), name=f"discover {self.resource}")]
                working += [tasks.create_task(each.run(), name=f"check {self.resource}") for each in self._monitors]
                if self.custody is not None:
                    working.append(tasks.create_task(self._service.releasing.run(), name=f"release {self.resource}"))
                if self._cdi is not None:
                    working.append(tasks.create_task(self._cdi.run(watches), name=f"CDI spec of {self.resource}"))
                if self.custody is not None:
                    working.append(tasks.create_task(self.custody.run(), name=f"ends of uses of {self.resource}"))
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
                if self.custody is not None:
                    self.custody.close()
        if self.state is not State.DRAINING:  # there was no socket
            self._life.move(Event.STOP_REQUESTED)
        self._life.move(Event.DRAINED)

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
        if not await wait_first(*waits, timeout_s=SLOW_DISCOVERY_S):
            logger.warning("%s: still looking for devices; not registered before there is a list", self.resource)
            await wait_first(*waits)
        if self.plugin.modes is not None and not self.stopping.is_set():
            await self._wait_for_other_modes(self.plugin.modes)

    async def _wait_for_other_modes(self, modes: Modes) -> None:
        """Until it is known which of our devices are in use as another resource."""
        modes.looked(self.resource)
        waits = (modes.until_looked, self.stopping.wait)
        if not await wait_first(*waits, timeout_s=SLOW_DISCOVERY_S) and (unseen := modes.unseen):
            logger.warning("%s: not registered before there is a list of %s", self.resource, ", ".join(unseen))
            await wait_first(*waits)

    # --- sockets ----------------------------------------------------------------------------------------------------

    async def _serve_incarnation(self, watches: Watches) -> None:
        """One socket for each route, from their making to their end."""
        try:
            for directory in self.route.directories(self.paths):
                if not await self._wait_for(directory, watches):
                    return
                await asyncio.to_thread(self._prepare, directory)
            await self._serve_sockets(watches)
        except PathUnusable as error:
            if str(error) != self._last_problem:  # the same one over and over is one line in the log
                logger.error("%s: %s", self.resource, error)
            self._last_problem = str(error)
            await wait_first(self.stopping.wait, timeout_s=self._backoff.next_delay_s())

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
                await wait_first(self.stopping.wait, changes.__anext__)
                if self.stopping.is_set():
                    return False
        return True

    async def _serve_sockets(self, watches: Watches) -> None:
        sockets = [new_socket_path(directory, self.resource) for directory in self.route.directories(self.paths)]
        async with AsyncExitStack() as up:
            self.sockets = tuple(sockets)
            self._service.accept_streams()
            self._keeper.begin()
            for socket in sockets:
                handlers = device_plugin_handlers(self.counted, self._service.heed)
                if socket.parent == self.paths.plugins_registry:
                    found = FoundRegistration(self.resource, self._keeper.asked, self._keeper.answered)
                    handlers += (plugin_registration_handler(found),)
                await up.enter_async_context(serve_grpc(socket, handlers, grace_s=DRAIN_S))
            # Not before: where files are only looked at now and then, one made and gone in between was never there.
            changes = up.enter_context(watches.watch([*sockets, *[self.paths.registration_socket] * self.route.calls]))
            self._backoff.reset()
            self._last_problem = ""
            # Before the servers stop: the kubelet learns by the end of the stream.
            up.push_async_callback(self._service.drain, DRAIN_S)
            if await self._keeper.keep(sockets, changes) is Event.SOCKET_LOST:
                logger.info("%s: our socket vanished; making a new one", self.resource)


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


def _custody(plugin: DevicePlugin, paths: KubeletPaths, shared: Shared, service: PluginService) -> Custody | None:
    if not (gives_back(plugin) or offers(plugin, "post_stop")):
        return None
    if shared.settings.source is ReleaseSource.OFF:
        if plugin.release_policy is ReleasePolicy.STRICT and offers(plugin, "release"):
            raise UsageError(
                f"{plugin.resource_name}: its devices are given clean or not at all; release cannot be off"
            )
        return None
    from plugbay.sdk.release.custody import Custody  # imported here: few plugins need it

    service.custody = Custody(plugin, paths, shared, service.releasing, service.send_again)
    return service.custody
