"""NVIDIA GPUs on a node of ours: pods hold them while worker, plugin, node and driver die, hang and come back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.testing.fakenvml import FakeDriver, FakeFault, a100_nvswitch, fake_driver, h100_mig, in_mig_mode
from plugbay.testing.fakenvml import lay_out_machine as lay_out
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.gpu_node import OFTEN
from tests.contract.rigs.nvidia import environ_of

READY = "--for=condition=Ready"


def pod(name: str, resource: str, count: int) -> str:
    limits = {resource: str(count)}
    container = {"name": "c", "image": "none", "command": ["sleep", "1000"], "resources": {"limits": limits}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


class Machine:
    """A node, the plugin, and the fake machine that both are on."""

    def __init__(self, plugbay: Plugbay, driver: FakeDriver, root: Path) -> None:
        self.plugbay = plugbay
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
        done = await self.plugbay("node", "wait", f"--for=resource={resource}={count}", "--timeout", f"{DEADLINE_S}s")
        assert done.code == 0, done

    async def run(self, name: str, resource: str = "nvidia.com/gpu", count: int = 1) -> list[str]:
        """Run a pod; returns the devices that its container sees."""
        done = await self.plugbay("pod", "run", "-f", "-", given=pod(name, resource, count))
        assert done.code == 0, done
        done = await self.plugbay("pod", "wait", name, READY, "--timeout", f"{DEADLINE_S}s")
        assert done.code == 0, done
        return await self.visible(name)

    async def visible(self, name: str) -> list[str]:
        done = await self.plugbay("pod", "exec", name, "--", "env")
        line = next(line for line in done.out.splitlines() if line.startswith("NVIDIA_VISIBLE_DEVICES="))
        return line.partition("=")[2].split(",")

    async def held(self, name: str) -> dict[str, str]:
        """The health of a pod's devices, as its status shows it."""
        found: dict[str, Any] = json.loads((await self.plugbay("pod", "get", name, "-o", "json")).out)
        status = found["status"]["containerStatuses"][0].get("allocatedResourcesStatus", [])
        return {each["resourceID"]: each["health"] for of in status for each in of["resources"]}


@pytest.fixture
def machine_root(tmp_path: Path) -> Path:
    return tmp_path / "machine"


async def until(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    seen: object = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while (seen := await look()) != wanted:  # noqa: ASYNC110  # as kubectl looks, which nothing tells
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"wanted {wanted}, saw {seen}") from None


async def test_pods_keep_their_gpus_when_plugin_and_node_are_killed(
    plugbay: Plugbay, nvml_library: Path, machine_root: Path
) -> None:
    model = a100_nvswitch()
    lay_out(machine_root, model)
    async with fake_driver(model, library=nvml_library) as driver:
        machine = Machine(plugbay, driver, machine_root)
        async with plugbay.node_up() as node:
            async with machine.plugin() as plugin:
                await machine.has("nvidia.com/gpu", 8)
                pair = await machine.run("pair", count=2)
                assert {pair[0], pair[1]} in [
                    {model.gpus[place].uuid, model.gpus[place + 1].uuid} for place in range(0, 8, 2)
                ], "two GPUs of one switch"
                plugin.kill()
                await plugin.wait()
            async with machine.plugin():
                await machine.has("nvidia.com/gpu", 8)
                assert await machine.visible("pair") == pair
                node.kill()
                await node.wait()
                async with plugbay.node_up():
                    await machine.has("nvidia.com/gpu", 8)
                    assert await machine.visible("pair") == pair
                    other = await machine.run("other", count=6)
                    assert not {*pair} & {*other}
                    await driver.xid(pair[0], 79)
                    await until(lambda: machine.held("pair"), {pair[0]: "Unhealthy", pair[1]: "Healthy"})
                    await driver.reload()
                    await until(lambda: machine.held("pair"), {pair[0]: "Healthy", pair[1]: "Healthy"})


async def test_mig_devices_are_made_while_pods_run(plugbay: Plugbay, nvml_library: Path, machine_root: Path) -> None:
    model = h100_mig()
    lay_out(machine_root, model)
    async with fake_driver(model, library=nvml_library) as driver, plugbay.node_up():
        machine = Machine(plugbay, driver, machine_root)
        async with machine.plugin("--mig-strategy=mixed"):
            await machine.has("nvidia.com/mig-7g.80gb", 1)
            before = await machine.run("whole")
            fresh = in_mig_mode(model.gpus[5], "4g.40gb", "3g.40gb")
            await driver.set_mig(5, fresh.mig)
            lay_out(machine_root, driver.machine)
            await machine.has("nvidia.com/mig-4g.40gb", 1)
            assert fresh.mig is not None
            assert await machine.run("part", "nvidia.com/mig-4g.40gb") == [fresh.mig.devices[0].uuid]
            assert await machine.visible("whole") == before
            assert await machine.held("whole") == {before[0]: "Healthy"}


async def test_a_hung_driver_and_killed_workers_leave_pods_alone(
    plugbay: Plugbay, nvml_library: Path, machine_root: Path
) -> None:
    model = a100_nvswitch()
    lay_out(machine_root, model)
    async with fake_driver(model, library=nvml_library) as driver, plugbay.node_up():
        machine = Machine(plugbay, driver, machine_root)
        async with machine.plugin() as plugin:
            await machine.has("nvidia.com/gpu", 8)
            held = await machine.run("one")
            for worker in children(plugin.pid):
                os.kill(worker, signal.SIGKILL)
            await driver.misbehave(FakeFault("nvmlDeviceGetTemperature", hang=True))
            await asyncio.sleep(0.5)
            await driver.misbehave()
            await until(lambda: machine.held("one"), {held[0]: "Healthy"})
            assert plugin.returncode is None
            await machine.run("two")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
