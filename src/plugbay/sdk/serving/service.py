"""Answers a kubelet's calls from the devices discovered last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plugbay.errors import (
    AllocationError,
    DeviceListTooLarge,
    DevicesStillUsed,
    PartialAllocationError,
    RpcCode,
    RpcFailed,
    UnknownDevice,
)
from plugbay.errors.wording import shown
from plugbay.model.devices import Device, PluginOptions, index_devices
from plugbay.model.edit_checks import problem_of_edits
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import Health, unhealthy
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.sdk.author.by_ids import AnswersByIds
from plugbay.sdk.author.plugin import DevicePlugin, gives_back, offers, options_of
from plugbay.sdk.author.release_settings import ReleaseSource
from plugbay.sdk.hooks.calls import call, call_to_the_end
from plugbay.sdk.hooks.failures import HookReports
from plugbay.sdk.hooks.turns import START_PATIENCE_S, Turns
from plugbay.sdk.release.evidence.pod_lists import Quiet
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.wire.device_list import encode_devices
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES
from plugbay.wire.plugin_server import Caller, PreferenceRequest

if TYPE_CHECKING:
    from plugbay.sdk.cdi.publication import CdiPublication
    from plugbay.sdk.release.release import Release

logger = logging.getLogger(__name__)


class _Stream:
    """One open ListAndWatch stream: it shows the newest list when it gets to it, however many there were before."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.is_over = False
        self.news.set()

    def end(self) -> None:
        self.is_over = True
        self.news.set()


