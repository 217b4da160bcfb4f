"""The worker that asks the driver, on the fake library: answers, events, and drivers that hang, crash or are absent."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.ops.backoff import Delays
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.nvml.values import GpuEvent, GpuProcess, Watching, WatchLost
from plugbay.plugins.nvidia.platform.library import find_library
from plugbay.plugins.nvidia.survey import Addressing, Fabric, MigMode, P2PLevel, Virtualization
from plugbay.testing.fakenvml import (
    READY,
    FakeFabric,
    FakeFault,
    FakeMachine,
    FakeProcess,
    a100_nvswitch,
    compile_library,
    dgx1,
    h100_mig,
    h200,
    in_mig_mode,
    lay_out_driver,
    lay_out_pci,
    t4,
)
from plugbay.testing.fakenvml import compile as compiling
from tests.contract.rigs.gpu_node import until
from tests.contract.rigs.nvidia import environ_of, fake_nvml, impatient, machine_of, next_event

SOON = Delays(0.01, 0.05)
HUNG = FakeFault("nvmlDeviceGetName", hang=True)


@pytest.mark.parametrize("make", READY.values(), ids=READY)
async def test_a_survey_describes_the_machine(
    make: Callable[[], FakeMachine], nvml_library: Path, tmp_path: Path
) -> None:
    machine = make()
    lay_out_pci(tmp_path, machine)
    async with fake_nvml(machine, nvml_library, tmp_path / "sys") as (_, nvml):
        survey = await nvml.survey()
    assert survey.driver_version == machine.driver_version
    assert survey.unreadable == ()
    assert [(gpu.index, gpu.uuid, gpu.minor, gpu.name, gpu.memory_bytes) for gpu in survey.gpus] == [
        (index, gpu.uuid, gpu.minor, gpu.name, gpu.memory_bytes) for index, gpu in enumerate(machine.gpus)
    ]
    assert [gpu.pci_bus_id for gpu in survey.gpus] == [gpu.bus_id.lower()[4:] for gpu in machine.gpus]
    assert [gpu.numa_node for gpu in survey.gpus] == [gpu.numa_node for gpu in machine.gpus]
    assert [[str(device.profile) for device in gpu.mig_devices] for gpu in survey.gpus] == [
        [device.name for device in gpu.mig.devices] if gpu.mig else [] for gpu in machine.gpus
    ]
    assert [[str(profile) for profile in gpu.mig_profiles] for gpu in survey.gpus] == [
        [profile.name for profile in gpu.mig.profiles] if gpu.mig else [] for gpu in machine.gpus
    ]
    assert {gpu.brand for gpu in survey.gpus} == {"Tesla"}


@pytest.mark.parametrize(
    "renamed",
    [
        {"nvmlInitWithFlags": "absent"},
        {"nvmlInitWithFlags": "absent", "nvmlInit_v2": "also_absent"},
        {"nvmlDeviceGetPciInfo_v3": "nvmlDeviceGetPciInfo_v2"},
        {"nvmlDeviceGetPciInfo_v3": "nvmlDeviceGetPciInfo"},
    ],
    ids=lambda renamed: "-".join(renamed.values()),
)
@pytest.mark.usefixtures("nvml_library")  # which skips without a compiler
async def test_a_library_that_nvidia_s_plugin_can_use_will_do(
    renamed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes older names of functions, where nvidia-ml-py insists on the newest."""
    flags = [f"-D{name}={other}" for name, other in renamed.items()]
    monkeypatch.setattr(compiling, "_FLAGS", (*compiling._FLAGS, *flags))
    machine = dgx1()
    async with fake_nvml(machine, compile_library(tmp_path)) as (_, nvml):
        survey, links = await nvml.survey(), await nvml.links()
    assert [gpu.pci_bus_id for gpu in survey.gpus] == [gpu.bus_id.lower()[4:] for gpu in machine.gpus]
    assert links.nvlinks[0] == (0, 1, 1, 2, 2, 0, 0, 0)


