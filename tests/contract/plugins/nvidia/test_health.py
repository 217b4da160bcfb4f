"""The health of GPUs at the kubelet: events, recovery, lost GPUs, and drivers that hang, crash or are loaded anew."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import RpcFailed
from plugbay.model.ids import DeviceId
from plugbay.testing.fakenvml import FakeFault, a100_nvswitch, h100_mig, lay_out_wsl, t4
from tests.contract.rigs.gpu_node import GpuNode, gpu_node, unhealthy, until, watched
from tests.contract.rigs.nvidia import DEADLINE_S, impatient

SOON = "--health-clean-time=200ms"


async def test_scenario_96_an_xid_is_at_the_kubelet_at_once(sockets: Path, nvml_library: Path) -> None:
    """Scenario 96: the list is whole, and the device is not given out any more. The bench measures how soon."""
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await watched(node)
        await node.driver.xid(3, 79)
        await until(lambda: unhealthy(plugin))
        assert unhealthy(plugin) == {machine.gpus[3].uuid: "Xid79"}
        assert set(plugin.devices) == {gpu.uuid for gpu in machine.gpus}
        with pytest.raises(RpcFailed, match="Xid79"):
            await plugin.client.allocate([DeviceId(machine.gpus[3].uuid)])


async def test_scenario_100_an_xid_of_a_mig_instance_marks_its_devices(sockets: Path, nvml_library: Path) -> None:
    """Scenario 100, as it was intended: every device is watched, not one of each GPU."""
    machine = h100_mig()
    gpu = machine.gpus[3]
    assert gpu.mig is not None
    one, other = gpu.mig.devices
    async with gpu_node(machine, sockets, nvml_library, "--mig-strategy=mixed") as node:
        plugin = await node.resource("nvidia.com/mig-3g.40gb")
        await watched(node, plugin)
        await node.driver.xid(3, 79, gpu_instance=other.gpu_instance, compute_instance=other.compute_instance)
        await until(lambda: unhealthy(plugin))
        assert unhealthy(plugin) == {other.uuid: "Xid79"}
        await node.driver.xid(3, 79)
        await until(lambda: unhealthy(plugin) == {one.uuid: "Xid79", other.uuid: "Xid79"})


async def test_scenario_100_all_replicas_of_a_gpu_are_marked(sockets: Path, nvml_library: Path) -> None:
    """Scenario 100."""
    config = sockets / "config.yaml"
    config.write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}\n")
    async with gpu_node(t4(), sockets, nvml_library, f"--config-file={config}") as node:
        plugin = await watched(node)
        await node.driver.xid(0, 79)
        await until(lambda: len(unhealthy(plugin)) == 3)


async def test_a_grave_xid_stays_until_the_gpu_was_reset(sockets: Path, nvml_library: Path) -> None:
    machine = a100_nvswitch()
    uuid = machine.gpus[3].uuid
    async with gpu_node(machine, sockets, nvml_library, SOON) as node:
        plugin = await watched(node)
        await node.driver.xid(3, 79)
        await until(lambda: unhealthy(plugin) == {uuid: "Xid79"})
        await node.driver.lose(3)
        await until(lambda: unhealthy(plugin) == {uuid: "GpuLost"})
        await node.driver.restore(3)
        await until(lambda: not unhealthy(plugin))


async def test_never_is_never(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(t4(), sockets, nvml_library, SOON, "--health-recovery=never") as node:
        plugin = await watched(node)
        await node.driver.xid(0, 94)
        await until(lambda: unhealthy(plugin))
        await node.driver.reload()
        await asyncio.sleep(1)
        assert unhealthy(plugin)


@pytest.mark.parametrize("recovery", ["never", "clean", "reset", "by-xid"])
async def test_an_operator_brings_devices_back_with_sighup(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture, recovery: str
) -> None:
    machine = a100_nvswitch()
    good, bad = machine.gpus[1].uuid, machine.gpus[2].uuid
    async with gpu_node(machine, sockets, nvml_library, f"--health-recovery={recovery}") as node:
        plugin = await watched(node)
        await node.driver.misbehave(FakeFault("nvmlDeviceGetTemperature", bad, result=999))
        for gpu in (1, 2):
            await node.driver.xid(gpu, 79)
        await until(lambda: set(unhealthy(plugin)) == {good, bad})
        node.look_again()  # as SIGHUP does
        plugin = await watched(node)
        await until(lambda: set(unhealthy(plugin)) == {bad})
        await until(lambda: f"{bad} stays unhealthy after the probe on SIGHUP: XID 79" in caplog.text)
        await node.driver.misbehave()
        node.look_again()
        plugin = await watched(node)
        await until(lambda: not unhealthy(plugin))


async def test_a_lost_gpu_spoils_nothing_else(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference cannot answer any preference then, and cannot start."""
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await watched(node)
        await node.driver.lose(2)
        await until(lambda: unhealthy(plugin) == {machine.gpus[2].uuid: "GpuLost"})
        free = [DeviceId(gpu.uuid) for gpu in machine.gpus if gpu is not machine.gpus[2]]
        chosen = await plugin.client.preferred_allocation(free, [], 2)
        assert set(chosen) == {machine.gpus[0].uuid, machine.gpus[1].uuid}
        assert len(plugin.devices) == 8
        assert "is not offered" not in caplog.text, "it is, as unhealthy"
        await node.driver.restore(2)
        await until(lambda: not unhealthy(plugin))


