"""Connections to plugins: what a plugin offers, and the calls to it, each with a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from plugbay.allocation.choose import Preference
from plugbay.allocation.table import DeviceTable
from plugbay.errors import (
    AllocateFailed,
    AllocateUnsettled,
    NoContainerResponse,
    PreferredAllocationFailed,
    PreStartFailed,
    RegistrationRefused,
    RpcCode,
    RpcFailed,
)
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import Gate
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.releases import Operation, OperationKind
from plugbay.wire.device_list import ChangedDevices, NewList
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.plugin_server import KEEPS_PLUGINS_APART, LISTS_ONLY_READ, PROMISE, STORE
from plugbay.wire.plugin_transport import PluginTransport

logger = logging.getLogger(__name__)

_UNKNOWN_OUTCOMES: Final = frozenset({RpcCode.DEADLINE_EXCEEDED, RpcCode.UNAVAILABLE, RpcCode.CANCELLED})
_UNREADABLE: Final = ("grpc: failed to unmarshal the received message", "grpc: received message larger than max")
"""Our client's words for an answer that it cannot read, or that is too long: the plugin has done what it was asked."""


class Endpoint:
    """A registered plugin's connection, from registration to the end of its stream.

    Args:
        transport: the way to the plugin.
        store: names our store, for the plugin.

    Attributes:
        resource: the resource it serves.
        socket: its socket.
        options: the calls it wants; set by `connect`, and fewer once a method turns out to be missing.
        release_slots: limits how many calls of `release` it has at a time.
        table: its last list; None before the first list.
    """

    def __init__(
        self,
        resource: ResourceName,
        socket: Path,
        config: ManagerConfig,
        *,
        transport: PluginTransport,
        store: str = "",
    ) -> None:
        self.resource = resource
        self.socket = socket
        self.options = PluginOptions()
        self.table: DeviceTable | None = None
        self.release_slots = asyncio.Semaphore(config.release.parallel)
        self._config = config
        self._store = store
        self._client = PluginClient(socket, transport)

    async def connect(self) -> None:
        """Dial and ask for the options; the connection is closed when that fails.

        Raises:
            RegistrationRefused: with the kubelet's text.
        """
        try:
            await self._dial()
            self.options = await self._ask_options()
        except BaseException:
            await self.close()
            raise

    async def _dial(self) -> None:
        try:
            await self._client.connect(self._config.dial_timeout_s)
        except TimeoutError:
            raise RegistrationRefused("failed to dial device plugin: context deadline exceeded") from None

    async def _ask_options(self) -> PluginOptions:
        try:
            return await self._client.options(timeout_s=self._config.call_timeout_s)
        except RpcFailed as error:
            raise RegistrationRefused(f"failed to get device plugin options: {error}") from error

    async def close(self) -> None:
        await self._client.close()

    async def tables(self) -> AsyncIterator[DeviceTable]:
        """The device table after each list. Ends when the stream ends, however it ends."""
        try:
            async with aclosing(self._client.newest_lists(self._what_we_are())) as lists:
                async for update in lists:
                    self.table = _next_table(self.table, update)
                    yield self.table
        except RpcFailed as error:
            logger.info("stream of %s at %s ended: %s", self.resource, self.socket, error)

    def _what_we_are(self) -> Mapping[str, str]:
        """Metadata by which a plugin sees that we are not a kubelet, and what we promise."""
        promise = PROMISE if self._will_call else {}
        return {**promise, **({STORE: self._store} if self._store else {}), **LISTS_ONLY_READ, **KEEPS_PLUGINS_APART}

    @property
    def _will_call(self) -> bool:
        """Whether the plugin is told when uses of its devices end."""
        wants_calls = self.options.post_stop_required or self.options.deallocate_required
        return wants_calls and self._config.gates.is_enabled(Gate.DEVICE_MANAGER_DEALLOCATE)

    async def preferred_allocation(self, question: Preference) -> tuple[DeviceId, ...]:
        try:
            return await self._client.preferred_allocation(
                question.available, question.must_include, question.size, timeout_s=self._config.call_timeout_s
            )
        except RpcFailed as error:
            raise PreferredAllocationFailed(self.resource, str(error)) from error

    async def allocate(self, devices: Sequence[DeviceId]) -> bytes:
        """Call Allocate; return the encoded container response for ``devices``.

        If the plugin cancels the call and stays connected, as a flooded server does, the call is made once more. That
        is safe: a kubelet, too, may ask twice for the same devices, and the second answer counts.

        Raises:
            AllocateUnsettled: the plugin may have allocated them nevertheless.
            AllocateFailed: it refused.
            NoContainerResponse: it agreed, and gave nothing.
        """
        may_be_allocated = False
        try:
            try:
                response = await self._client.allocate(devices, timeout_s=self._config.call_timeout_s)
            except RpcFailed as error:
                if error.code is not RpcCode.CANCELLED or not self._client.is_connected:
                    raise
                logger.warning("plugin of %s cancelled a call of Allocate; calling it once more", self.resource)
                may_be_allocated = True
                response = await self._client.allocate(devices, timeout_s=self._config.call_timeout_s)
        except RpcFailed as error:
            failure = AllocateUnsettled if may_be_allocated or may_have_happened(error) else AllocateFailed
            raise failure(self.resource, str(error)) from error
        if response is None:
            raise NoContainerResponse(self.resource)
        return response.encoded

    async def release(self, operation: Operation, *, timeout_s: float) -> None:
        """Call PostStopContainer or Deallocate.

        Raises:
            RpcFailed: it is not confirmed.
        """
        match operation.kind:
            case OperationKind.POST_STOP:
                await self._client.post_stop_container(operation.devices, operation.id, timeout_s=timeout_s)
            case OperationKind.DEALLOCATE:
                await self._client.deallocate(operation.devices, operation.id, operation.reason, timeout_s=timeout_s)

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        try:
            await self._client.pre_start_container(devices, timeout_s=self._config.pre_start_timeout_s)
        except RpcFailed as error:
            raise PreStartFailed(self.resource, str(error)) from error


