"""Follow each plugin from registration through its lists to its end, and to the end of its grace period."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from plugbay.allocation.table import DeviceTable
from plugbay.errors import PathTooLong, RegistrationRefused
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoint import ConnectedPlugins, Endpoint
from plugbay.manager.endpoints.notices import PluginChange, ResourceNotices
from plugbay.manager.endpoints.registration import OTHER, check_registration, label_of
from plugbay.manager.endpoints.unsaved import UnsavedChanges
from plugbay.manager.gates import Gate
from plugbay.manager.release.releases import Releases
from plugbay.manager.state import EndpointEvent, Expired, Live, ManagerState, Resource, Restored, Stopped
from plugbay.manager.store.commits import DeleteResource, SavePreStarts, SaveResource, Stored
from plugbay.manager.store.store import Store
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.ops.changes import Changes, Inbox
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Histogram, LabelCounter
from plugbay.wire.plugin_transport import PluginTransport
from plugbay.wire.registration import Registration

logger = logging.getLogger(__name__)

_PRE_STARTS: Final = "PreStartContainer"
"""The subject of a change that is about all resources."""


class Endpoints:
    """Connections by resource. The latest registration is the active one; only it changes the device state.

    A kubelet 1.36 ties the end of any stream to the resource, so that an old plugin's end takes a new one down
    (#121994); here each connection answers for itself, and if the active one ends, an older live one takes over.

    Attributes:
        on_repeated_list: called when a plugin sends the same list again.
        health_notices: pods whose devices changed health. A kubelet keeps 100 such notices and drops what does not fit
            (spec 3.4).
        resource_notices: changes of plugins and of the health of devices, whether pods hold them or not.
        registrations: number of Register calls by resource name, including refused calls; invalid names count as one.
        allocations: how long Allocate calls took, including failed calls.
    """

    def __init__(
        self,
        config: ManagerConfig,
        *,
        clock: Clock,
        store: Store,
        tasks: asyncio.TaskGroup,
        state: ManagerState,
        changes: Changes,
        releases: Releases,
        connected: ConnectedPlugins,
        transport: PluginTransport,
    ) -> None:
        self._config = config
        self._transport = transport
        self._clock = clock
        self._tasks = tasks
        self._state = state
        self._changes = changes
        self._releases = releases
        self._connected = connected
        self._waiting: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._pre_starts: frozenset[ResourceName] = frozenset()
        self._unsaved = UnsavedChanges(store, clock=clock, spawn=self._spawn)
        self._store_name = ""
        self.on_repeated_list: Callable[[], object] = lambda: None
        self.health_notices = Inbox[PodUid]()
        self.resource_notices = ResourceNotices()
        self.registrations = LabelCounter(OTHER)
        self.allocations: dict[ResourceName, Histogram] = {}

    def active(self, resource: ResourceName) -> Endpoint | None:
        return self._connected.active(resource)

    def restore(self, stored: Stored) -> None:
        """Take up the resources of the store: their plugins have the grace period to register again."""
        self._pre_starts, self._store_name = stored.pre_starts, stored.name
        for name in stored.resources:
            resource = self._state.resource(name)
            restored = resource.restore(self._clock.now(), wants_pre_start=name in self._pre_starts)
            resource.life.note(restored.since, EndpointEvent.RESTORED)
            self._spawn(self._expire_later(resource, restored))

    async def register(self, registration: Registration) -> None:
        """Answer a Register call; returns when the plugin is connected.

        Raises:
            RegistrationRefused: with the text for the plugin. What was registered before goes on.
        """
        self.registrations.count(label_of(registration))
        await self.connect(*check_registration(registration, self._config.paths.device_plugins))

    async def connect(self, resource: ResourceName, socket: Path) -> None:
        """Connect to a plugin that has been checked; returns when it is the active one.

        Raises:
            RegistrationRefused: with the text for the plugin. What was registered before goes on.
        """
        await self._transport.admit(resource, socket)
        try:
            endpoint = Endpoint(resource, socket, self._config, transport=self._transport, store=self._store_name)
        except PathTooLong as error:
            raise RegistrationRefused(f"failed to dial device plugin: {error}") from error
        await endpoint.connect()
        for replaced in await self._adopt(endpoint):
            await replaced.close()

    async def _adopt(self, endpoint: Endpoint) -> list[Endpoint]:
        """Make a plugin that has been dialled the active one of its resource; return those it has replaced."""
        await self._note_pre_start(endpoint.resource, is_wanted=endpoint.options.pre_start_required)
        replaced = self._connected.at(endpoint.resource, endpoint.socket)
        self._connected.add(endpoint)
        self._activate(endpoint, EndpointEvent.REGISTERED)
        self._spawn(self._follow(endpoint))
        logger.info("registered %s at %s", endpoint.resource, endpoint.socket.name)
        self.resource_notices.plugin(endpoint.resource, PluginChange.REGISTERED)
        return replaced

    def _counts(self, endpoint: Endpoint) -> bool:
        """Whether the lists of a connection are those of its resource."""
        return self.active(endpoint.resource) is endpoint

    async def allocate(self, endpoint: Endpoint, devices: Sequence[DeviceId]) -> bytes:
        """Call `Endpoint.allocate`, and measure how long it takes."""
        began = self._clock.monotonic()
        try:
            return await endpoint.allocate(devices)
        finally:
            taken = self.allocations.setdefault(endpoint.resource, Histogram())
            taken.observe(self._clock.monotonic() - began)

    async def disconnect(self, resource: ResourceName, socket: Path) -> None:
        """Drop the connection to ``socket``, if there is one; other plugins of the resource go on.

        A kubelet 1.36 drops whatever is connected for the resource; 1.37 does as we do.
        """
        for endpoint in self._connected.at(resource, socket):
            self._disconnected(endpoint)
            await endpoint.close()

    async def close(self) -> None:
        """Close every connection and cancel every wait; the devices of all plugins turn unhealthy."""
        self._is_closing = True
        while self._waiting:  # a connection that ends starts its grace period
            for task in self._waiting:
                task.cancel()
            await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _follow(self, endpoint: Endpoint) -> None:
        before: DeviceTable | None = None
        life = self._state.resource(endpoint.resource).life
        try:
            async for table in endpoint.tables():
                if table is before:  # from an older plugin too: it may wait for the checkpoint
                    self.on_repeated_list()
                    self._changes.notify()
                if before is None:
                    life.note(self._clock.now(), EndpointEvent.LISTED, endpoint.socket.name)
                before = table
                if self._counts(endpoint):
                    resource = self._state.resource(endpoint.resource)
                    is_first = resource.table is None
                    self._replace_table(resource, table)
                    self._changes.notify()
                    if is_first:
                        await self._save(endpoint.resource, SaveResource(endpoint.resource))
        finally:
            life.note(self._clock.now(), EndpointEvent.ENDED, endpoint.socket.name)
            self._disconnected(endpoint)
            await endpoint.close()

    def _activate(self, endpoint: Endpoint, event: EndpointEvent) -> None:
        resource = self._state.resource(endpoint.resource)
        resource.life.note(self._clock.now(), event, endpoint.socket.name)
        resource.endpoint = Live(endpoint.socket.name, self._clock.now(), endpoint.options)
        if endpoint.table is not None:
            self._replace_table(resource, endpoint.table)
        self._releases.plugin_changed(resource.name)
        self._changes.notify()

    def _replace_table(self, resource: Resource, table: DeviceTable) -> None:
        before = resource.unhealthy_claims
        self.resource_notices.devices(resource.name, resource.table or resource.expired_table, table)
        resource.replace_table(table)
        self._releases.devices_listed(resource.name)
        changed = before ^ resource.unhealthy_claims
        if changed and self._config.gates.is_enabled(Gate.RESOURCE_HEALTH_STATUS):
            self.health_notices.put(self._state.holders(resource.name, changed))

    def _disconnected(self, endpoint: Endpoint) -> None:
        if not self._connected.remove(endpoint):
            return
        if (older := self._connected.active(endpoint.resource)) is not None:
            logger.info(
                "plugin of %s at %s is gone; an older plugin of the resource takes over",
                endpoint.resource,
                endpoint.socket.name,
            )
            self._activate(older, EndpointEvent.TOOK_OVER)
            return
        if not self._is_closing:  # then the manager stops, not the plugin
            logger.warning(
                "plugin of %s at %s is gone; its devices are unhealthy until it registers again",
                endpoint.resource,
                endpoint.socket.name,
            )
            self.resource_notices.plugin(endpoint.resource, PluginChange.STOPPED)
        resource = self._state.resource(endpoint.resource)
        stopped = resource.disconnect(self._clock.now())
        self._changes.notify()
        self._spawn(self._expire_later(resource, stopped))

    async def _expire_later(self, resource: Resource, endpoint: Stopped | Restored) -> None:
        waited_s = (self._clock.now() - endpoint.since).total_seconds()
        await self._clock.sleep(self._config.grace_period_s - waited_s)
        if resource.endpoint is not endpoint:
            return  # it came back
        logger.warning(
            "plugin of %s did not register again in time; its devices no longer count until it does", resource.name
        )
        self.resource_notices.plugin(resource.name, PluginChange.GONE)
        resource.life.note(self._clock.now(), EndpointEvent.GONE)
        resource.expire()
        self._changes.notify()
        await self._save(resource.name, DeleteResource(resource.name))
        if isinstance(resource.endpoint, Expired):  # or it came back while that was stored
            await self._note_pre_start(resource.name, is_wanted=False)

    async def _note_pre_start(self, resource: ResourceName, *, is_wanted: bool) -> None:
        """Record whether the plugin wants PreStartContainer, before it is used: after a restart of ours a container may
        start before the plugin is back.

        If that fails, it is tried again at intervals until it succeeds.
        """
        if is_wanted is not (resource in self._pre_starts):
            self._pre_starts ^= {resource}
            self._unsaved.put(_PRE_STARTS, SavePreStarts(self._pre_starts))
        await self._unsaved.save(_PRE_STARTS)

    async def _save(self, resource: ResourceName, change: SaveResource | DeleteResource) -> None:
        self._unsaved.put(resource, change)
        await self._unsaved.save(resource)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