async def test_what_a_gpu_does_not_have_is_none(nvml_library: Path) -> None:
    machine = h200().with_gpu(
        0, fabric=FakeFabric("0a0b0c0d-0000-1111-2222-333344445555", 9), addressing=2, virtualization=1
    )
    bare = t4().with_gpu(0, brand=None, virtualization=None)
    machine = replace(machine, gpus=(*machine.gpus, *bare.gpus))
    async with fake_nvml(machine, nvml_library) as (_, nvml):
        full, bare_gpu = (await nvml.survey()).gpus
    assert full.fabric == Fabric("0a0b0c0d-0000-1111-2222-333344445555", 9, 3, 0)
    assert (full.addressing, full.virtualization) == (Addressing.ATS, Virtualization.PASSTHROUGH)
    assert full.mig == MigMode(False, False)
    assert (bare_gpu.fabric, bare_gpu.addressing, bare_gpu.virtualization, bare_gpu.mig) == (None, None, None, None)
    assert (bare_gpu.brand, bare_gpu.numa_node) == ("", None)


@pytest.mark.parametrize(
    "function",
    [
        *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetBrand", "nvmlDeviceGetVirtualizationMode"),
        *("nvmlDeviceGetAddressingMode", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuInstanceProfileInfo"),
        *("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion"),
    ],
)
async def test_what_no_container_needs_may_fail(function: str, nvml_library: Path) -> None:
    """The reference does not ask for it, or goes on without it."""
    machine = h200()
    async with fake_nvml(machine, nvml_library) as (driver, nvml):
        await driver.misbehave(FakeFault(function, result=999))
        survey = await nvml.survey()
        assert not survey.unreadable
        assert [gpu.uuid for gpu in survey.gpus] == [gpu.uuid for gpu in machine.gpus]
        await driver.misbehave()
        whole = await nvml.survey()
        assert whole.driver_version == machine.driver_version
        assert all(gpu.memory_bytes and gpu.mig_profiles for gpu in whole.gpus), "it is asked for again"


async def test_split_instances_have_their_profile(nvml_library: Path) -> None:
    """The golden node whose 3g instance has two compute instances."""
    gpu = {"uuid": "GPU-0", "name": "A100", "bus_id": "00000000:3B:00.0", "minor": 0, "memory_bytes": 42505273344}
    device = {
        **{"gpu": 0, "gi_id": 1, "gi_profile_index": 2, "ci_profile_index": 0, "attr_memory_mib": 19968},
        **{"attr_multiprocessors": 14, "attr_gpu_slices": 1, "attr_compute_slices": 1},
    }
    node = {
        "gpus": [{**gpu, "cc": "8.0", "mig_mode": "enabled"}],
        "mig_devices": [{**device, "slot": place, "uuid": f"MIG-{place}", "ci_id": place} for place in range(2)],
    }
    async with fake_nvml(machine_of(node), nvml_library) as (_, nvml):
        [found] = (await nvml.survey()).gpus
    assert [str(each.profile) for each in found.mig_devices] == ["1c.3g.20gb"] * 2
    assert [(each.gpu_instance, each.compute_instance) for each in found.mig_devices] == [(1, 0), (1, 1)]


async def test_a_lost_gpu_hides_no_other(nvml_library: Path) -> None:
    async with fake_nvml(a100_nvswitch(), nvml_library) as (driver, nvml):
        await driver.lose(1)
        survey, links, metrics = await nvml.survey(), await nvml.links(), await nvml.metrics()
        uuid = driver.machine.gpus[1].uuid
        with pytest.raises(DriverCallFailed, match=r"asked for probe: GPU is lost \(NVML code 15\)"):
            await nvml.probe(uuid)
        await driver.restore(1)
        await nvml.probe(uuid)
        assert len((await nvml.survey()).gpus) == 8
    assert [gpu.index for gpu in survey.gpus] == [0, *range(2, 8)]
    [lost] = survey.unreadable
    assert (lost.index, lost.code) == (1, 15)
    assert lost.problem == "the driver does not describe GPU 1: GPU is lost"
    assert uuid not in links.uuids
    assert [each.uuid for each in metrics] == [gpu.uuid for gpu in survey.gpus]


async def test_links_are_those_of_the_machine(nvml_library: Path) -> None:
    async with fake_nvml(dgx1(), nvml_library) as (driver, nvml):
        links = await nvml.links()
    uuids = [gpu.uuid for gpu in driver.machine.gpus]
    assert list(links.uuids) == uuids
    assert links.nvlinks[0] == (0, 1, 1, 2, 2, 0, 0, 0)
    assert links.level(links.uuids[0], links.uuids[1]) is P2PLevel.SINGLE_SWITCH
    assert links.level(links.uuids[0], links.uuids[4]) is P2PLevel.SYSTEM
    assert links.switch_links == (0,) * 8


async def test_links_to_switches_lead_to_no_gpu(nvml_library: Path) -> None:
    async with fake_nvml(a100_nvswitch(), nvml_library) as (_, nvml):
        links = await nvml.links()
    assert links.switch_links == (12,) * 8
    assert {count for row in links.nvlinks for count in row} == {0}


async def test_measurements_and_processes_are_read(nvml_library: Path) -> None:
    machine = replace(h100_mig(), gpus=h100_mig().gpus[1:3])
    machine = machine.with_gpu(0, processes=(FakeProcess(7, "train", 1 << 30),))
    async with fake_nvml(machine, nvml_library) as (_, nvml):
        whole, sliced = await nvml.metrics()
    assert whole.processes == (GpuProcess(7, 1 << 30, None),)
    assert (whole.utilization_percent, whole.temperature_c, whole.power_mw) == (0, 31, 61_250)
    assert sliced.utilization_percent is None  # of a GPU in MIG mode
    assert machine.gpus[1].mig is not None
    assert list(sliced.mig_memory_used_bytes) == [device.uuid for device in machine.gpus[1].mig.devices]


@pytest.mark.parametrize("function", ["nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetPowerUsage"])
async def test_what_the_driver_does_not_tell_us_costs_no_other_measurement(function: str, nvml_library: Path) -> None:
    """As the processes of a GPU in MIG mode, which take a right of their own."""
    async with fake_nvml(h100_mig(), nvml_library) as (driver, nvml):
        await driver.misbehave(FakeFault(function, result=4))
        measured = await nvml.metrics()
    assert [each.uuid for each in measured] == [gpu.uuid for gpu in driver.machine.gpus]
    assert all(each.memory_bytes and each.temperature_c for each in measured)


async def test_a_gpu_without_memory_of_its_own_is_probed_and_measured(nvml_library: Path) -> None:
    """As that of a GB10."""
    async with fake_nvml(t4(), nvml_library) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlDeviceGetMemoryInfo", result=3))
        await nvml.probe(driver.machine.gpus[0].uuid)
        [measured] = await nvml.metrics()
    assert (measured.memory_bytes, measured.memory_used_bytes, measured.temperature_c) == (None, None, 31)


async def test_a_probe_tells_of_memory_that_failed(nvml_library: Path) -> None:
    machine = h200().with_gpu(0, remapped_rows={"corrected": 1, "uncorrected": 1, "pending": True, "failed": False})
    machine = replace(machine, gpus=(in_mig_mode(machine.gpus[0], "1g.18gb"),))
    mig = machine.gpus[0].mig
    assert mig is not None
    async with fake_nvml(machine, nvml_library) as (driver, nvml):
        probes = [await nvml.probe(uuid) for uuid in (machine.gpus[0].uuid, mig.devices[0].uuid)]
        await driver.set_mig(0, replace(mig, devices=()))
        with pytest.raises(DriverCallFailed, match="Not Found"):
            await nvml.probe(mig.devices[0].uuid)
    assert {(probe.row_remap_pending, probe.row_remap_failed) for probe in probes} == {(True, False)}


async def test_xids_are_pushed_as_they_happen(nvml_library: Path) -> None:
    machine = h100_mig()
    async with fake_nvml(machine, nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        assert await next_event(events) == Watching()
        for gpu in (0, 5, 5, 2):
            await driver.xid(gpu, 79, gpu_instance=gpu or None, compute_instance=0 if gpu else None)
            instances = (gpu, 0) if gpu else (None, None)
            assert await next_event(events) == GpuEvent(machine.gpus[gpu].uuid, 8, 79, *instances)
        await driver.event(0, 2)
        assert await next_event(events) == GpuEvent(machine.gpus[0].uuid, 2, 0)


async def test_an_xid_of_a_gpu_that_is_lost_at_once_names_it(nvml_library: Path) -> None:
    async with fake_nvml(a100_nvswitch(), nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        await driver.lose(3)
        await driver.xid(3, 79)
        assert await next_event(events) == GpuEvent(driver.machine.gpus[3].uuid, 8, 79)


async def test_gpus_without_events_are_named(nvml_library: Path) -> None:
    machine = a100_nvswitch().with_gpu(1, supported_events=0).with_gpu(2, lost=True)
    old = machine.gpus[1].uuid
    async with fake_nvml(machine, nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        assert await next_event(events) == Watching({"2": "GPU is lost"}, (old,))
        await driver.restore(2)
        nvml.watch_anew()
        assert await next_event(events) == Watching({}, (old,))
        await driver.xid(2, 48)
        assert await next_event(events) == GpuEvent(machine.gpus[2].uuid, 8, 48)


async def test_events_come_while_a_question_hangs(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        await driver.misbehave(HUNG)
        async with asyncio.TaskGroup() as tasks:
            question = tasks.create_task(nvml.survey())
            await driver.xid(0, 79)
            assert isinstance(await next_event(events), GpuEvent)
            assert not question.done()
            await driver.misbehave()
        assert len(question.result().gpus) == 1


async def test_a_driver_that_hangs_costs_a_worker_and_a_deadline(nvml_library: Path) -> None:
    """The next worker watches again, and says that events may have been missed."""
    async with (
        fake_nvml(t4(), nvml_library, restarts=SOON) as (driver, nvml),
        aclosing(nvml.events()) as events,
    ):
        assert isinstance(await next_event(events), Watching)
        before = nvml.pid
        await driver.misbehave(HUNG)
        with (
            impatient(nvml, probe_s=0.3),
            pytest.raises(DriverUnusable, match=r"did not answer within 0\.3 s when asked for probe") as hung,
        ):
            await nvml.probe(driver.machine.gpus[0].uuid)
        assert hung.value.reason == "DriverHung"
        assert isinstance(await next_event(events), WatchLost)
        await driver.misbehave()
        assert isinstance(await next_event(events), Watching)
        await nvml.probe(driver.machine.gpus[0].uuid)
        assert nvml.pid not in (None, before)
        await driver.xid(0, 79)
        assert isinstance(await next_event(events), GpuEvent)


async def test_a_driver_that_does_not_return_from_its_wait_is_found_hung(nvml_library: Path) -> None:
    """Nobody asks anything meanwhile."""
    async with (
        fake_nvml(t4(), nvml_library, restarts=SOON, wait_s=0.1, check_s=0.2) as (driver, nvml),
        aclosing(nvml.events()) as events,
    ):
        await next_event(events)
        before = nvml.pid
        await driver.misbehave(FakeFault("nvmlEventSetWait", hang=True))
        lost = await next_event(events)
        assert isinstance(lost, WatchLost)
        assert "waits for events in a call that does not return" in lost.problem
        await driver.misbehave()
        assert isinstance(await next_event(events), Watching)
        assert nvml.pid != before


async def test_a_wait_that_fails_is_repeated_with_delays(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        await driver.misbehave(FakeFault("nvmlEventSetWait", result=999))
        assert await next_event(events) == WatchLost("the NVIDIA driver reports no events: Unknown Error")
        started = time.monotonic()
        attempts = 0
        while time.monotonic() - started < 1.0:
            attempts += isinstance(await next_event(events), Watching)
        assert attempts <= 20
        assert nvml.pid is not None  # the same worker goes on
        await driver.misbehave()
        while not isinstance(await next_event(events), Watching):
            pass
        await driver.xid(0, 79)


async def test_a_start_that_hangs_is_given_up(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library, restarts=SOON) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlInit", hang=True))
        await until(lambda: nvml.pid)
        with (
            impatient(nvml, survey_s=1.0),
            pytest.raises(DriverUnusable, match="did not answer within 1 s when asked for survey"),
        ):
            await nvml.survey()
        await driver.misbehave()
        assert len((await nvml.survey()).gpus) == 1


async def test_a_crash_of_the_driver_is_survived(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library, restarts=SOON) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlDeviceGetName", signal=signal.SIGSEGV))
        with pytest.raises(DriverUnusable, match=r"was killed by SIGSEGV when asked for survey") as crash:
            await nvml.survey()
        assert crash.value.reason == "WorkerCrashed"
        await driver.misbehave()
        assert len((await nvml.survey()).gpus) == 1


async def test_a_killed_worker_is_replaced(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library, restarts=SOON) as (_, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        assert nvml.pid is not None
        os.kill(nvml.pid, signal.SIGKILL)
        lost = await next_event(events)
        assert lost == WatchLost("the worker process of the NVIDIA driver was killed by SIGKILL; it is started anew")
        assert isinstance(await next_event(events), Watching)


async def test_restarts_are_delayed_and_calls_fail_meanwhile(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library, restarts=Delays(60.0, 60.0), probe_s=0.1) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlDeviceGetName", signal=signal.SIGABRT))
        with pytest.raises(DriverUnusable, match="SIGABRT"):
            await nvml.survey()
        with pytest.raises(DriverUnusable, match="SIGABRT"):
            await nvml.probe(driver.machine.gpus[0].uuid)
        assert nvml.pid is None


async def test_a_driver_that_is_loaded_anew_is_used_again(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library) as (driver, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        await driver.reload("560.28.03")
        assert isinstance(await next_event(events), WatchLost)
        assert isinstance(await next_event(events), Watching)
        assert (await nvml.survey()).driver_version == "560.28.03"
        await driver.xid(0, 79)
        assert isinstance(await next_event(events), GpuEvent)


@pytest.mark.parametrize(
    ("code", "reason", "sentence"),
    [
        (9, "DriverNotLoaded", "kernel module does not answer; load the module"),
        (4, "NotPermitted", "may not open /dev/nvidiactl; give the container of the plugin the device nodes"),
        (18, "VersionMismatch", "are of different versions"),
        (999, "DriverFailed", r"does not start: Unknown Error \(NVML code 999\)"),
    ],
)
async def test_a_driver_that_does_not_start_says_why(code: int, reason: str, sentence: str, nvml_library: Path) -> None:
    async with fake_nvml(replace(t4(), init_result=code), nvml_library) as (driver, nvml):
        for _ in range(2):
            with pytest.raises(DriverUnusable, match=sentence) as refused:
                await nvml.survey()
            assert (refused.value.reason, refused.value.code) == (reason, code)
        await driver.reload()
        assert len((await nvml.survey()).gpus) == 1


async def test_events_begin_when_the_driver_comes(nvml_library: Path) -> None:
    async with (
        fake_nvml(replace(t4(), init_result=9), nvml_library) as (driver, nvml),
        aclosing(nvml.events()) as events,
    ):
        assert isinstance(await next_event(events), WatchLost)
        await driver.reload()
        assert await next_event(events) == Watching()


async def test_without_a_library_the_driver_is_not_installed(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    async with Nvml(NvmlSettings(driver_root=tmp_path, environ=environ)) as nvml:
        with pytest.raises(DriverUnusable, match=r"libnvidia-ml\.so\.1 cannot be loaded") as refused:
            await nvml.survey()
    assert (refused.value.reason, refused.value.code) == ("LibraryMissing", 12)
    assert f"the NVIDIA driver is not installed below {tmp_path}" in str(refused.value)


async def test_a_driver_that_is_installed_later_is_found(nvml_library: Path, tmp_path: Path) -> None:
    async with fake_nvml(t4(), nvml_library, driver_root=tmp_path) as (driver, _):
        environ = {name: value for name, value in environ_of(driver).items() if name != "LD_LIBRARY_PATH"}
        async with Nvml(NvmlSettings(driver_root=tmp_path, environ=environ)) as nvml:
            with pytest.raises(DriverUnusable, match="is not installed"):
                await nvml.survey()
            lay_out_driver(tmp_path, "550.54.15", nvml_library)
            assert find_library(tmp_path).path == str(tmp_path / "usr/lib64/libnvidia-ml.so.550.54.15")
            assert len((await nvml.survey()).gpus) == 1


async def test_scenario_102_mig_devices_are_found_by_uuid_or_by_their_place(nvml_library: Path) -> None:
    machine = h100_mig()
    gpu = machine.gpus[3]
    assert gpu.mig is not None
    device = gpu.mig.devices[1]
    async with fake_nvml(machine, nvml_library) as (_, nvml):
        found = await nvml.probe(device.uuid)
        assert await nvml.probe(f"MIG-{gpu.uuid}/{device.gpu_instance}/{device.compute_instance}") == found
        with pytest.raises(DriverCallFailed, match="Not Found"):
            await nvml.probe(f"MIG-{gpu.uuid}/99/0")
        with pytest.raises(DriverCallFailed, match="Not Found"):
            await nvml.probe("MIG-00000000-0000-0000-0000-000000000000")
        assert await nvml.probe(gpu.uuid)


async def test_a_gpu_without_a_pci_address_is_described(nvml_library: Path) -> None:
    """As that of an Orin."""
    async with fake_nvml(t4(), nvml_library) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlDeviceGetPciInfo", result=3))
        survey = await nvml.survey()
    assert [gpu.pci_bus_id for gpu in survey.gpus] == [""]
    assert not survey.unreadable


async def test_the_driver_below_another_root_is_asked(nvml_library: Path, tmp_path: Path) -> None:
    roots = tmp_path / "old", tmp_path / "new"
    for root in roots:
        lay_out_driver(root, "550.54.15", nvml_library)
    async with fake_nvml(t4(), nvml_library, driver_root=roots[0]) as (driver, _):
        environ = {name: value for name, value in environ_of(driver).items() if name != "LD_LIBRARY_PATH"}
        async with Nvml(NvmlSettings(driver_root=roots[0], environ=environ)) as nvml, aclosing(nvml.events()) as events:
            assert isinstance(await next_event(events), Watching)
            assert loaded(nvml.pid) == {roots[0]}
            assert not await nvml.move(roots[0])
            assert await nvml.move(roots[1])
            assert isinstance(await next_event(events), WatchLost)
            assert isinstance(await next_event(events), Watching)
            assert loaded(nvml.pid) == {roots[1]}
            assert nvml.times_unusable == 0


def loaded(pid: int | None) -> set[Path]:
    """The roots of the drivers that a process has loaded."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]).parents[2] for line in maps if "libnvidia-ml.so" in line}


async def test_the_worker_is_lean_and_idle(nvml_library: Path) -> None:
    async with fake_nvml(h100_mig(), nvml_library) as (_, nvml), aclosing(nvml.events()) as events:
        await next_event(events)
        await nvml.survey()
        await nvml.links()
        await nvml.metrics()
        assert 0 < nvml.rss_bytes <= 22 << 20
        before_s = _processor_s(nvml.pid)
        await asyncio.sleep(1.0)
        assert _processor_s(nvml.pid) - before_s <= 0.01


def _processor_s(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_caller_that_is_cancelled_leaves_the_worker_as_it_is(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library) as (driver, nvml):
        await nvml.survey()
        before = nvml.pid
        await driver.misbehave(HUNG)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await nvml.survey()
        await driver.misbehave()
        assert len((await nvml.survey()).gpus) == 1
        assert nvml.pid == before
