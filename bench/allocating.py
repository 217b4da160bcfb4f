"""How long Allocate takes at a plugin of one device, beside a bare gRPC server that answers as many bytes."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final

from bench.figures import Pace
from bench.peers.echo import METHOD
from bench.processes import python
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.channel import Channel

ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
ROUNDS: Final = {Pace.FULL: 40, Pace.QUICK: 5}
CALLS: Final = 50
"""The two take turns, so that both see whatever else the machine does."""


async def allocate_p50_ms(plugin: Path, device: str, beside: Path, pace: Pace) -> tuple[float, float]:
    """The medians of Allocate at the socket ``plugin``, and of a bare call at one made in ``beside``."""
    container = pb.ContainerAllocateRequest(devices_ids=[device])
    request = pb.AllocateRequest(container_requests=[container]).SerializeToString()
    bare = beside / "echo.sock"
    channel, echo_channel = Channel(plugin), Channel(bare)
    try:
        answer = await channel.unary(ALLOCATE, request)
        async with python("-m", "bench.peers.echo", str(bare), answer.hex()):
            await echo_channel.connect(30)
            taken: list[float] = []
            taken_bare: list[float] = []
            for _ in range(ROUNDS[pace]):
                await _call(channel, ALLOCATE, request, taken)
                await _call(echo_channel, METHOD, request, taken_bare)
                await asyncio.sleep(0)
    finally:
        await channel.close()
        await echo_channel.close()
    return statistics.median(taken) * 1000, statistics.median(taken_bare) * 1000


async def _call(channel: Channel, method: str, request: bytes, taken: list[float]) -> None:
    for _ in range(CALLS):
        began = time.perf_counter()
        await channel.unary(method, request)
        taken.append(time.perf_counter() - began)
