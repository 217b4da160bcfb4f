"""Pods on a node of ours with the NVIDIA plugin on a fake driver, all of them processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from pathlib import Path

from plugbay.node.config import NodeConfig
from plugbay.testing.fakenvml import FakeDriver, FakeMachine, fake_driver, lay_out_machine
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.gpu_node import OFTEN
from tests.contract.rigs.node_run import PODS, Json, Node, name_of
from tests.contract.rigs.nvidia import environ_of


def pod(name: str, resource: str, count: int) -> Json:
    limits = {resource: str(count)}
    container = {"name": "c", "image": "none", "command": ["sleep", "1000"], "resources": {"limits": limits}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class GpuPods:
    """Pods on a node of ours with the NVIDIA plugin, and the fake machine that both are on.

    The node and the plugin are processes. Questions to the node come from this one, as each command would take a tenth
    of a second of processor time to start.
    """

    def __init__(self, plugbay: Plugbay, driver: FakeDriver, root: Path) -> None:
        self.plugbay = plugbay
        self.node = Node(NodeConfig(plugbay.root, name="n1"))
        self.driver = driver
        self.root = root

    @asynccontextmanager
    async def plugin(self, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
        roots = ("--driver-root-ctr-path=/", f"--machine-root={self.root}")
        environ = environ_of(self.driver)
        async with self.plugbay.start(
            "serve", "nvidia", *roots, OFTEN, *flags, env=environ, stderr=asyncio.subprocess.DEVNULL
        ) as plugin:
            yield plugin

    async def has(self, resource: str, count: int) -> None:
        """Wait until the node offers so many devices."""
        await self.node.until(
            "/api/v1/nodes", lambda _, node: node["status"]["allocatable"].get(resource) == str(count)
        )

    async def apply(self, name: str, resource: str = "nvidia.com/gpu", count: int = 1) -> None:
        """Ask for a pod."""
        await self.node.create(pod(name, resource, count))

    async def run(self, name: str, resource: str = "nvidia.com/gpu", count: int = 1) -> list[str]:
        """Run a pod; returns the devices that its container sees."""
        await self.apply(name, resource, count)
        await self.node.until(PODS, lambda _, pod: name_of(pod) == name and is_ready(pod))
        return await self.visible(name)

    async def visible(self, name: str) -> list[str]:
        """The devices that the pod's container sees."""
        out, _, _ = await self.node.exec(name, "env")
        line = next(line for line in out.decode().splitlines() if line.startswith("NVIDIA_VISIBLE_DEVICES="))
        return line.partition("=")[2].split(",")

    async def status(self, name: str) -> Json:
        """The pod's status."""
        status: Json = (await self.node.get(f"{PODS}/{name}"))["status"]
        return status

    async def container(self, name: str) -> tuple[str, int]:
        """The ID of the pod's container, and how often it was started again."""
        [status] = (await self.status(name))["containerStatuses"]
        return status["containerID"], status["restartCount"]

    async def held(self, name: str) -> dict[str, str]:
        """The health of a pod's devices, as its status shows it."""
        [container] = (await self.status(name)).get("containerStatuses") or [{}]
        status = container.get("allocatedResourcesStatus", [])
        return {each["resourceID"]: each["health"] for of in status for each in of["resources"]}


def is_ready(pod: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))


class Victim(Enum):
    """A process to be killed."""

    WORKER = "worker"
    PLUGIN = "plugin"
    NODE = "node"


class KilledParts:
    """A node and a plugin that are started again when they were killed, as systemd and a DaemonSet do.

    Attributes:
        pods: what runs there.
    """

    def __init__(self, pods: GpuPods, up: AsyncExitStack, flags: tuple[str, ...]) -> None:
        self.pods = pods
        self._up = up
        self._flags = flags
        self._node: asyncio.subprocess.Process | None = None
        self._plugin: asyncio.subprocess.Process | None = None

    @property
    def plugin_pid(self) -> int:
        assert self._plugin is not None
        return self._plugin.pid

    async def start_node(self) -> None:
        self._node = await self._up.enter_async_context(self.pods.plugbay.node_up())

    async def start_plugin(self) -> None:
        self._plugin = await self._up.enter_async_context(self.pods.plugin(*self._flags))

    async def kill(self, victim: Victim) -> None:
        """Kill a part with SIGKILL, and start it again unless others have to do that."""
        match victim:
            case Victim.WORKER:
                for worker in children(self.plugin_pid):
                    os.kill(worker, signal.SIGKILL)
            case Victim.PLUGIN:
                assert self._plugin is not None
                self._plugin.kill()
                await self._plugin.wait()
                await self.start_plugin()
            case Victim.NODE:
                assert self._node is not None
                self._node.kill()
                await self._node.wait()
                await self.start_node()


@asynccontextmanager
async def killed_parts(
    plugbay: Plugbay, library: Path, machine: FakeMachine, root: Path, *flags: str
) -> AsyncIterator[KilledParts]:
    """A node that is up, and a plugin that the test starts."""
    lay_out_machine(root, machine)
    async with fake_driver(machine, library=library, root=root) as driver, AsyncExitStack() as up:
        parts = KilledParts(GpuPods(plugbay, driver, root), up, flags)
        await parts.start_node()
        yield parts


async def until_equal(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    seen: object = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while (seen := await look()) != wanted:  # noqa: ASYNC110  # as kubectl looks, which nothing tells
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"wanted {wanted}, saw {seen}") from None


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
