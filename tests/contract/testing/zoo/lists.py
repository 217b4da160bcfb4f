"""Animals with bad lists."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import suppress

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules


class DuplicateIds(Animal):
    caught_by = rules(303)
    ids = ("ant", "bee", "cat", "bee")


class DuplicatesLater(Animal):
    """Lists a device twice, shortly after its first list."""

    caught_by = rules(303)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        async for message in super().lists(request):
            yield message
            await asyncio.sleep(0.3)
            twice = pb.ListAndWatchResponse(devices=self.devices()[:1])
            yield message + twice.SerializeToString()


class DuplicatesInChange(Animal):
    """Lists a device twice that has changed."""

    caught_by = rules(303)

    def devices(self) -> list[pb.Device]:
        return [*super().devices(), *(each for each in super().devices() if each.health == "Unhealthy")]


class LongId(Animal):
    caught_by = rules(304)
    ids = ("ant", "bee", "cat", "d" + "o" * 62 + "g")


class UnstableIds(Animal):
    """Names its devices anew in each process."""

    caught_by = rules(313)

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # as the base takes them
        self.ids = [f"{name}-{os.getpid()}" for name in Animal.ids]


class UnstableOrder(Animal):
    """Lists its devices in another order to each stream."""

    caught_by = rules(312)

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # as the base takes them
        self._turns = itertools.count()

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        turn = next(self._turns) % len(Animal.ids)
        self.ids = (*Animal.ids[turn:], *Animal.ids[:turn])
        async for message in super().lists(request):
            yield message


class OneWayHealth(Animal):
    """Takes a device that was ill once for ill for ever."""

    caught_by = rules(319)

    def sick_ids(self) -> set[str]:
        self._ever = getattr(self, "_ever", set()) | super().sick_ids()
        return self._ever


class OddHealth(Animal):
    caught_by = rules(306)

    def devices(self) -> list[pb.Device]:
        return [pb.Device(ID=each.ID, health=each.health.lower()) for each in super().devices()]


class ClosesQuietStream(Animal):
    """Ends the stream after two seconds in which there was nothing to tell."""

    caught_by = rules(316)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        messages = aiter(super().lists(request))
        with suppress(TimeoutError):
            while not self.stopping.is_set():
                yield await asyncio.wait_for(anext(messages), 2)


class SendsOnlyChanges(Animal):
    caught_by = rules(317)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        before: set[bytes] = set()
        async for message in super().lists(request):
            devices = pb.ListAndWatchResponse.FromString(message).devices
            new = [each for each in devices if each.SerializeToString() not in before]
            before = {each.SerializeToString() for each in devices}
            yield pb.ListAndWatchResponse(devices=new).SerializeToString()


class ServesOneStream(Animal):
    """Lists its devices to the first kubelet that asks, as long as that listens."""

    caught_by = rules(314, 315)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        self._turn = getattr(self, "_turn", None) or asyncio.Lock()
        async with self._turn:
            async for message in super().lists(request):
                yield message


class LocksWhileSending(Animal):
    """Sends its list under the lock that every call takes."""

    caught_by = rules(804)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        async for message in super().lists(request):
            async with self._lock():
                yield message

    async def get_options(self, request: pb.Empty) -> pb.DevicePluginOptions:
        async with self._lock():
            return await super().get_options(request)

    def _lock(self) -> asyncio.Lock:
        self._held = getattr(self, "_held", None) or asyncio.Lock()
        return self._held


class RepeatsList(Animal):
    """Sends the same list ten times a second."""

    caught_by = rules(311)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        while not self.stopping.is_set():
            yield pb.ListAndWatchResponse(devices=self.devices()).SerializeToString()
            await asyncio.sleep(0.1)


class ServesTwoStreams(Animal):
    """Lists its devices to two kubelets at a time."""

    caught_by = rules(710, 804)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        self._seats = getattr(self, "_seats", None) or asyncio.Semaphore(2)
        async with self._seats:
            async for message in super().lists(request):
                yield message


class BreaksWithCancelledStream(Animal):
    """Has no list any more, once a stream was cancelled, until it registers again."""

    caught_by = rules(709, 710)
    _is_broken = False

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        if self._is_broken:
            raise RpcFailed(RpcCode.INTERNAL, "context canceled")
        try:
            async for message in super().lists(request):
                yield message
        finally:
            self._is_broken = True

    async def register(self) -> bool:
        self._is_broken = False
        return await super().register()


class ListsLate(Animal):
    """Looks for its devices for six seconds before its first list."""

    caught_by = rules(302)
    _has_looked = False

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        if not self._has_looked:
            await asyncio.sleep(6)
            self._has_looked = True
        async for message in super().lists(request):
            yield message


class EmptyId(Animal):
    caught_by = rules(305, 423)
    ids = ("ant", "bee", "cat", "")


class LivesElsewhere(Animal):
    """Names a NUMA node that this machine does not have."""

    caught_by = rules(308)

    def devices(self) -> list[pb.Device]:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=63)])
        return [pb.Device(ID=each.ID, health=each.health, topology=topology) for each in super().devices()]


class LivesNowhere(Animal):
    """Names no NUMA node in a topology."""

    caught_by = rules(310)

    def devices(self) -> list[pb.Device]:
        return [pb.Device(ID=each.ID, health=each.health, topology=pb.TopologyInfo()) for each in super().devices()]


class ListsTooMuch(Animal):
    """Has more devices than fit into a message that a kubelet takes."""

    caught_by = rules(320)

    def devices(self) -> list[pb.Device]:
        return [*super().devices(), pb.Device(ID="elk", health="Unhealthy", health_reason="x" * (3 << 20))]
