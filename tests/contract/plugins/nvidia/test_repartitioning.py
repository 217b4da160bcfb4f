"""MIG devices that are destroyed and made while pods hold them and others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.ids import DeviceId
from plugbay.sdk.process import recent_allocations
from plugbay.testing.fakenvml import a100_nvswitch, fake_driver, h100_mig, in_mig_mode, lay_out_machine
from tests.contract.conftest import Plugbay
from tests.contract.rigs.gpu_node import gpu_node, unhealthy, until, watched
from tests.contract.rigs.gpu_pods import GpuPods, until_equal

MIXED = "--mig-strategy=mixed"


async def test_a_destroyed_mig_device_is_unhealthy_in_its_pod_and_nothing_else_is_disturbed(
    plugbay: Plugbay, nvml_library: Path, tmp_path: Path
) -> None:
    model, root = h100_mig(), tmp_path / "machine"
    lay_out_machine(root, model)
    async with fake_driver(model, library=nvml_library) as driver, plugbay.node_up():
        pods = GpuPods(plugbay, driver, root)
        async with pods.plugin(MIXED) as plugin:
            await pods.has("nvidia.com/mig-7g.80gb", 1)
            await pods.has("nvidia.com/mig-3g.40gb", 3)
            [seven] = await pods.run("seven", "nvidia.com/mig-7g.80gb")
            [whole] = await pods.run("whole")
            [three] = await pods.run("three", "nvidia.com/mig-3g.40gb")
            before = {name: await pods.container(name) for name in ("seven", "whole", "three")}

            fresh = in_mig_mode(model.gpus[5], "4g.40gb", "3g.40gb")
            assert fresh.mig is not None
            await driver.set_mig(5, fresh.mig)
            lay_out_machine(root, driver.machine)
            await pods.has("nvidia.com/mig-4g.40gb", 1)
            await pods.has("nvidia.com/mig-3g.40gb", 4)
            await until_equal(lambda: pods.held("seven"), {seven: "Unhealthy"})
            await pods.has("nvidia.com/mig-7g.80gb", 0)
            assert await pods.run("four", "nvidia.com/mig-4g.40gb") == [fresh.mig.devices[0].uuid]
            assert await pods.held("whole") == {whole: "Healthy"}
            assert await pods.held("three") == {three: "Healthy"}
            assert {name: await pods.container(name) for name in before} == before
            assert plugin.returncode is None

            await driver.set_mig(5, model.gpus[5].mig)
            lay_out_machine(root, driver.machine)
            await until_equal(lambda: pods.held("seven"), {seven: "Healthy"})
            await until_equal(lambda: pods.held("four"), {fresh.mig.devices[0].uuid: "Unhealthy"})
            assert {name: await pods.container(name) for name in before} == before


async def test_a_device_that_is_gone_leaves_the_list_with_its_pod(sockets: Path, nvml_library: Path) -> None:
    machine = h100_mig()
    gpu = machine.gpus[5]
    assert gpu.mig is not None
    [seven] = gpu.mig.devices
    async with gpu_node(machine, sockets, nvml_library, MIXED) as node:
        plugin = await node.resource("nvidia.com/mig-7g.80gb")
        await until(lambda: set(plugin.devices) == {seven.uuid})
        path = node.kubelet.paths.checkpoint
        entry = PodDevicesEntry("uid", "main", plugin.registration.resource_name, {0: [seven.uuid]})
        path.write_bytes(encode(CheckpointData([entry])))
        await node.driver.set_mig(gpu.uuid, in_mig_mode(gpu, "4g.40gb").mig)
        node.lay_out()
        await until(lambda: unhealthy(plugin) == {seven.uuid: "DeviceGone"})
        assert not plugin.ended.is_set()
        path.write_bytes(b"nothing that a kubelet writes")
        looks = node.source.view.looks if node.source.view else 0
        await until(lambda: node.source.view and node.source.view.looks > looks + 2)
        assert unhealthy(plugin) == {seven.uuid: "DeviceGone"}, "it may be held"
        path.write_bytes(encode(CheckpointData()))
        await plugin.until_ended()


async def test_a_device_that_was_just_given_out_stays_until_the_checkpoint_must_have_it(
    sockets: Path, nvml_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet writes its checkpoint after the answer to Allocate, and a node of ours up to a second later."""
    monkeypatch.setattr(recent_allocations, "UNWRITTEN_S", 3600.0)
    machine = h100_mig()
    gpu = machine.gpus[5]
    assert gpu.mig is not None
    [seven] = gpu.mig.devices
    async with gpu_node(machine, sockets, nvml_library, MIXED) as node:
        plugin = await node.resource("nvidia.com/mig-7g.80gb")
        await until(lambda: set(plugin.devices) == {seven.uuid})
        await plugin.client.allocate([DeviceId(seven.uuid)])
        await node.driver.set_mig(gpu.uuid, in_mig_mode(gpu, "4g.40gb").mig)
        node.lay_out()
        await until(lambda: unhealthy(plugin) == {seven.uuid: "DeviceGone"})
        monkeypatch.setattr(recent_allocations, "UNWRITTEN_S", 0.0)  # the time is over, and no checkpoint came
        await plugin.until_ended()


@pytest.mark.parametrize("recovery", ["never", "by-xid"])
async def test_a_gpu_that_was_taken_out_returns_healthy_also_if_a_pod_held_it(
    sockets: Path, nvml_library: Path, recovery: str
) -> None:
    machine = a100_nvswitch()
    rest, last = machine.gpus[:-1], machine.gpus[-1]
    async with gpu_node(machine, sockets, nvml_library, f"--health-recovery={recovery}") as node:
        plugin = await watched(node)
        entry = PodDevicesEntry("uid", "main", plugin.registration.resource_name, {0: [last.uuid]})
        node.kubelet.paths.checkpoint.write_bytes(encode(CheckpointData([entry])))
        await node.driver.xid(last.uuid, 79)
        await until(lambda: unhealthy(plugin) == {last.uuid: "Xid79"})
        await node.driver.replace(replace(machine, gpus=rest))
        await until(lambda: unhealthy(plugin) == {last.uuid: "DeviceGone"})
        await node.driver.replace(machine)
        await until(lambda: not unhealthy(plugin))
        assert len(plugin.devices) == len(machine.gpus)
        assert not plugin.ended.is_set()