async def test_a_driver_that_is_loaded_anew_brings_its_gpus_back(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(t4(), sockets, nvml_library) as node:
        plugin = await watched(node)
        await node.driver.xid(0, 79)
        await until(lambda: set(unhealthy(plugin).values()) == {"Xid79"})
        await node.driver.unload()
        await until(lambda: set(unhealthy(plugin).values()) == {"DriverNotLoaded"})
        await node.driver.reload("570.0.1")
        await until(lambda: not unhealthy(plugin))
        await node.driver.xid(0, 79)
        await until(lambda: unhealthy(plugin))  # events come from the new driver too


async def test_a_driver_loaded_anew_while_no_worker_ran_brings_its_gpus_back(sockets: Path, nvml_library: Path) -> None:
    """The new worker finds a driver that takes it; only the kernel's module tells that it is another one."""
    async with gpu_node(t4(), sockets, nvml_library, SOON) as node:
        plugin = await watched(node)
        await node.driver.xid(0, 79)
        await until(lambda: set(unhealthy(plugin).values()) == {"Xid79"})
        await kill_worker(node)
        await until_watched(node)
        assert set(unhealthy(plugin).values()) == {"Xid79"}, "the GPU was not reset"
        await node.driver.misbehave(FakeFault("nvmlInit", hang=True))  # the next worker waits outside
        await kill_worker(node)
        await node.driver.reload()
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))


async def kill_worker(node: GpuNode) -> None:
    """Kill the worker; another one takes its place."""
    view = node.source.view
    assert view is not None
    pid = view.nvml.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: view.nvml.pid not in (None, pid))


async def test_a_hung_driver_is_told_and_does_no_harm(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(t4(), sockets, nvml_library) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        with impatient(view.nvml, survey_s=0.5, gpu_s=0.5, probe_s=0.5):
            await node.driver.misbehave(FakeFault("nvmlDeviceGetName", hang=True))
            await until(lambda: set(unhealthy(plugin).values()) == {"DriverHung"})
            assert not plugin.ended.is_set()
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))


async def test_a_killed_worker_is_replaced_and_no_event_is_missed(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(t4(), sockets, nvml_library) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        for _ in range(3):
            await kill_worker(node)
        await until_watched(node)
        await until(lambda: not unhealthy(plugin))
        await node.driver.xid(0, 79)
        await until(lambda: set(unhealthy(plugin).values()) == {"Xid79"})
        assert not plugin.ended.is_set()


async def test_a_worker_killed_in_the_middle_of_a_look_changes_no_device(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gpu_node(t4(), sockets, nvml_library) as node:
        await watched(node)
        view = node.source.view
        assert view is not None
        await node.driver.misbehave(FakeFault("nvmlDeviceGetName", hang=True))
        looks = view.looks
        await until(lambda: view.looks > looks)
        await kill_worker(node)
        await node.driver.misbehave()
        await until(lambda: view.looks > looks + 2)
        assert "is Unknown" not in caplog.text


@pytest.mark.parametrize("value", ["all", " XIDS "])
async def test_scenario_92_nothing_is_watched_where_everything_is_disabled(
    sockets: Path, nvml_library: Path, value: str
) -> None:
    """Scenario 92: no event set is made, and no GPU is probed. Either would end the worker here."""
    deadly = [FakeFault(each, signal=signal.SIGKILL) for each in ("nvmlEventSetCreate", "nvmlDeviceGetTemperature")]
    variables = {"DP_DISABLE_HEALTHCHECKS": value}
    async with gpu_node(t4(), sockets, nvml_library, variables=variables, faults=deadly) as node:
        plugin = await node.resource()
        view = node.source.view
        assert view is not None
        pid = view.nvml.pid
        await until(lambda: view.looks >= 5)
        assert view.nvml.pid == pid
        assert plugin.devices
        assert not unhealthy(plugin)


async def test_a_lost_gpu_comes_back_also_where_everything_is_disabled(sockets: Path, nvml_library: Path) -> None:
    machine = a100_nvswitch()
    variables = {"DP_DISABLE_HEALTHCHECKS": "all"}
    async with gpu_node(machine, sockets, nvml_library, variables=variables) as node:
        plugin = await node.resource()
        await until(lambda: plugin.devices)
        await node.driver.lose(2)
        await until(lambda: unhealthy(plugin) == {machine.gpus[2].uuid: "GpuLost"})
        await node.driver.restore(2)
        await until(lambda: not unhealthy(plugin))


async def test_scenario_98_after_a_wait_that_fails_devices_are_probed(sockets: Path, nvml_library: Path) -> None:
    """The reference marks all of them, for good."""
    machine = a100_nvswitch()
    bad = machine.gpus[5]
    async with gpu_node(machine, sockets, nvml_library, SOON) as node:
        plugin = await watched(node)
        await node.driver.misbehave(
            FakeFault("nvmlEventSetWait", result=999), FakeFault("nvmlDeviceGetTemperature", bad.uuid, result=999)
        )
        await node.driver.xid(0, 13)  # wakes the wait
        await until(lambda: unhealthy(plugin) == {bad.uuid: "ProbeFailed"})
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))
        await until_watched(node)
        await node.driver.xid(2, 79)
        await until(lambda: unhealthy(plugin) == {machine.gpus[2].uuid: "Xid79"})


