"""A plugin on a real socket; the test decides every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.changes import Changes
from plugbay.wire.device_list import encode_devices
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import PreferenceRequest, device_plugin_handler
from plugbay.wire.registration import Registration, register

Allocate = Callable[[Sequence[DeviceId]], Awaitable[ContainerEdits | None]]
Prefer = Callable[[PreferenceRequest], Awaitable[Sequence[DeviceId]]]
PreStart = Callable[[Sequence[DeviceId]], Awaitable[None]]
PostStop = Callable[[Sequence[DeviceId]], Awaitable[None]]
Deallocate = Callable[[Sequence[DeviceId]], Awaitable[None]]


_Asked = TypeVar("_Asked")


class Released(NamedTuple):
    """The arguments of one PostStopContainer, which has no reason, or Deallocate."""

    devices: tuple[DeviceId, ...]
    operation: OperationId
    reason: ReleaseReason | None = None


class FakePlugin:
    """Serves one resource; used through `fake_plugin`.

    Attributes:
        allocate_answer, prefer_answer, pre_start_answer, post_stop_answer, deallocate_answer: the behaviours; replace
            them at any time.
        calls: the names of all calls so far, in order.
        called: notified when a call begins that concerns devices.
        allocated, preferred, pre_started, post_stopped, deallocated: the arguments of the calls so far.
        options_answer: the answer to GetDevicePluginOptions, or the error it fails with.
    """

    def __init__(self, resource: str, socket: Path, devices: Iterable[Device] | None, options: PluginOptions) -> None:
        self.resource = resource
        self.socket = socket
        self.options_answer: PluginOptions | RpcFailed = options
        self.allocate_answer: Allocate = _env_of_ids
        self.prefer_answer: Prefer = _first_available
        self.pre_start_answer: PreStart = _nothing
        self.post_stop_answer: PostStop = _nothing
        self.deallocate_answer: Deallocate = _nothing
        self.calls: list[str] = []
        self.called = Changes()
        self.allocated: list[tuple[DeviceId, ...]] = []
        self.preferred: list[PreferenceRequest] = []
        self.pre_started: list[tuple[DeviceId, ...]] = []
        self.post_stopped: list[Released] = []
        self.deallocated: list[Released] = []
        self._message = None if devices is None else encode_devices(devices)
        self._streams: dict[asyncio.Queue[bytes | None], None] = {}  # the oldest first
        self._unwatched = asyncio.Event()

    # --- what a test does -------------------------------------------------------------------------------------------

    def send(self, devices: Iterable[Device]) -> None:
        """Send a new list on every stream."""
        self.send_raw(encode_devices(devices))

    def send_raw(self, message: bytes) -> None:
        """Send any bytes as a list."""
        self._message = message
        for stream in self._streams:
            stream.put_nowait(message)

    def end_streams(self) -> None:
        """End every stream the normal way; the plugin goes on serving."""
        for stream in self._streams:
            stream.put_nowait(None)

    async def until_called(self, *calls: str, timeout_s: float = 20) -> None:
        """Wait for as many `calls_for_pods` as ``calls`` has; they must be these, in this order."""
        async with asyncio.timeout(timeout_s):
            async for _ in self.called:
                if len(self.calls_for_pods) >= len(calls):
                    break
        assert self.calls_for_pods[: len(calls)] == list(calls)

    @property
    def calls_for_pods(self) -> list[str]:
        """`calls` without those that only concern the plugin itself."""
        return [call for call in self.calls if call not in ("GetDevicePluginOptions", "ListAndWatch")]

    async def until_unwatched(self, *, timeout_s: float = 10) -> None:
        """Wait until the last open stream has ended."""
        async with asyncio.timeout(timeout_s):
            await self._unwatched.wait()

    async def register(self, kubelet_socket: Path, *, version: str = "v1beta1", endpoint: str | None = None) -> None:
        """Register; what the kubelet refuses is raised as `RpcFailed`."""
        registration = Registration(version, self.socket.name if endpoint is None else endpoint, self.resource)
        await register(kubelet_socket, registration, options=PluginOptions(), timeout_s=20)

    # --- the service ------------------------------------------------------------------------------------------------

    async def options(self) -> PluginOptions:
        self.calls.append("GetDevicePluginOptions")
        if isinstance(self.options_answer, RpcFailed):
            raise self.options_answer
        return self.options_answer

    async def lists(self) -> AsyncIterator[bytes]:
        self.calls.append("ListAndWatch")
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        if self._message is not None:
            stream.put_nowait(self._message)
        self._streams[stream] = None
        self._unwatched.clear()
        try:
            while (message := await stream.get()) is not None:
                yield message
        finally:
            del self._streams[stream]
            if not self._streams:
                self._unwatched.set()

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        self._enter("GetPreferredAllocation", self.preferred, request)
        return await self.prefer_answer(request)

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        self._enter("Allocate", self.allocated, tuple(devices))
        return await self.allocate_answer(devices)

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        self._enter("PreStartContainer", self.pre_started, tuple(devices))
        await self.pre_start_answer(devices)

    async def post_stop_container(self, devices: Sequence[DeviceId], operation: OperationId) -> None:
        self._enter("PostStopContainer", self.post_stopped, Released(tuple(devices), operation))
        await self.post_stop_answer(devices)

    async def deallocate(self, devices: Sequence[DeviceId], operation: OperationId, reason: ReleaseReason) -> None:
        self._enter("Deallocate", self.deallocated, Released(tuple(devices), operation, reason))
        await self.deallocate_answer(devices)

    def _enter(self, call: str, asked: list[_Asked], request: _Asked) -> None:
        self.calls.append(call)
        asked.append(request)
        self.called.notify()


@asynccontextmanager
async def fake_plugin(
    resource: str, socket: Path, devices: Iterable[Device] | None = (), *, options: PluginOptions | None = None
) -> AsyncIterator[FakePlugin]:
    """Serve a plugin on ``socket``; the test has it register. With ``devices=None`` its streams stay silent."""
    plugin = FakePlugin(resource, socket, devices, options or PluginOptions())
    async with serve_grpc(socket, [device_plugin_handler(plugin)]):
        yield plugin


def refusing(code: RpcCode, text: str) -> Callable[..., Awaitable[Any]]:
    """A behaviour that answers with a gRPC status, such as ``refusing(RpcCode.INTERNAL, "no power")``."""

    async def refuse(*_: object) -> Any:
        raise RpcFailed(code, text)

    return refuse


async def _env_of_ids(devices: Sequence[DeviceId]) -> ContainerEdits:
    return ContainerEdits(env={"DEVICES": ",".join(sorted(devices))})


async def _first_available(request: PreferenceRequest) -> Sequence[DeviceId]:
    chosen = dict.fromkeys((*request.must_include, *request.available))
    return tuple(chosen)[: request.size]


async def _nothing(devices: Sequence[DeviceId]) -> None:
    return None
