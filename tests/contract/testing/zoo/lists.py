"""Animals with bad lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules


class LocksWhileSending(Animal):
    """Sends its list under the lock that every call takes."""

    caught_by = rules(804)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        async with self._lock():
            yield pb.ListAndWatchResponse(devices=self.devices()).SerializeToString()
        await self.stopping.wait()

    async def get_options(self, request: pb.Empty) -> pb.DevicePluginOptions:
        async with self._lock():
            return await super().get_options(request)

    def _lock(self) -> asyncio.Lock:
        self._held = getattr(self, "_held", None) or asyncio.Lock()
        return self._held


class ServesTwoStreams(Animal):
    """Lists its devices to two kubelets at a time."""

    caught_by = rules(710)

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
