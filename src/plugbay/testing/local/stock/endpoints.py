"""Plugins as a stock kubelet follows them: how it answers Register, what it asks, and what the end of a stream does.

Source: `versions.QUIRKS`, where each line names its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plugbay.errors import PathTooLong, RegistrationRefused, quote
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.endpoints.registration import label_of
from plugbay.manager.endpoints.versions import accept_version
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import DeviceId, ResourceName, is_extended_resource
from plugbay.testing.local.stock.versions import Quirk
from plugbay.wire.convert import without_cdi_devices
from plugbay.wire.registration import Registration

logger = logging.getLogger(__name__)


class StockEndpoint(Endpoint):
    """A connection that tells the plugin nothing about us.

    Args:
        quirks: of the kubelet.
        registered: the options of its Register request, where they are what counts.
    """

    def __init__(
        self, *args: Any, quirks: Collection[Quirk], registered: PluginOptions | None = None, **keywords: Any
    ) -> None:
        super().__init__(*args, **keywords)
        self._quirks = quirks
        self._registered = registered

    async def allocate(self, devices: Sequence[DeviceId]) -> bytes:
        """See `Endpoint.allocate`."""
        response = await super().allocate(devices)
        return without_cdi_devices(response) if Quirk.NO_CDI_DEVICES in self._quirks else response

    async def _ask_options(self) -> PluginOptions:
        asked = await super()._ask_options() if self._registered is None else self._registered
        return replace(asked, post_stop_required=False, deallocate_required=False)

    def _what_we_are(self) -> Mapping[str, str]:
        return {}


class StockEndpoints(Endpoints):
    """Connections by resource, with ``quirks``.

    Where the end of any stream is taken for that of the resource's newest plugin, a failed registration makes the
    kubelet forget which that is, until one succeeds: no end is noticed until then.
    """

    def __init__(self, *args: Any, quirks: Collection[Quirk], **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._quirks = quirks
        self._forgotten: set[ResourceName] = set()

    async def register(self, registration: Registration) -> None:
        """See `Endpoints.register`."""
        self.registrations.count(label_of(registration))
        accept_version(registration.version)
        if not is_extended_resource(registration.resource_name):
            raise RegistrationRefused(f"the ResourceName {quote(registration.resource_name)} is invalid")
        resource = ResourceName(registration.resource_name)
        socket = _joined(self._config.paths.device_plugins, registration.endpoint)
        options = registration.options if Quirk.OPTIONS_OF_REGISTER in self._quirks else None
        if Quirk.ANSWERS_BEFORE_DIALLING in self._quirks:
            self._spawn(self._connect_later(resource, socket, options))
        else:
            await self._connect(resource, socket, options)

    async def connect(self, resource: ResourceName, socket: Path) -> None:
        """See `Endpoints.connect`; for the plugin watcher."""
        await self._connect(resource, socket, None)

    async def disconnect(self, resource: ResourceName, socket: Path) -> None:
        """See `Endpoints.disconnect`."""
        active = self.active(resource)
        if Quirk.NEWEST_ALONE not in self._quirks or active is None:
            await super().disconnect(resource, socket)
        else:
            self._disconnected(active)
            await active.close()

    async def _connect_later(self, resource: ResourceName, socket: Path, options: PluginOptions | None) -> None:
        try:
            await self._connect(resource, socket, options)
        except RegistrationRefused as error:
            logger.warning("plugin of %s at %s was told that it is registered, and is not: %s", resource, socket, error)

    async def _connect(self, resource: ResourceName, socket: Path, options: PluginOptions | None) -> None:
        try:
            if Quirk.REFUSES_CONNECTED_SOCKET in self._quirks and self._connected.at(resource, socket):
                raise RegistrationRefused(f"device plugin already connected: {socket}")
            endpoint = await self._dialled(resource, socket, options)
        except RegistrationRefused:
            if Quirk.FAILURE_FORGETS_FORMER in self._quirks:
                self._forgotten.add(resource)
            raise
        self._forgotten.discard(resource)
        if Quirk.NEWEST_ALONE in self._quirks:
            while (older := self.active(resource)) is not None:
                self._connected.remove(older)
        await self._adopt(endpoint)  # what it has replaced stays connected

    async def _dialled(self, resource: ResourceName, socket: Path, options: PluginOptions | None) -> Endpoint:
        await self._transport.admit(resource, socket)
        try:
            endpoint = StockEndpoint(
                resource, socket, self._config, transport=self._transport, quirks=self._quirks, registered=options
            )
        except PathTooLong as error:
            raise RegistrationRefused(f"failed to dial device plugin: {error}") from error
        await endpoint.connect()
        return endpoint

    async def _note_pre_start(self, resource: ResourceName, *, is_wanted: bool) -> None:
        """Record nothing: after a restart it is not known that the plugin wants the call."""

    def _counts(self, endpoint: Endpoint) -> bool:
        return self.active(endpoint.resource) is not None

    def _disconnected(self, endpoint: Endpoint) -> None:
        if endpoint.resource in self._forgotten:
            return
        active = self.active(endpoint.resource)
        if Quirk.OLD_STREAM_ENDS_ALL in self._quirks and active not in (None, endpoint) and not self._is_closing:
            assert active is not None
            self._spawn(active.close())  # its own stream ends then, and takes the resource down
            return
        super()._disconnected(endpoint)


def _joined(directory: Path, endpoint: str) -> Path:
    """The socket, joined and cleaned, and not looked at further: it may lie elsewhere."""
    return Path(os.path.normpath(directory / endpoint.lstrip("/")))