async def test_scenario_99_gpus_that_cannot_be_watched(sockets: Path, nvml_library: Path) -> None:
    """The reference does not try again; here a failure that goes by costs no GPU for good."""
    machine = a100_nvswitch()
    old, broken, mute = machine.gpus[1], machine.gpus[4], machine.gpus[6]
    faults = [
        FakeFault("nvmlDeviceRegisterEvents", old.uuid, result=3),
        FakeFault("nvmlDeviceRegisterEvents", broken.uuid, result=999),
        FakeFault("nvmlDeviceGetSupportedEventTypes", mute.uuid, result=3),
    ]
    async with gpu_node(machine, sockets, nvml_library, faults=faults, check_s=0.2) as node:
        plugin = await watched(node)
        await until(lambda: unhealthy(plugin) == {broken.uuid: "NotWatched", mute.uuid: "NotWatched"})
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))
        await node.driver.xid(broken.uuid, 79)
        await until(lambda: unhealthy(plugin) == {broken.uuid: "Xid79"})


async def test_a_gpu_that_fails_a_probe_is_not_offered_at_the_start_either(sockets: Path, nvml_library: Path) -> None:
    """A plugin that starts anew knows nothing of the XIDs before."""
    rows = {"corrected": 0, "uncorrected": 1, "pending": True, "failed": False}
    machine = a100_nvswitch().with_gpu(2, remapped_rows=rows)
    uuid = machine.gpus[2].uuid
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await node.resource()
        await until(lambda: plugin.devices)
        assert unhealthy(plugin) == {uuid: "ProbeFailed"}
        await node.driver.replace(machine.with_gpu(2, remapped_rows={**rows, "pending": False}))
        await until(lambda: not unhealthy(plugin))


async def test_a_gpu_that_is_plugged_in_is_probed_before_it_is_offered(sockets: Path, nvml_library: Path) -> None:
    machine = a100_nvswitch()
    async with gpu_node(replace(machine, gpus=machine.gpus[:2]), sockets, nvml_library) as node:
        plugin = await watched(node)
        await node.driver.misbehave(FakeFault("nvmlDeviceGetTemperature", machine.gpus[2].uuid, result=999))
        await node.driver.replace(replace(machine, gpus=machine.gpus[:3]))
        await until(lambda: len(plugin.devices) == 3)
        assert unhealthy(plugin) == {machine.gpus[2].uuid: "ProbeFailed"}
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))


async def test_all_gpus_of_a_wsl_machine_come_back_together(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(a100_nvswitch(), sockets, nvml_library, SOON, "--device-discovery-strategy=nvml") as node:
        lay_out_wsl(node.root)
        plugin = await watched(node)
        await until(lambda: set(plugin.devices) == {"all"})
        await node.driver.xid(3, 94)
        await until(lambda: unhealthy(plugin) == {"all": "Xid94"})
        await until(lambda: not unhealthy(plugin))


async def until_watched(node: GpuNode) -> None:
    """Wait until a GPU's XIDs are seen: one that marks nothing is counted."""
    counts = node.source.health.xid_counts
    before = counts.total()
    async with asyncio.timeout(DEADLINE_S):
        while counts.total() == before:
            await node.driver.xid(0, 13)
            await asyncio.sleep(0.05)
