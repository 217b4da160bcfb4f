"""Counts what a kubelet asks of one resource; pages read the counts, nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar, cast

from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.metrics import Histogram
from plugbay.wire.plugin_server import DevicePluginServicer, PreferenceRequest

OK: Final = "ok"
FAILED: Final = "failed"

_Answer = TypeVar("_Answer")


class CountedService:
    """A `DevicePluginServicer` that passes everything on to another one, and counts.

    Attributes:
        calls: how long answers took, by the RPC's name and ``ok`` or ``failed``; calls that were given up, because the
            kubelet went away, count nowhere.
        streams_opened, streams_ended: of ListAndWatch.
    """

    def __init__(self, service: DevicePluginServicer) -> None:
        self._service = service
        self.calls: dict[tuple[str, str], Histogram] = {}
        self.streams_opened = 0
        self.streams_ended = 0

    async def options(self) -> PluginOptions:
        return await self._service.options()

    async def lists(self) -> AsyncIterator[bytes]:
        self.streams_opened += 1
        try:
            # Closed with this one, as an iterator of a generator would be: the service learns that a stream is over.
            async with aclosing(cast("AsyncGenerator[bytes, None]", self._service.lists())) as lists:
                async for message in lists:
                    yield message
        finally:
            self.streams_ended += 1

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        return await self._timed("GetPreferredAllocation", self._service.preferred_allocation(request))

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        return await self._timed("Allocate", self._service.allocate(devices))

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        await self._timed("PreStartContainer", self._service.pre_start_container(devices))

    async def post_stop_container(self, devices: Sequence[DeviceId], operation: OperationId) -> None:
        await self._timed("PostStopContainer", self._service.post_stop_container(devices, operation))

    async def deallocate(self, devices: Sequence[DeviceId], operation: OperationId, reason: ReleaseReason) -> None:
        await self._timed("Deallocate", self._service.deallocate(devices, operation, reason))

    async def _timed(self, method: str, answer: Awaitable[_Answer]) -> _Answer:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answered = await answer
        except Exception:
            self._count(method, FAILED, loop.time() - began)
            raise
        self._count(method, OK, loop.time() - began)
        return answered

    def _count(self, method: str, outcome: str, taken_s: float) -> None:
        key = method, outcome
        if key not in self.calls:
            self.calls[key] = Histogram()
        self.calls[key].observe(taken_s)
