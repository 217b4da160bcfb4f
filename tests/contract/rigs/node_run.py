"""A whole node in the test's process, its plugin, and a clock that can leap."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plugbay.cli.kubectl.client import NodeClient
from plugbay.cli.kubectl.exec_channels import CommandEnd
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.node.api.streams.channels import StreamChannel
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock, SystemClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin

RESOURCE = "example.com/gopher"
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 30

Json = dict[str, Any]


class Node:
    """A node and its client."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.client = NodeClient(config.root)

    async def get(self, path: str, **query: str) -> Any:
        return await asyncio.to_thread(self.client.get, path, query)

    async def create(self, pod: Json) -> Any:
        return await asyncio.to_thread(self.client.create, PODS, pod)

    async def delete(self, name: str, **query: str) -> Any:
        return await asyncio.to_thread(self.client.delete, f"{PODS}/{name}", query)

    async def until(self, path: str, wanted: Callable[[str, Any], bool]) -> Any:
        """The first object in a watch that is ``wanted``."""

        def look() -> Any:
            with self.client.watch(path) as events:
                return next(event.object for event in events if wanted(event.type, event.object))

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(look)

    async def pod_in(self, name: str, phase: str) -> Any:
        return await self.until(PODS, lambda _, pod: name_of(pod) == name and pod["status"]["phase"] == phase)

    async def gone(self, name: str, **query: str) -> None:
        """Delete a pod; returns when it is gone."""

        def delete() -> None:
            with self.client.watch(PODS) as events:
                self.client.delete(f"{PODS}/{name}", query)
                next(event for event in events if event.type == "DELETED" and name_of(event.object) == name)

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.to_thread(delete)

    async def until_gone(self, name: str, path: str = PODS) -> None:
        """Return when the list at ``path`` has no such object any more: one that goes by itself, or was deleted."""

        def look() -> None:
            with self.client.watch(path) as events:
                if self.client.find(f"{path}/{name}") is not None:  # asked now: it may be gone before the watch began
                    next(event for event in events if event.type == "DELETED" and name_of(event.object) == name)

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.to_thread(look)

    async def event(self, reason: str, about: str) -> Any:
        return await self.until(
            "/api/v1/events", lambda _, event: event["reason"] == reason and event["involvedObject"]["name"] == about
        )

    async def log(self, name: str) -> bytes:
        def read() -> bytes:
            with self.client.read(f"{PODS}/{name}/log", {"follow": "true"}) as chunks:
                return b"".join(chunks)

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(read)

    async def first_words(self, name: str) -> bytes:
        """What a running container writes first, in one piece."""

        def read() -> bytes:
            with self.client.read(f"{PODS}/{name}/log", {"follow": "true"}) as chunks:
                return next(iter(chunks))

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(read)

    async def exec(self, name: str, *argv: str) -> tuple[bytes, bytes, CommandEnd]:
        """Standard output and standard error of a command, and its end."""

        def run() -> tuple[bytes, bytes, CommandEnd]:
            printed = {StreamChannel.STDOUT: b"", StreamChannel.STDERR: b""}
            with self.client.exec(f"{PODS}/{name}/exec", {}, argv) as connection:
                while connection.is_open:
                    for channel, chunk in connection.receive():
                        printed[channel] += chunk
                return printed[StreamChannel.STDOUT], printed[StreamChannel.STDERR], connection.end()

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(run)


def name_of(value: Any) -> Any:
    return value["metadata"]["name"]


class LeapingClock(SystemClock):
    """The machine's, until a test has it leap; who was to sleep until then wakes."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._leaps = Changes()

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead_s)

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        end, loop = self.monotonic() + seconds, asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async for _ in self._leaps:
                    limit.reschedule(loop.time() + end - self.monotonic())

    def leap(self, seconds: float) -> None:
        self._ahead_s += seconds
        self._leaps.notify()


@asynccontextmanager
async def running_node(root: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Node]:
    config, clock = NodeConfig(root, name="n1", **settings), clock or SystemClock()
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_node(config, environ=os.environ, clock=clock, stop=stop, ready=ready.set))
        await ready.wait()
        try:
            yield Node(config)
        finally:
            stop.set()


@asynccontextmanager
async def gophers(node: Node, *ids: str, name: str = "gopher") -> AsyncIterator[FakePlugin]:
    socket = node.config.kubelet_paths.device_plugins / f"{name}.sock"
    async with fake_plugin(RESOURCE, socket, [Device(DeviceId(each)) for each in ids]) as plugin:
        await plugin.register(node.config.kubelet_paths.registration_socket)
        yield plugin


def pod(name: str, *command: str, gophers: int = 0, **spec: Any) -> Json:
    container: Json = {"name": "c", "image": "busybox", "command": list(command) or ["sleep", "1000"]}
    if gophers:
        container["resources"] = {"limits": {RESOURCE: str(gophers)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2, **spec},
    }


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets / "node"
