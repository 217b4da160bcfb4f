"""What tests of a serving plugin share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay import Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.serving.states import State
from plugbay.sdk.watching import watching

NAME = "example.com/thing"
DEADLINE_S = 30


class Things(DevicePlugin):
    """A plugin whose devices a test sets."""

    resource_name = NAME

    def __init__(self, *names: str) -> None:
        self.devices: Iterable[Device] = [Device(name, env={"THINGS": name}) for name in names]

    def discover(self) -> Iterable[Device]:
        return self.devices


def ids(*names: str) -> list[DeviceId]:
    return [DeviceId(name) for name in names]


@asynccontextmanager
async def serving(plugin: DevicePlugin, root: Path) -> AsyncIterator[PluginServer]:
    """The plugin served until the block ends, and nothing left of it."""
    async with running(PluginServer(plugin, KubeletPaths(root))) as server:
        yield server
    assert not list((root / "device-plugins").glob("example*.sock"))


@asynccontextmanager
async def running(server: PluginServer) -> AsyncIterator[PluginServer]:
    """``server`` at work until the block ends, then stopped in order."""
    async with watching() as watches, asyncio.TaskGroup() as tasks:
        work = tasks.create_task(server.run(watches))
        try:
            yield server
        finally:
            server.stop()
            async with asyncio.timeout(DEADLINE_S):
                await work
    assert server.state is State.STOPPED


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)
