"""How long Allocate takes at a plugin of one device, beside a bare gRPC server that answers as many bytes."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final, TypeAlias

import grpc

from bench.figures import Pace
from bench.peers.echo import METHOD
from bench.processes import python
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.transport import open_channel, wait_connected

ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
ROUNDS: Final = {Pace.FULL: 40, Pace.QUICK: 5}
CALLS: Final = 50
"""The two take turns, so that both see whatever else the machine does."""

_Method: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"


async def allocate_p50_ms(plugin: Path, device: str, beside: Path, pace: Pace) -> tuple[float, float]:
    """The medians of Allocate at the socket ``plugin``, and of a bare call at one made in ``beside``."""
    container = pb.ContainerAllocateRequest(devices_ids=[device])
    request = pb.AllocateRequest(container_requests=[container]).SerializeToString()
    bare = beside / "echo.sock"
    async with open_channel(plugin) as channel:
        allocate: _Method = channel.unary_unary(ALLOCATE)
        answer = await allocate(request)
        async with python("-m", "bench.peers.echo", str(bare), answer.hex()), open_channel(bare) as echo_channel:
            await wait_connected(echo_channel, 30)
            echo: _Method = echo_channel.unary_unary(METHOD)
            taken: list[float] = []
            taken_bare: list[float] = []
            for _ in range(ROUNDS[pace]):
                await _call(allocate, request, taken)
                await _call(echo, request, taken_bare)
                await asyncio.sleep(0)
    return statistics.median(taken) * 1000, statistics.median(taken_bare) * 1000


async def _call(method: _Method, request: bytes, taken: list[float]) -> None:
    for _ in range(CALLS):
        began = time.perf_counter()
        await method(request)
        taken.append(time.perf_counter() - began)