class ConnectedPlugins:
    """The connections by resource. If a resource has several, the latest is the active one."""

    def __init__(self) -> None:
        self._by_resource: dict[ResourceName, list[Endpoint]] = {}

    def active(self, resource: ResourceName) -> Endpoint | None:
        connected = self._by_resource.get(resource)
        return connected[-1] if connected else None

    def at(self, resource: ResourceName, socket: Path) -> list[Endpoint]:
        """The connections to one socket."""
        return [each for each in self._by_resource.get(resource, ()) if each.socket == socket]

    def add(self, endpoint: Endpoint) -> None:
        """Make ``endpoint`` the active connection, in place of other connections to its socket."""
        others = [each for each in self._by_resource.get(endpoint.resource, ()) if each.socket != endpoint.socket]
        self._by_resource[endpoint.resource] = [*others, endpoint]

    def remove(self, endpoint: Endpoint) -> bool:
        """Drop a connection that has ended; return whether it was the active one."""
        connected = self._by_resource.get(endpoint.resource, [])
        if endpoint not in connected:
            return False  # replaced by a registration of the same socket
        was_active = connected[-1] is endpoint
        connected.remove(endpoint)
        return was_active


def _next_table(before: DeviceTable | None, update: NewList | ChangedDevices) -> DeviceTable:
    match update:
        case NewList(devices):
            return DeviceTable.of(devices)
        case ChangedDevices(devices) if not devices and before is not None:
            return before  # the list is the same: readers compare tables by identity
        case ChangedDevices(devices):
            return (before or DeviceTable.of(())).with_changes(devices)


def may_have_happened(error: RpcFailed) -> bool:
    """Whether the plugin may have carried out a call that failed so; it did not carry out a call that it refused."""
    return error.code in _UNKNOWN_OUTCOMES or error.detail.startswith(_UNREADABLE)