class PluginService:
    """The service of one plugin, whichever socket it is served on. Streams get each list once, encoded once.

    Args:
        streams_changed: is called when the first stream opens, and when the last one ends.
        allocation_failed: is called with the devices that could not be given, and why.
        cdi: makes the answer of devices that have a CDI kind.

    Attributes:
        releasing: calls the hooks at the end of a use, while its `run` runs.
        starting: the calls of PreStartContainer that run, each to its very end.
        release: keeps the uses of the devices; None for a plugin with nothing to do when a use is over.
        quiet: is told of each Allocate; None when ``release`` tells it.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        streams_changed: Callable[[], None],
        allocation_failed: Callable[[Mapping[DeviceId, Health]], None],
        cdi: CdiPublication | None = None,
        source: ReleaseSource = ReleaseSource.AUTO,
    ) -> None:
        self._plugin = plugin
        self._streams_changed = streams_changed
        self._allocation_failed = allocation_failed
        self._cdi = cdi
        self._reports = HookReports(plugin.resource_name)
        self._mode = None if plugin.modes is None else plugin.modes.mode(plugin.resource_name)
        self._devices: Mapping[DeviceId, Device] = {}
        self._behind: Mapping[DeviceId, Device] = {}  # each listed device to the one it is, or is a replica of
        self._message = encode_devices(())
        self._streams: set[_Stream] = set()
        self.starting = Turns()
        self.releasing = ReleaseHooks()
        self.release: Release | None = None
        self.quiet: Quiet | None = None
        self._source = source
        self._caller = Caller()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_draining = False
        self._allocating = 0
        self._allocated = asyncio.Event()
        self._allocated.set()

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def publish(self, devices: Iterable[Device]) -> None:
        """Make ``devices`` the list, and send it if it differs from the last one.

        Raises:
            DuplicateDevice, DeviceListTooLarge: the list stays as it was.
        """
        behind = [(listed, device) for device in devices for listed in device.listed()]
        fresh = index_devices(sorted((listed for listed, _ in behind), key=lambda device: device.id))
        if fresh == self._devices:
            return
        message = encode_devices(fresh.values())
        if len(message) > MAX_MESSAGE_BYTES:
            raise DeviceListTooLarge(self._plugin.resource_name, len(message), MAX_MESSAGE_BYTES)
        self._devices = fresh
        self._behind = {listed.id: device for listed, device in behind}
        if message == self._message:
            return  # what a container gets has changed, not what a kubelet sees
        self._message = message
        for stream in self._streams:
            stream.news.set()

    def send_again(self) -> int:
        """Send the list as it is to every kubelet that reads it; returns how many do."""
        for stream in self._streams:
            stream.news.set()
        return len(self._streams)

    def accept_streams(self) -> None:
        """Let streams stay open from now on, until `drain` or `stand_by`."""
        self._is_draining = False

    async def drain(self, timeout_s: float) -> None:
        """End open streams as `end_streams` does; a stream that opens from now on ends at once."""
        self._is_draining = True
        await self.end_streams(timeout_s)

    async def stand_by(self, timeout_s: float) -> None:
        """End open streams as `drain` does, unless the kubelet keeps plugins of one resource apart.

        Calls of Allocate finish first: a kubelet hangs up when the stream ends, and would reject their pods.
        """
        if self._caller.keeps_plugins_apart:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._allocated.wait()
        await self.drain(timeout_s)

    async def end_streams(self, timeout_s: float) -> None:
        """End every stream the normal way, for which a kubelet takes the plugin for gone, and wait until it is done.

        A stream that its kubelet does not read may outlast ``timeout_s``.
        """
        for stream in self._streams:
            stream.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    # --- calls of the kubelet ---------------------------------------------------------------------------------------

    async def options(self) -> PluginOptions:
        return options_of(self._plugin, self._source)

    def heed(self, caller: Caller) -> None:
        """Note what the kubelet whose stream opens next says of itself."""
        self._caller = caller

    async def lists(self) -> AsyncIterator[bytes]:
        if self._is_draining:
            return
        stream = _Stream()
        self._streams.add(stream)
        self._idle.clear()
        if len(self._streams) == 1:
            self._streams_changed()
        try:
            if self.release is not None:
                await self.release.stream_opened(self._caller)
            while True:
                await stream.news.wait()
                stream.news.clear()
                if stream.is_over:
                    return
                yield self._message
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._idle.set()
                self._streams_changed()

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits:
        self._allocating += 1
        self._allocated.clear()
        try:
            with contextlib.nullcontext() if self.quiet is None else self.quiet.allocating():
                return await self._allocate(devices)
        finally:
            self._allocating -= 1
            if not self._allocating:
                self._allocated.set()

    async def _allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits:
        if isinstance(self._plugin, AnswersByIds):
            return await self._allocate_ids(self._plugin, devices)
        mode = self._mode
        if mode is not None:
            mode.check(devices)  # before what is withdrawn is refused as unknown
        chosen = self._physical(devices)
        for device in chosen:
            if not device.health.is_healthy:
                raise UnknownDevice(self._plugin.resource_name, device.id, f"is {device.health}")
        async with contextlib.nullcontext() if self.release is None else self.release.giving(self._units(devices)):
            # A cancelled call may have begun: its devices are given back by a release.
            undone_by = BaseException if self.release is None else Exception
            with contextlib.nullcontext() if mode is None else mode.using(devices, undone_by=undone_by):
                with self._reports.about("allocate", _ids_of(chosen)):
                    edits = await self._edits_for(chosen)
                if edits.interfaces:
                    raise AllocationError(
                        f"{edits.interfaces[0].host_name} cannot move into the pod: an answer has no place for "
                        "interfaces, and the plugin does not give its devices by their names in CDI"
                    )
        logger.info("allocated %s of %s", ", ".join(device.id for device in chosen), self._plugin.resource_name)
        return edits

    async def _allocate_ids(self, plugin: AnswersByIds, devices: Sequence[DeviceId]) -> ContainerEdits:
        with self._reports.about("allocate", list(devices)):
            edits = await plugin.allocate_ids(devices)
        for device in (self._behind[each] for each in devices if each in self._behind):
            if not device.health.is_healthy:
                raise UnknownDevice(plugin.resource_name, device.id, f"is {device.health}")
        logger.info("allocated %s of %s", ", ".join(devices), plugin.resource_name)
        return edits

    async def _edits_for(self, chosen: list[Device]) -> ContainerEdits:
        if type(self._plugin).allocate is DevicePlugin.allocate:
            if self._cdi is not None:
                return self._cdi.answer(chosen)
            edits = DevicePlugin.allocate(self._plugin, chosen)  # nothing in it blocks: no thread
            assert isinstance(edits, ContainerEdits)
        else:
            edits = await self._ask_for_edits(chosen)
        return edits if self._cdi is None else self._cdi.answer(chosen, edits)

    async def _ask_for_edits(self, chosen: list[Device]) -> ContainerEdits:
        hook = self._plugin.allocate
        try:
            edits = await call_to_the_end(hook, chosen)
        except PartialAllocationError as error:
            failed = unhealthy("AllocationFailed", error.problem)
            self._allocation_failed({device.id: failed for device in chosen if device.id in error.failed})
            raise
        if problem := _problem_of_answer(edits):
            raise self._reports.nonsense("allocate", hook, _ids_of(chosen), problem)
        assert isinstance(edits, ContainerEdits)
        return edits

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        if not offers(self._plugin, "preferred_allocation"):
            raise RpcFailed(RpcCode.UNIMPLEMENTED, "method GetPreferredAllocation not implemented")
        if isinstance(self._plugin, AnswersByIds):
            with self._reports.about("preferred_allocation", list(request.available)):
                return await self._plugin.preferred_ids(request.available, request.must_include, request.size)
        available, must_include = self._known(request.available), self._known(request.must_include)
        hook, names = self._plugin.preferred_allocation, _ids_of(available)
        with self._reports.about("preferred_allocation", names):
            given = await call(hook, available, must_include, request.size)
            preferred = list(given) if isinstance(given, Iterable) else [given]
            if problem := _problem_of_preference(request, preferred):
                raise self._reports.nonsense("preferred_allocation", hook, names, problem)
        return _ids_of(preferred)

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        is_offered = offers(self._plugin, "pre_start_container")
        if self.release is None and not is_offered:
            raise RpcFailed(RpcCode.UNIMPLEMENTED, "method PreStartContainer not implemented")
        try:  # a kubelet gives up after 30 s and asks again, while the hook runs on
            await self.starting.until_free(devices, patience_s=START_PATIENCE_S)
        except TimeoutError:
            problem = "a hook of an earlier call for them still runs"
            raise DevicesStillUsed(devices, self._plugin.resource_name, problem) from None
        with self.starting.taking(devices):
            async with contextlib.nullcontext() if self.release is None else self.release.starting(devices):
                if is_offered:
                    chosen = self._physical(devices)
                    with self._reports.about("pre_start_container", _ids_of(chosen)):
                        await call_to_the_end(self._plugin.pre_start_container, chosen)

    async def post_stop_container(self, devices: Sequence[DeviceId], operation: OperationId) -> None:
        if self.release is None or not offers(self._plugin, "post_stop"):
            raise RpcFailed(RpcCode.UNIMPLEMENTED, "method PostStopContainer not implemented")
        await self.release.post_stopped(_named(devices), operation)

    async def deallocate(self, devices: Sequence[DeviceId], operation: OperationId, reason: ReleaseReason) -> None:
        if self.release is None or not gives_back(self._plugin):
            raise RpcFailed(RpcCode.UNIMPLEMENTED, "method Deallocate not implemented")
        await self.release.deallocated(_named(devices), operation)
        logger.info("released %s of %s: %s", ", ".join(devices), self._plugin.resource_name, reason.value)

    def _units(self, ids: Sequence[DeviceId]) -> dict[DeviceId, DeviceId]:
        """Each of ``ids``, which are known, with the device behind it."""
        return {unit: self._plugin._device_behind(self._behind[unit]) for unit in sorted(dict.fromkeys(ids))}

    def _physical(self, ids: Sequence[DeviceId]) -> list[Device]:
        """The devices behind ``ids``, each once.

        Raises:
            UnknownDevice: one is not in the list.
        """
        return list({device.id: device for device in (self._behind[each.id] for each in self._known(ids))}.values())

    def _known(self, ids: Sequence[DeviceId]) -> list[Device]:
        """The devices of ``ids``, in the order of their IDs.

        Raises:
            UnknownDevice: one is not in the list.
        """
        try:
            # Not by a set, which would forget the order: kubelets send any, managers like ours the one we want.
            return list(map(self._devices.__getitem__, sorted(dict.fromkeys(ids))))
        except KeyError as error:
            raise UnknownDevice(self._plugin.resource_name, error.args[0], "is no longer in the list") from None


def _named(devices: Sequence[DeviceId]) -> Sequence[DeviceId]:
    if not devices:
        raise RpcFailed(RpcCode.INVALID_ARGUMENT, "no devices named")
    return devices


def _ids_of(devices: Iterable[Device]) -> list[DeviceId]:
    return [device.id for device in devices]


def _problem_of_answer(edits: object) -> str:
    """The problem of an answer of ``allocate``, found before its devices count as used."""
    if not isinstance(edits, ContainerEdits):
        return f"{shown(edits)} instead of ContainerEdits"
    problem = problem_of_edits(edits)
    return f"what no kubelet can pass on: {problem}" if problem else ""


def _problem_of_preference(request: PreferenceRequest, answer: Sequence[object]) -> str:
    preferred = [device.id for device in answer if isinstance(device, Device)]
    if len(preferred) < len(answer):
        return f"{shown(answer)} instead of devices"
    chosen = set(preferred)
    if len(chosen) != request.size or len(preferred) != request.size:
        return f"{len(chosen)} devices instead of {request.size}"
    if chosen.difference(request.available, request.must_include):
        return "devices that are not available"
    if not chosen >= set(request.must_include):
        return "a choice without all the devices that must be included"
    return ""
