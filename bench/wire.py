"""Our wire, between two Python processes over a unix socket, beside grpcio's asyncio client and server.

The two take turns, so that both see whatever else the machine does. Figures that begin with ``grpcio_`` are context.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

import grpc

from bench.admission import list_update_ms, p99
from bench.figures import Figure, Pace
from bench.peers.wire import ALLOCATE, BIG, BIG_BYTES, LISTS, MESSAGES, SMALL
from bench.processes import cpu_ms_per_min, python, rss_mb
from plugbay.wire.calls import call
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES

_T = TypeVar("_T")

DIAL_S: Final = 30
ROUNDS: Final = {Pace.FULL: 40, Pace.QUICK: 5}
CALLS: Final = 50
BIG_ROUNDS: Final = {Pace.FULL: 15, Pace.QUICK: 3}
STREAMS: Final = {Pace.FULL: 5, Pace.QUICK: 1}
FLIPS: Final = {Pace.FULL: 40, Pace.QUICK: 6}
IDLE_CONNECTIONS: Final = 200
SETTLING_S: Final = {Pace.FULL: 20.0, Pace.QUICK: 2.0}
IDLE_WINDOW_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 5.0}

ONE: Final = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["g0"])])


def allocating(size: int) -> pb.AllocateRequest:
    """A request of some ``size`` bytes, in device IDs of 64 KiB."""
    names = ["x" * 65_536] * (size // 65_536)
    return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=names)])


class Client(Protocol):
    """A client of the service of `bench.peers.wire`."""

    async def connect(self) -> None: ...

    async def allocate(self, request: pb.AllocateRequest) -> object: ...

    def lists(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Ours:
    def __init__(self, socket: Path) -> None:
        self._channel = Channel(socket, max_message_bytes=2 * BIG_BYTES)

    async def connect(self) -> None:
        await self._channel.connect(DIAL_S)

    async def allocate(self, request: pb.AllocateRequest) -> object:
        return await call(self._channel, ALLOCATE, request, pb.AllocateResponse)

    async def lists(self) -> AsyncIterator[bytes]:
        async with aclosing(self._channel.stream(LISTS, b"")) as messages:
            async for message in messages:
                yield message

    async def close(self) -> None:
        await self._channel.close()


class Grpcio:
    def __init__(self, socket: Path) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=options)
        self._allocate: grpc.aio.UnaryUnaryMultiCallable[pb.AllocateRequest, pb.AllocateResponse]
        self._allocate = self._channel.unary_unary(
            ALLOCATE, pb.AllocateRequest.SerializeToString, pb.AllocateResponse.FromString
        )
        self._lists: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(LISTS)

    async def connect(self) -> None:
        await asyncio.wait_for(self._channel.channel_ready(), DIAL_S)

    async def allocate(self, request: pb.AllocateRequest) -> object:
        return await self._allocate(request)

    async def lists(self) -> AsyncIterator[bytes]:
        async for message in self._lists(b""):
            yield message

    async def close(self) -> None:
        await self._channel.close()


KINDS: Final[Mapping[str, type[Ours] | type[Grpcio]]] = {"ours": Ours, "grpcio": Grpcio}


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb") as name:
        directories = {kind: Path(name) / kind for kind in KINDS}
        async with AsyncExitStack() as up:
            for kind, directory in directories.items():
                directory.mkdir()
                await up.enter_async_context(python("-m", "bench.peers.wire", kind, str(directory)))
            async for figure in small(directories, pace):
                yield figure
            async for figure in big(directories, pace):
                yield figure
        async for figure in idle(Path(name), pace):
            yield figure
    yield Figure("wire_list_update_ms_10000", await list_update_ms(FLIPS[pace]), "ms", 6)


async def small(directories: Mapping[str, Path], pace: Pace) -> AsyncIterator[Figure]:
    """Many calls of a few bytes each, one after the other, and many messages of one call."""
    async with clients(directories, SMALL) as (ours, grpcio):
        calls = await in_turn(pace, ROUNDS, lambda client: timed_calls(client, CALLS), ours, grpcio)
        streams = await in_turn(pace, STREAMS, timed_stream, ours, grpcio)
    taken, of_grpcio = ([each for times in turns for each in times] for turns in calls)
    yield Figure("wire_unary_p50_ms", statistics.median(taken), "ms", 0.4)
    yield Figure("wire_unary_p99_ms", p99(taken), "ms", None)
    yield Figure("grpcio_unary_p50_ms", statistics.median(of_grpcio), "ms", None)
    yield Figure("grpcio_unary_p99_ms", p99(of_grpcio), "ms", None)
    for name, times in zip(("wire", "grpcio"), streams, strict=True):
        yield Figure(f"{name}_stream_us_per_message", statistics.median(times) / MESSAGES * 1000, "us", None)


async def big(directories: Mapping[str, Path], pace: Pace) -> AsyncIterator[Figure]:
    """16 MiB from the server in one message, and to it in the four that a server of Go's gRPC, or ours, takes."""
    quarter = allocating(MAX_MESSAGE_BYTES - 65_536)

    async def up(client: Client) -> float:
        async def call() -> None:
            for _ in range(BIG_BYTES // MAX_MESSAGE_BYTES):
                await client.allocate(quarter)

        return await timed(call())

    async with clients(directories, BIG) as (ours, grpcio):
        received = await in_turn(pace, BIG_ROUNDS, timed_stream, ours, grpcio)
        sent = await in_turn(pace, BIG_ROUNDS, up, ours, grpcio)
    for name, target, downs, ups in zip(("wire", "grpcio"), (120, None), received, sent, strict=True):
        down_ms, up_ms = statistics.median(downs), statistics.median(ups)
        yield Figure(f"{name}_16_mib_both_ways_ms", down_ms + up_ms, "ms", target)
        yield Figure(f"{name}_16_mib_received_ms", down_ms, "ms", None)


async def idle(parent: Path, pace: Pace) -> AsyncIterator[Figure]:
    """Servers of their own with one connection, and then with many, that say nothing; the clients are ours."""
    async with AsyncExitStack() as up:
        directories = {kind: parent / f"idle-{kind}" for kind in KINDS}
        pids = []
        for kind, directory in directories.items():
            directory.mkdir()
            process = await up.enter_async_context(python("-m", "bench.peers.wire", kind, str(directory)))
            pids.append(process.pid)
            first = await up.enter_async_context(client(Ours, directory / SMALL))
            await timed_calls(first, CALLS)
        await asyncio.sleep(SETTLING_S[pace])
        of_ours, of_grpcio = await cpu_ms_per_min(IDLE_WINDOW_S[pace], *pids)
        yield Figure("wire_idle_cpu_ms_per_min", of_ours, "ms/min", 1)
        yield Figure("grpcio_idle_cpu_ms_per_min", of_grpcio, "ms/min", None)
        before = [rss_mb(pid) for pid in pids]
        for directory in directories.values():
            for _ in range(IDLE_CONNECTIONS):
                await up.enter_async_context(client(Ours, directory / SMALL))
        for name, pid, memory_mb in zip(("wire", "grpcio"), pids, before, strict=True):
            target = 6 if name == "wire" else None
            yield Figure(f"{name}_{IDLE_CONNECTIONS}_idle_connections_mb", rss_mb(pid) - memory_mb, "MB", target)


@asynccontextmanager
async def client(kind: Callable[[Path], Client], socket: Path) -> AsyncIterator[Client]:
    """A client during the block, connected."""
    made = kind(socket)
    try:
        await made.connect()
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def clients(directories: Mapping[str, Path], socket: str) -> AsyncIterator[list[Client]]:
    """A client of each kind at the server of its kind."""
    async with AsyncExitStack() as up:
        yield [await up.enter_async_context(client(KINDS[kind], where / socket)) for kind, where in directories.items()]


async def in_turn(
    pace: Pace, rounds: Mapping[Pace, int], measured: Callable[[Client], Awaitable[_T]], *of: Client
) -> list[list[_T]]:
    """What is measured of each client in each round; a first round does not count."""
    taken: list[list[_T]] = [[] for _ in of]
    for number in range(rounds[pace] + 1):
        for times, each in zip(taken, of, strict=True):
            value = await measured(each)
            if number:
                times.append(value)
    return taken


async def timed_calls(client: Client, count: int) -> list[float]:
    return [await timed(client.allocate(ONE)) for _ in range(count)]


async def timed_stream(client: Client) -> float:
    """ListAndWatch from the call to its end."""

    async def read() -> None:
        async for _ in client.lists():
            pass

    return await timed(read())


async def timed(work: Awaitable[object]) -> float:
    """How long it takes, in ms."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000
