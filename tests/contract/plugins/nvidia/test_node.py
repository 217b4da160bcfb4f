"""NVIDIA GPUs on a node of ours: pods hold them while worker, plugin, node and driver die, hang and come back."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from plugbay.testing.fakenvml import FakeFault, a100_nvswitch, fake_driver, h100_mig, in_mig_mode
from plugbay.testing.fakenvml import lay_out_machine as lay_out
from tests.contract.conftest import Plugbay
from tests.contract.rigs.gpu_pods import GpuPods, children, until_equal


@pytest.fixture
def machine_root(tmp_path: Path) -> Path:
    return tmp_path / "machine"


async def test_pods_keep_their_gpus_when_plugin_and_node_are_killed(
    plugbay: Plugbay, nvml_library: Path, machine_root: Path
) -> None:
    model = a100_nvswitch()
    lay_out(machine_root, model)
    async with fake_driver(model, library=nvml_library) as driver:
        machine = GpuPods(plugbay, driver, machine_root)
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
                    await until_equal(lambda: machine.held("pair"), {pair[0]: "Unhealthy", pair[1]: "Healthy"})
                    await driver.reload()
                    await until_equal(lambda: machine.held("pair"), {pair[0]: "Healthy", pair[1]: "Healthy"})


async def test_mig_devices_are_made_while_pods_run(plugbay: Plugbay, nvml_library: Path, machine_root: Path) -> None:
    model = h100_mig()
    lay_out(machine_root, model)
    async with fake_driver(model, library=nvml_library) as driver, plugbay.node_up():
        machine = GpuPods(plugbay, driver, machine_root)
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
        machine = GpuPods(plugbay, driver, machine_root)
        async with machine.plugin() as plugin:
            await machine.has("nvidia.com/gpu", 8)
            held = await machine.run("one")
            for worker in children(plugin.pid):
                os.kill(worker, signal.SIGKILL)
            await driver.misbehave(FakeFault("nvmlDeviceGetTemperature", hang=True))
            await asyncio.sleep(0.5)
            await driver.misbehave()
            await until_equal(lambda: machine.held("one"), {held[0]: "Healthy"})
            assert plugin.returncode is None
            await machine.run("two")
