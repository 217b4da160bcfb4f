"""Full disks, storms of events, switches at bad moments: health is told all the same, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import DriverUnusable
from plugbay.model.ids import DeviceId
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.plugins.nvidia.serving.dispensable import DispensableQuestions
from plugbay.testing.fakenvml import FakeFault, FakeMachine, a100_nvswitch, lay_out_devices, lay_out_driver, t4
from tests.contract.rigs.gpu_node import gpu_node, unhealthy, until, watched
from tests.contract.rigs.nvidia import impatient

CDI = ("--device-list-strategy=cdi-cri", "--nvidia-driver-root=/")
LOOKS = 10
"""So many looks at a driver that dies tell whether each of them lets it die."""
DEADLY: list[dict[str, Any]] = [{"signal": signal.SIGSEGV}, {"hang": True}]
GPU_SPEC = "k8s.device-plugin.nvidia.com-gpu.json"


def small(machine: FakeMachine, count: int) -> FakeMachine:
    return type(machine)(machine.gpus[:count], machine.driver_version)


@pytest.mark.usefixtures("may_make_nodes")
async def test_a_lost_gpu_is_unhealthy_also_while_no_cdi_spec_can_be_written(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = a100_nvswitch()
    lay_out_driver(sockets / "machine", machine.driver_version)
    async with gpu_node(small(machine, 3), sockets, nvml_library, *CDI, has_nodes=True) as node:
        plugin = await watched(node)
        shutil.rmtree(sockets / "cdi")
        (sockets / "cdi").touch()  # as full as a directory can be
        lay_out_devices(node.root, machine, with_device_nodes=True)
        await node.driver.lose(1)
        await until(lambda: unhealthy(plugin) == {machine.gpus[1].uuid: "GpuLost"})
        await node.driver.replace(small(machine, 4))
        await until(lambda: node.source.sight is not None and len(node.source.sight.gpu_uuids) == 4)
        await until(lambda: not unhealthy(plugin))
        assert len(plugin.devices) == 3, "no engine would find the fourth one's spec"
        await node.driver.replace(small(machine, 2))
        await until(lambda: len(plugin.devices) == 2)
        assert caplog.text.count("no GPU is added") == 1
        (sockets / "cdi").unlink()
        await node.driver.replace(small(machine, 4))
        await until(lambda: len(plugin.devices) == 4)
        spec = json.loads((sockets / "cdi" / GPU_SPEC).read_text())
        assert len(spec["devices"]) == 4
        assert not plugin.ended.is_set()


@pytest.mark.usefixtures("may_make_nodes")
async def test_a_cdi_spec_that_is_removed_is_written_again(sockets: Path, nvml_library: Path) -> None:
    """As by a cleaner of ``/var/run``, or an engine that is installed anew."""
    machine = t4()
    lay_out_driver(sockets / "machine", machine.driver_version)
    async with gpu_node(machine, sockets, nvml_library, *CDI, has_nodes=True) as node:
        await watched(node)
        path = sockets / "cdi" / GPU_SPEC
        before = path.read_bytes()
        path.unlink()
        await until(path.exists)
        assert path.read_bytes() == before


async def test_what_lies_in_the_way_of_specs_is_told_and_ends_nothing(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = t4()
    lay_out_driver(sockets / "machine", machine.driver_version)
    (sockets / "cdi/k8s.device-plugin.nvidia.com-gds.json").mkdir(parents=True)
    async with gpu_node(machine, sockets, nvml_library, *CDI, "--fail-on-init-error=false") as node:
        await until(lambda: "k8s.device-plugin.nvidia.com-gds.json" in caplog.text)
        assert "Traceback" not in caplog.text
        (sockets / "cdi/k8s.device-plugin.nvidia.com-gds.json").rmdir()
        await watched(node)


async def test_a_storm_of_xids_is_counted_and_does_not_keep_the_plugin_busy(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        looks = view.looks
        caplog.set_level(logging.INFO)
        for _ in range(300):
            await node.driver.xid(0, 31)
            await node.driver.xid(1, 79)
        uuids = [gpu.uuid for gpu in machine.gpus]
        await until(lambda: node.source.health.xid_counts == {(uuids[0], 31): 300, (uuids[1], 79): 300})
        assert unhealthy(plugin) == {uuids[1]: "Xid79"}
        assert caplog.text.count("XID 31") <= 10
        assert view.looks - looks < 100
        answer = await plugin.client.allocate([DeviceId(uuids[0])])
        assert answer is not None


async def test_an_xid_while_gpus_are_watched_anew_is_not_lost(sockets: Path, nvml_library: Path) -> None:
    machine = a100_nvswitch()
    async with gpu_node(small(machine, 2), sockets, nvml_library) as node:
        plugin = await watched(node)
        await node.driver.misbehave(FakeFault("nvmlDeviceGetSupportedEventTypes", hang=True))
        await node.driver.replace(small(machine, 3))
        await until(lambda: len(plugin.devices) == 3)
        await node.driver.xid(0, 79)
        await until(lambda: node.source.health.xid_counts)
        await node.driver.misbehave()
        await until(lambda: unhealthy(plugin) == {machine.gpus[0].uuid: "Xid79"})


async def test_a_configuration_is_switched_under_a_stream_of_allocations(sockets: Path, nvml_library: Path) -> None:
    """Each answer is that of one configuration, whole."""
    config = sockets / "config.yaml"
    plain, nodes = "version: v1\n", "flags: {plugin: {passDeviceSpecs: true, deviceIDStrategy: index}}\n"
    config.write_text(plain)
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library, f"--config-file={config}") as node:
        plugin = await watched(node)
        seen: set[tuple[str, bool]] = set()
        wanted = {(machine.gpus[3].uuid, False), ("3", True)}

        async def allocate() -> None:
            while True:
                answer = await plugin.client.allocate([DeviceId(machine.gpus[3].uuid)])
                assert answer is not None
                seen.add((answer.edits.env["NVIDIA_VISIBLE_DEVICES"], bool(answer.edits.device_nodes)))

        async with asyncio.TaskGroup() as tasks:
            allocating = [tasks.create_task(allocate()) for _ in range(4)]
            for turn in range(3):
                seen.clear()
                config.write_text(nodes if turn % 2 == 0 else plain)
                await until(lambda: seen >= wanted)
            for each in allocating:
                each.cancel()
        assert seen <= wanted
        assert not plugin.ended.is_set()


@pytest.mark.parametrize("fault", DEADLY, ids=["crashes", "hangs"])
async def test_one_gpu_on_which_the_driver_dies_leaves_the_others_alone(
    sockets: Path, nvml_library: Path, fault: dict[str, Any]
) -> None:
    """It would be probed again with every look, and with each worker that dies the next one would come later."""
    machine = a100_nvswitch()
    sick = machine.gpus[1].uuid
    async with gpu_node(machine, sockets, nvml_library, "--health-clean-time=200ms") as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        probe_s = 2.0 if "hang" in fault else view.nvml.settings.probe_s
        workers: set[int | None] = set()
        with impatient(view.nvml, probe_s=probe_s):
            await node.driver.misbehave(FakeFault("nvmlDeviceGetTemperature", gpu=sick, **fault))
            await node.driver.xid(1, 94)
            await until(lambda: unhealthy(plugin) == {sick: "Xid94"})
            looks = view.looks
            while view.looks < looks + LOOKS:
                assert unhealthy(plugin) == {sick: "Xid94"}
                workers.add(view.nvml.pid)
                await asyncio.sleep(0.01)
        assert 1 < len(workers - {None}) <= LOOKS / 2, "not every look costs a worker"
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))
        assert not plugin.ended.is_set()


@pytest.mark.parametrize(
    ("function", "fault"),
    list(zip(("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName"), DEADLY, strict=True)),
    ids=["crashes", "hangs"],
)
async def test_a_gpu_of_which_the_driver_dies_at_a_look_is_unhealthy_and_no_other(
    sockets: Path, nvml_library: Path, function: str, fault: dict[str, Any]
) -> None:
    machine = a100_nvswitch()
    sick = machine.gpus[1].uuid
    async with gpu_node(machine, sockets, nvml_library, gpu_rest_s=2.0) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        with impatient(view.nvml, gpu_s=2.0):
            await node.driver.misbehave(FakeFault(function, gpu=sick, **fault))
            await until(lambda: unhealthy(plugin))
            assert unhealthy(plugin) == {sick: "GpuLost"}
            looks = view.looks
            await until(lambda: view.looks >= looks + LOOKS)
            assert unhealthy(plugin) == {sick: "GpuLost"}
            await node.driver.xid(5, 79)
            await until(lambda: unhealthy(plugin) == {sick: "GpuLost", machine.gpus[5].uuid: "Xid79"})
        await node.driver.misbehave()
        await until(lambda: sick not in unhealthy(plugin))
        assert not plugin.ended.is_set()


@pytest.mark.parametrize("fault", DEADLY, ids=["crashes", "hangs"])
async def test_a_gpu_of_which_the_driver_dies_at_the_start_leaves_the_others(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture, fault: dict[str, Any]
) -> None:
    machine = small(a100_nvswitch(), 3)
    faults = [FakeFault("nvmlDeviceGetName", gpu=machine.gpus[1].uuid, **fault)]
    flag = "--fail-on-init-error=false"
    async with gpu_node(machine, sockets, nvml_library, flag, faults=faults, gpu_s=2.0, gpu_rest_s=2.0) as node:
        plugin = await watched(node)
        assert set(plugin.devices) == {machine.gpus[0].uuid, machine.gpus[2].uuid}
        assert (
            "a device of GPU 1 is not offered: error getting device handle for index '1': it hung or crashed"
            in caplog.text
        )
        await node.driver.misbehave()
        await until(lambda: len(plugin.devices) == 3)


@pytest.mark.parametrize("fault", DEADLY, ids=["crashes", "hangs"])
async def test_a_gpu_of_which_the_driver_dies_when_it_is_watched_costs_no_other_its_events(
    sockets: Path, nvml_library: Path, fault: dict[str, Any]
) -> None:
    machine = small(a100_nvswitch(), 3)
    sick = machine.gpus[1].uuid
    faults = [FakeFault("nvmlDeviceRegisterEvents", gpu=sick, **fault)]
    async with gpu_node(machine, sockets, nvml_library, faults=faults, gpu_s=2.0, gpu_rest_s=2.0, check_s=0.5) as node:
        plugin = await watched(node)
        await until(lambda: unhealthy(plugin) == {sick: "NotWatched"})
        await node.driver.xid(2, 79)
        await until(lambda: unhealthy(plugin) == {sick: "NotWatched", machine.gpus[2].uuid: "Xid79"})
        await node.driver.misbehave()
        await until(lambda: sick not in unhealthy(plugin))


async def test_a_driver_that_hangs_altogether_is_unhealthy_altogether(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(small(a100_nvswitch(), 3), sockets, nvml_library) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None
        with impatient(view.nvml, gpu_s=0.5):
            await node.driver.misbehave(FakeFault("nvmlDeviceGetName", hang=True))
            await until(lambda: len(unhealthy(plugin)) == 3)
            assert set(unhealthy(plugin).values()) == {"DriverHung"}
        await node.driver.reload()
        await node.driver.misbehave()
        await until(lambda: not unhealthy(plugin))


def test_the_next_worker_is_waited_for_however_many_have_died() -> None:
    settings = NvmlSettings()
    longest_s = settings.restarts.most_s * (1 + settings.restarts.jitter)
    assert longest_s * 2 <= min(settings.survey_s, settings.links_s)


async def test_reloads_and_killed_workers_leave_no_descriptor_behind(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(a100_nvswitch(), sockets, nvml_library, wait_s=0.1) as node:
        plugin = await watched(node)
        view = node.source.view
        assert view is not None

        async def disturb() -> None:
            for _ in range(4):
                await node.driver.reload()
                await until(lambda: node.driver.clients == 1 and view.sight and view.sight.trouble is None)
                await node.driver.lose(1)
                await until(lambda: unhealthy(plugin))
                await node.driver.restore(1)
                await until(lambda: not unhealthy(plugin))
            pid = view.nvml.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda: view.nvml.pid not in (None, pid) and node.driver.clients == 1)
            while not unhealthy(plugin):  # until the new worker watches
                await node.driver.xid(2, 94)
                await asyncio.sleep(0.05)
            await node.driver.reload()
            await until(lambda: not unhealthy(plugin))

        def descriptors() -> tuple[int, int]:
            return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{view.nvml.pid}/fd"))

        await disturb()
        before = descriptors()
        for _ in range(3):
            await disturb()
        await until(lambda: descriptors() <= before)


async def test_a_question_that_the_driver_dies_of_is_not_asked_with_every_look() -> None:
    """As that for links, without which GPUs are chosen all the same."""
    asked = []

    async def die() -> None:
        asked.append(True)
        raise DriverUnusable(DriverTrouble.HUNG.value, "it hangs", 0)

    questions = DispensableQuestions()
    for _ in range(10):
        with pytest.raises(DriverUnusable):
            await questions.answer("links", die)
    assert len(asked) == 2
    assert await questions.answer("measurements", lambda: asyncio.sleep(0, "answered")) == "answered"


async def test_a_question_goes_on_when_nobody_waits_for_it_any_more() -> None:
    """Else its worker would hang, and the next question, which cannot do without an answer, behind it."""
    answered, asked = asyncio.Event(), []

    async def wait() -> str:
        asked.append(True)
        await answered.wait()
        return "answered"

    questions = DispensableQuestions()
    for _ in range(2):
        with pytest.raises(DriverUnusable, match=r"not answered within 0\.01 s when asked for measurements") as late:
            await questions.answer("measurements", wait, within_s=0.01)
        assert late.value.reason == "DriverSlow"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await questions.answer("measurements", wait)
    answered.set()
    assert await questions.answer("measurements", wait) == "answered"
    assert len(asked) == 1
    await questions.close()


async def test_whatever_takes_the_place_of_the_configuration_the_old_one_stays(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = sockets / "config.yaml"
    good = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}\n"
    config.write_text(good)
    places: list[tuple[Callable[[Path], object], str]] = [
        (lambda path: path.write_text("flags:\n  migStrategy: 3\n"), "config.yaml:2: flags.migStrategy: wants a text"),
        (lambda path: path.write_text("{"), "config.yaml:"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not UTF-8 text"),
        (lambda path: path.mkdir(), "is a directory"),
        (os.mkfifo, "a fifo that no process writes to"),
        (lambda path: path.symlink_to("config.yaml"), "too many levels of symbolic links"),
        (lambda _: None, "no such file or directory"),
    ]
    async with gpu_node(t4(), sockets, nvml_library, f"--config-file={config}") as node:
        plugin = await watched(node)
        assert len(plugin.devices) == 3
        for place, problem in places:
            caplog.clear()
            path = sockets / "new"
            place(path)
            config.rmdir() if config.is_dir() else config.unlink(missing_ok=True)
            if os.path.lexists(path):
                path.rename(config)
            node.look_again()  # and register again
            await until(lambda problem=problem: "stays in use" in caplog.text and problem in caplog.text)  # type: ignore[misc]
            plugin = await watched(node)
            assert len(plugin.devices) == 3
        config.write_text(good.replace("3", "5"))
        node.look_again()
        renewed = await watched(node)
        await until(lambda: len(renewed.devices) == 5)
