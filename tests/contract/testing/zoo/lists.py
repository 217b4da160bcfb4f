"""Animals with bad lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
