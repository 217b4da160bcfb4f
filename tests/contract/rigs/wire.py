"""What tests of our gRPC share: both sides of a connection over a real unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
import pytest

from plugbay.errors import RpcFailed
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.wire.plugin_client import PluginClient
from tests.contract.rigs.grpcio import open_channel

DEADLINE_S = 30
EDITS = ContainerEdits(
    env={"Gopher": "g1"},
    mounts=(Mount("/h", container_path="/c", read_only=True),),
    device_nodes=(DeviceNode("/dev/h", container_path="/dev/c", permissions="rwm"),),
    annotations={"example.com/note": "x"},
    cdi_devices=("example.com/gopher=g1",),
)
G1, G2 = DeviceId("g1"), DeviceId("g2")


@pytest.fixture
def path(sockets: Path) -> Path:
    return sockets / "plugin.sock"


class Client(Protocol):
    async def connect(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


@asynccontextmanager
async def connected(client: C) -> AsyncIterator[C]:
    try:
        await client.connect(DEADLINE_S)
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def pair(path: Path, **plugin: object) -> AsyncIterator[tuple[FakePlugin, PluginClient]]:
    async with fake_plugin("example.com/gopher", path, [Device(G1)]) as fake, connected(PluginClient(path)) as client:
        vars(fake).update(plugin)
        yield fake, client


@asynccontextmanager
async def open_raw(path: Path, method: str) -> AsyncIterator[Callable[[bytes], Awaitable[bytes]]]:
    """A call that sends and receives bytes."""
    channel = open_channel(path)
    try:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        yield call
    finally:
        await channel.close()


async def failure_of(call: Awaitable[object]) -> RpcFailed:
    try:
        answer = await call
    except RpcFailed as failure:
        return failure
    raise AssertionError(f"did not fail: {answer}")


async def hang(*_: object) -> ContainerEdits:
    await asyncio.Event().wait()
    raise AssertionError("never set")
