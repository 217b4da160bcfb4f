"""A plugin without a fault, as one program; each other animal of the zoo is this one with a single behaviour changed.

It speaks protobuf itself, so that an animal can say what our own plugins refuse to.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.ops.tasks import background, first
from plugbay.wire.calls import call
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Method, Service
from plugbay.wire.handlers import server_stream, unary

logger = logging.getLogger("zoo")

RESOURCE: Final = "zoo.example/animal"
REGISTER_S: Final = 12.0
RETRY_S: Final = 0.2

Identity = tuple[int, int] | None


def identity(path: Path) -> Identity:
    """One incarnation of a socket among those at one path; None while there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def rules(*numbers: int) -> frozenset[str]:
    """The rules that an animal breaks, by number."""
    return frozenset(f"PB{number}" for number in numbers)


class Animal:
    """Behaves.

    Args:
        directory: the kubelet's device-plugins directory.
        sick: a file with the IDs of unhealthy devices, one a line; it may be missing.

    Attributes:
        caught_by: the rules that the animal breaks.
    """

    caught_by: ClassVar[frozenset[str]] = rules()
    ids: Sequence[str] = ("ant", "bee", "cat", "dog")
    options: pb.DevicePluginOptions = pb.DevicePluginOptions(
        pre_start_required=True,
        get_preferred_allocation_available=True,
        post_stop_required=True,
        deallocate_required=True,
    )

    def __init__(self, directory: Path, sick: Path) -> None:
        self.directory = directory
        self.kubelet = directory / "kubelet.sock"
        self.sick = sick
        self.socket = directory / "none.sock"
        self.stopping = asyncio.Event()
        self.unwatched = asyncio.Event()
        self.changed = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._streams = Counter[Path]()

    # --- what a kubelet asks ----------------------------------------------------------------------------------------

    async def get_options(self, _: pb.Empty) -> pb.DevicePluginOptions:
        return self.options

    async def lists(self, _: pb.Empty) -> AsyncIterator[bytes]:
        """Send the list, and then each one that differs from the one before."""
        sent: list[pb.Device] = []
        while not self.stopping.is_set():
            async with self.changed:
                if (now := self.devices()) == sent:
                    await self.changed.wait()
                    continue
            yield pb.ListAndWatchResponse(devices=now).SerializeToString()
            sent = now

    def devices(self) -> list[pb.Device]:
        sick = self.sick_ids()
        return [pb.Device(ID=id, health="Unhealthy" if id in sick else "Healthy") for id in self.ids]

    def sick_ids(self) -> set[str]:
        try:
            return set(self.sick.read_text(encoding="utf-8").split())
        except FileNotFoundError:
            return set()

    async def prefer(self, request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        containers = [
            pb.ContainerPreferredAllocationResponse(
                deviceIDs=self.preferred(each.available_deviceIDs, each.must_include_deviceIDs, each.allocation_size)
            )
            for each in request.container_requests
        ]
        return pb.PreferredAllocationResponse(container_responses=containers)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        return list(dict.fromkeys((*sorted(must_include), *sorted(available))))[:size]

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        return pb.AllocateResponse(container_responses=[self.container(each) for each in request.container_requests])

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        self.check(request.devices_ids)
        return pb.ContainerAllocateResponse(envs={"ANIMALS": ",".join(sorted(request.devices_ids))})

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        self.check(request.devices_ids)
        return pb.PreStartContainerResponse()

    async def post_stop(self, request: pb.PostStopContainerRequest) -> pb.Empty:
        return pb.Empty()

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        return pb.Empty()

    def check(self, ids: Sequence[str]) -> None:
        if unknown := sorted({*ids} - {*self.ids}):
            raise RpcFailed(RpcCode.NOT_FOUND, f"unknown devices: {', '.join(unknown)}")
        if not ids or len(ids) > len({*ids}):
            raise RpcFailed(RpcCode.INVALID_ARGUMENT, "devices are named once, and at least one is")

    def methods(self) -> Mapping[str, Method]:
        return {
            "GetDevicePluginOptions": unary(pb.Empty, self.get_options),
            "ListAndWatch": server_stream(pb.Empty, self._watched),
            "GetPreferredAllocation": unary(pb.PreferredAllocationRequest, self.prefer),
            "Allocate": unary(pb.AllocateRequest, self.allocate),
            "PreStartContainer": unary(pb.PreStartContainerRequest, self.pre_start),
            "PostStopContainer": unary(pb.PostStopContainerRequest, self.post_stop),
            "Deallocate": unary(pb.DeallocateRequest, self.deallocate),
        }

    async def _watched(self, request: pb.Empty) -> AsyncIterator[bytes]:
        """Tell when a kubelet hangs up: it never opens a stream again, so that we have to register anew."""
        socket = self.socket
        self._streams[socket] += 1
        try:
            async for message in self.lists(request):
                yield message
        finally:
            self._streams[socket] -= 1
            if socket == self.socket and not self._streams[socket]:
                self.unwatched.set()

    # --- its life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number, handle in self.handlers().items():
            loop.add_signal_handler(number, handle)
        async with background(self.follow_health(), name="health"):
            await self.live()

    def handlers(self) -> Mapping[signal.Signals, Callable[[], None]]:
        return {signal.SIGTERM: self.stop, signal.SIGINT: self.stop}

    def stop(self) -> None:
        self.stopping.set()

    async def follow_health(self) -> None:
        async with watch_paths([self.sick]) as changes, background(self._wake_when_stopping(), name="wake"):
            async for _ in changes:
                await self.wake()

    async def _wake_when_stopping(self) -> None:
        await self.stopping.wait()
        await self.wake()

    async def wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def live(self) -> None:
        """Serve on a socket until it is gone, then on another one, until we are to stop."""
        while not self.stopping.is_set():
            self.socket = self.directory / self.name()
            self.unwatched.clear()
            async with watch_paths([self.kubelet, self.directory, self.socket]) as changes:
                if not self.directory.is_dir():
                    await first(anext(changes), self.stopping.wait())
                    continue
                async with self.serving():
                    await first(self.keep_registered(), self.until_lost(identity(self.socket)), self.stopping.wait())

    def serving(self) -> AbstractAsyncContextManager[None]:
        return serve_grpc(self.socket, [Service("v1beta1.DevicePlugin", self.methods())], grace_s=0.2)

    def name(self) -> str:
        """Return another name for each socket of each instance: no kubelet, and no other instance, knows it yet."""
        return f"animal-{os.getpid()}-{next(self._numbers)}.sock"

    async def until_lost(self, served: Identity) -> None:
        async with watch_paths([self.socket]) as changes:
            while identity(self.socket) == served:
                await anext(changes)

    async def keep_registered(self) -> None:
        """Register with each kubelet once, and again when it hangs up."""
        registered: Identity = None
        async with watch_paths([self.kubelet]) as changes:
            while True:
                now = identity(self.kubelet)
                if now is not None and (now != registered or self.unwatched.is_set()):
                    self.unwatched.clear()
                    if await self.register():
                        registered = now
                    else:
                        registered = None
                        await asyncio.sleep(RETRY_S)
                        continue
                await first(anext(changes), self.unwatched.wait())

    async def register(self) -> bool:
        channel = Channel(self.kubelet)
        request = pb.RegisterRequest(version="v1beta1", endpoint=self.endpoint(), resource_name=RESOURCE)
        try:
            await call(channel, "/v1beta1.Registration/Register", request, pb.Empty, timeout_s=REGISTER_S)
        except RpcFailed as error:
            logger.warning("registration failed and is tried again: %s", error)
            return False
        finally:
            await channel.close()
        logger.info("registered as %s", self.endpoint())
        return True

    def endpoint(self) -> str:
        return self.socket.name
