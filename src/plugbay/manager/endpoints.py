"""The plugins connected now: registration, lists, death, and the time they have to come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from plugbay.allocation.table import DeviceTable
from plugbay.errors import PathTooLong, RegistrationRefused, StoreUnusable
from plugbay.manager.commits import Change, DeleteResource, SavePreStarts, SaveResource, Stored
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.gates import Gate
from plugbay.manager.health import HealthNotices
from plugbay.manager.registration import OTHER, check_registration, label_of
from plugbay.manager.releases import Releases
from plugbay.manager.resource_notices import PluginChange, ResourceNotices
from plugbay.manager.state import Expired, Live, ManagerState, Resource, Restored, Stopped
from plugbay.manager.store import Store
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Histogram, LabelCounter
from plugbay.wire.registration import Registration

logger = logging.getLogger(__name__)


class Endpoints:
    """Connections by resource. The latest registration is the active one; only it changes the device state.

    A kubelet 1.36 ties the end of any stream to the resource, so that an old plugin's end takes a new one down
    (#121994); here each connection answers for itself, and if the active one ends, an older live one takes over.

    Attributes:
        on_repeated_list: called when a plugin sent the list that it had sent before.
        health_notices: pods told of a change by the list of a plugin.
        resource_notices: what happens to plugins and to the health of devices, held by pods or not.
        registrations: calls of Register by resource name, refused ones too; names that are not valid count as one.
        allocations: how long calls of Allocate took, failed ones too.
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
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._tasks = tasks
        self._state = state
        self._changes = changes
        self._releases = releases
        self._connected: dict[ResourceName, list[Endpoint]] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._pre_starts: frozenset[ResourceName] = frozenset()
        self._store_name = ""
        self.on_repeated_list: Callable[[], object] = lambda: None
        self.health_notices = HealthNotices()
        self.resource_notices = ResourceNotices()
        self.registrations = LabelCounter(OTHER)
        self.allocations: dict[ResourceName, Histogram] = {}

    def active(self, resource: ResourceName) -> Endpoint | None:
        connected = self._connected.get(resource)
        return connected[-1] if connected else None

    def restore(self, stored: Stored) -> None:
        """Resources known from the store: they have the grace period to register again."""
        self._pre_starts, self._store_name = stored.pre_starts, stored.name
        for name in stored.resources:
            resource = self._state.resource(name)
            restored = resource.restore(self._clock.now(), wants_pre_start=name in self._pre_starts)
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
        try:
            endpoint = Endpoint(resource, socket, self._config, store=self._store_name)
        except PathTooLong as error:
            raise RegistrationRefused(f"failed to dial device plugin: {error}") from error
        await endpoint.connect()
        await self._note_pre_start(resource, is_wanted=endpoint.options.pre_start_required)
        connected = self._connected.setdefault(resource, [])
        replaced = [other for other in connected if other.socket == socket]
        connected[:] = [other for other in connected if other.socket != socket] + [endpoint]
        self._activate(endpoint)
        self._spawn(self._follow(endpoint))
        logger.info("registered %s at %s", resource, socket.name)
        self.resource_notices.plugin(resource, PluginChange.REGISTERED)
        for other in replaced:
            await other.close()

    async def allocate(self, endpoint: Endpoint, devices: Sequence[DeviceId]) -> bytes:
        """As `Endpoint.allocate`, timed."""
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
        for endpoint in [other for other in self._connected.get(resource, []) if other.socket == socket]:
            self._disconnected(endpoint)
            await endpoint.close()

    async def close(self) -> None:
        """Close every connection and end what waits; the devices of all plugins turn unhealthy."""
        self._is_closing = True
        while self._waiting:  # a connection that ends starts its grace period
            for task in self._waiting:
                task.cancel()
            await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _follow(self, endpoint: Endpoint) -> None:
        before: DeviceTable | None = None
        try:
            async for table in endpoint.tables():
                if table is before:  # of an older plugin too: it may wait for the checkpoint
                    self.on_repeated_list()
                    self._changes.notify()
                before = table
                if self.active(endpoint.resource) is endpoint:
                    resource = self._state.resource(endpoint.resource)
                    is_first = resource.table is None
                    self._replace_table(resource, table)
                    self._changes.notify()
                    if is_first:
                        await self._save(SaveResource(endpoint.resource))
        finally:
            self._disconnected(endpoint)
            await endpoint.close()

    def _activate(self, endpoint: Endpoint) -> None:
        resource = self._state.resource(endpoint.resource)
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
        connected = self._connected.get(endpoint.resource, [])
        if endpoint not in connected:
            return  # replaced by a registration of the same socket
        was_active = connected[-1] is endpoint
        connected.remove(endpoint)
        if not was_active:
            return
        if connected:
            logger.info(
                "plugin of %s at %s is gone; an older plugin takes over", endpoint.resource, endpoint.socket.name
            )
            self._activate(connected[-1])
            return
        if not self._is_closing:  # then it is us who go
            logger.warning("plugin of %s at %s is gone", endpoint.resource, endpoint.socket.name)
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
        logger.warning("plugin of %s did not come back; its devices no longer count", resource.name)
        self.resource_notices.plugin(resource.name, PluginChange.GONE)
        resource.expire()
        self._changes.notify()
        await self._save(DeleteResource(resource.name))
        if isinstance(resource.endpoint, Expired):  # or it came back while that was stored
            await self._note_pre_start(resource.name, is_wanted=False)

    async def _note_pre_start(self, resource: ResourceName, *, is_wanted: bool) -> None:
        """Before it can be asked for: a container may start before the plugin is back when we are restarted."""
        if is_wanted is not (resource in self._pre_starts):
            self._pre_starts ^= {resource}
            await self._save(SavePreStarts(self._pre_starts))

    async def _save(self, change: Change) -> None:
        try:
            await self._store.commit([change])
        except StoreUnusable as error:
            logger.error("cannot record %s: %s", change, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
