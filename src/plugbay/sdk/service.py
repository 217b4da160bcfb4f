"""Answers a kubelet's calls from the devices discovered last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from plugbay.errors import InvalidPreference, UnknownDevice
from plugbay.model.devices import Device, PluginOptions, index_devices
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.sdk.calls import call
from plugbay.sdk.plugin import DevicePlugin, options_of
from plugbay.wire.device_list import encode_devices
from plugbay.wire.plugin_server import PreferenceRequest

logger = logging.getLogger(__name__)


class PluginService:
    """The service of one plugin, whichever socket it is served on. Streams get each list once, encoded once.

    Args:
        streams_changed: called when a stream opens or ends.
    """

    def __init__(self, plugin: DevicePlugin, streams_changed: Callable[[], None]) -> None:
        self._plugin = plugin
        self._streams_changed = streams_changed
        self._devices: Mapping[DeviceId, Device] = {}
        self._message = encode_devices(())
        self._streams: set[asyncio.Queue[bytes | None]] = set()

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def publish(self, devices: Iterable[Device]) -> None:
        """Make ``devices`` the list, and send it if it differs from the last one. Differences are logged.

        Raises:
            DuplicateDevice: the list stays as it was.
        """
        fresh = index_devices(sorted(devices, key=lambda device: device.id))
        if fresh == self._devices:
            return
        _log_difference(self._plugin.resource_name, self._devices, fresh)
        self._devices = fresh
        message = encode_devices(fresh.values())
        if message == self._message:
            return  # what a container gets has changed, not what a kubelet sees
        self._message = message
        for stream in self._streams:
            stream.put_nowait(message)

    def end_streams(self) -> None:
        """End every stream the normal way: the kubelet takes the plugin for gone."""
        for stream in self._streams:
            stream.put_nowait(None)

    # --- calls of the kubelet ---------------------------------------------------------------------------------------

    async def options(self) -> PluginOptions:
        return options_of(self._plugin)

    async def lists(self) -> AsyncIterator[bytes]:
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        stream.put_nowait(self._message)
        self._streams.add(stream)
        self._streams_changed()
        try:
            while (message := await stream.get()) is not None:
                yield message
        finally:
            self._streams.discard(stream)
            self._streams_changed()

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits:
        chosen = self._known(devices)
        for device in chosen:
            if not device.health.is_healthy:
                raise UnknownDevice(self._plugin.resource_name, device.id, f"is {device.health}")
        if type(self._plugin).allocate is DevicePlugin.allocate:
            edits = DevicePlugin.allocate(self._plugin, chosen)  # nothing in it blocks: no thread
        else:
            edits = await call(self._plugin.allocate, chosen)
        logger.info("allocated %s of %s", ", ".join(devices), self._plugin.resource_name)
        assert isinstance(edits, ContainerEdits), f"allocate() gave {edits!r}, not ContainerEdits"
        return edits

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        available, must_include = self._known(request.available), self._known(request.must_include)
        preferred = await call(self._plugin.preferred_allocation, available, must_include, request.size)
        return _check_preference(self._plugin.resource_name, request, [device.id for device in preferred])

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        await call(self._plugin.pre_start_container, self._known(devices))

    def _known(self, ids: Sequence[DeviceId]) -> list[Device]:
        """The devices of ``ids``, in the order of their IDs.

        Raises:
            UnknownDevice: one is not in the list.
        """
        unknown = [device_id for device_id in ids if device_id not in self._devices]
        if unknown:
            raise UnknownDevice(self._plugin.resource_name, unknown[0], "is not in the list any more")
        return [self._devices[device_id] for device_id in sorted(set(ids))]


def _check_preference(resource: str, request: PreferenceRequest, preferred: list[DeviceId]) -> list[DeviceId]:
    chosen = set(preferred)
    if len(chosen) != request.size or len(preferred) != request.size:
        raise InvalidPreference(resource, f"{len(chosen)} devices instead of {request.size}")
    if not chosen <= {*request.available, *request.must_include}:
        raise InvalidPreference(resource, "devices that are not available")
    if not chosen >= set(request.must_include):
        raise InvalidPreference(resource, "a choice without all the devices that must be included")
    return preferred


def _log_difference(resource: str, before: Mapping[DeviceId, Device], after: Mapping[DeviceId, Device]) -> None:
    for device_id in before.keys() - after.keys():
        logger.info("%s: device %s is gone", resource, device_id)
    for device_id, device in after.items():
        if device_id not in before:
            logger.info("%s: new device %s, %s", resource, device_id, device.health)
        elif before[device_id].health != device.health:
            logger.warning("%s: device %s is %s", resource, device_id, device.health)
        elif before[device_id] != device:
            logger.info("%s: device %s changed", resource, device_id)
