"""MPS daemons, with stand-ins for the driver's programs: start, commands, readiness, crashes, the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.errors import DriverUnusable, GpusUnusable, RpcFailed
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.ops.backoff import Delays
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.mps.control import MpsControl
from plugbay.plugins.nvidia.mps.finding import find_plans
from plugbay.plugins.nvidia.mps.plan import MpsGpu, MpsPlan
from plugbay.plugins.nvidia.mps.programs import MpsPlace, MpsPrograms, tell_daemon
from plugbay.plugins.nvidia.mps.readiness import MpsReadiness
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.testing.fakenvml import fake_driver, lay_out_machine, t4
from tests.contract.rigs.gpu_node import gpu_node, unhealthy, until
from tests.contract.rigs.mps import StandIns
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of

GPU = ResourceName("nvidia.com/gpu")
OTHER = ResourceName("nvidia.com/gpu.other")
PLAN = MpsPlan(GPU, (MpsGpu("GPU-a", "0", 8000), MpsGpu("GPU-b", "1", 0)), 50)
SECOND = MpsPlan(OTHER, (MpsGpu("GPU-c", "2", 10),), 20)
SOON = Delays(0.01, 0.05)
CONFIG = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "bin")


@asynccontextmanager
async def controlled(
    root: Path, stand_ins: StandIns, find: Callable[[], Awaitable[tuple[MpsPlan, ...]]]
) -> AsyncIterator[MpsControl]:
    control = MpsControl(find, root, stand_ins.programs, SOON)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(control.run())
        yield control
        control.stop()


def always(*plans: MpsPlan) -> Callable[[], Awaitable[tuple[MpsPlan, ...]]]:
    async def find() -> tuple[MpsPlan, ...]:
        return plans

    return find


async def test_daemons_start_are_told_their_limits_and_end(
    sockets: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place = MpsPlace(sockets, GPU)
    async with controlled(sockets, stand_ins, always(PLAN, SECOND)):
        await until((sockets / ".ready").exists)
        assert place.started.exists()
        assert MpsPlace(sockets, OTHER).started.exists()
        assert sorted(stand_ins.smi_calls()) == [
            f"-i {uuid} -c EXCLUSIVE_PROCESS" for uuid in ("GPU-a", "GPU-b", "GPU-c")
        ]
        told = [line for line in (place.log / "control.log").read_text().splitlines() if "told set" in line]
        assert told == [
            "told set_default_device_pinned_mem_limit 0 8000M",
            "told set_default_active_thread_percentage 50",
        ]
        await until(lambda: "nvidia.com/gpu: told set_default_active_thread_percentage 50" in caplog.text)
        said = [record.getMessage() for record in caplog.records if record.getMessage().startswith(f"{GPU}: ")]
        assert f"{GPU}: in the foreground" in said
        assert len([line for line in said if " starts as " in line]) == 1, "said twice, and told once"
    assert not (sockets / ".ready").exists()
    assert not place.started.exists()
    assert not place.log.exists()
    assert not (place.pipe / "control").exists()
    assert sorted(stand_ins.smi_calls()[3:]) == [f"-i {uuid} -c DEFAULT" for uuid in ("GPU-a", "GPU-b", "GPU-c")]


async def test_a_daemon_that_is_killed_is_started_again(
    sockets: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    place, other = MpsPlace(sockets, GPU), MpsPlace(sockets, OTHER)
    async with controlled(sockets, stand_ins, always(PLAN, SECOND)):
        await until((sockets / ".ready").exists)
        neighbour = await tell_daemon(stand_ins.programs, other, "pid")
        pid = await tell_daemon(stand_ins.programs, place, "pid")
        os.kill(int(pid), signal.SIGKILL)
        await until(lambda: not place.started.exists())
        assert not (sockets / ".ready").exists()
        await until((sockets / ".ready").exists)
        assert await tell_daemon(stand_ins.programs, place, "pid") != pid
        assert await tell_daemon(stand_ins.programs, other, "pid") == neighbour
    assert "it was killed by SIGKILL; starting it again" in caplog.text


async def test_a_daemon_that_does_not_start_is_tried_again(
    sockets: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stand_ins.refusal.touch()
    async with controlled(sockets, stand_ins, always(PLAN)):
        await until(lambda: "it ended with status 7 before it answered" in caplog.text)
        assert not (sockets / ".ready").exists()
        assert f"{GPU}: refuses to start" in caplog.text
        stand_ins.refusal.unlink()
        await until((sockets / ".ready").exists)


async def test_the_configuration_is_read_again_on_demand(sockets: Path, stand_ins: StandIns) -> None:
    wanted: list[tuple[MpsPlan, ...] | DriverUnusable] = [(), (PLAN,), DriverUnusable("DriverNotLoaded", "no", 9), ()]

    async def find() -> tuple[MpsPlan, ...]:
        found = wanted.pop(0)
        if isinstance(found, DriverUnusable):
            raise found
        return found

    ready, started = sockets / ".ready", MpsPlace(sockets, GPU).started
    async with controlled(sockets, stand_ins, find) as control:
        await until(ready.exists)
        assert len(wanted) == 3, "where none is wanted, all daemons answer"
        control.reload()
        await until(started.exists)
        await until(ready.exists)
        control.reload()
        await until(lambda: not wanted)
        await until(ready.exists)
        assert not started.exists()
    assert not ready.exists()


async def test_a_broken_configuration_is_told_and_tried_again(
    sockets: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    file = sockets / "config.yaml"
    file.write_text("version: v2\n")
    arguments, environment = parse_flags(("--mps-root=/mps", f"--config-file={file}"), {})

    async def find() -> tuple[MpsPlan, ...]:
        return await find_plans(arguments, environment, sockets)

    ready = sockets / ".ready"
    async with controlled(sockets, stand_ins, find):
        await until(lambda: "config.yaml:1: version: unknown version: v2" in caplog.text)
        assert not ready.exists()
        file.write_text("version: v1\n")
        await until(ready.exists)


async def test_a_daemon_that_outlived_us_is_ended_first(sockets: Path, stand_ins: StandIns) -> None:
    place = MpsPlace(sockets, GPU)
    for directory in (place.pipe, place.log):
        directory.mkdir(parents=True)
    old = await asyncio.create_subprocess_exec(stand_ins.programs.control, "-f", env=place.environ(stand_ins.programs))
    try:
        await until((place.pipe / "control").exists)
        async with controlled(sockets, stand_ins, always(PLAN)):
            await until((sockets / ".ready").exists)
            assert await tell_daemon(stand_ins.programs, place, "pid") != str(old.pid)
            async with asyncio.timeout(DEADLINE_S):
                assert await old.wait() == 0
    finally:
        if old.returncode is None:
            old.kill()
            await old.wait()


async def test_plans_come_from_configuration_and_driver(nvml_library: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    arguments, environment = parse_flags(("--mps-root=/mps", f"--config-file={file}"), {})
    machine = t4()
    async with fake_driver(machine, library=nvml_library) as driver:
        nvml = NvmlSettings(environ=environ_of(driver))
        [plan] = await find_plans(arguments, environment, tmp_path, nvml)
        [gpu] = machine.gpus
        assert plan == MpsPlan(GPU, (MpsGpu(gpu.uuid, "0", gpu.memory_bytes // 2 >> 20),), 50)
        file.write_text("version: v1\n")
        assert await find_plans(arguments, environment, tmp_path, nvml) == ()
        file.write_text(CONFIG)
        await driver.unload()
        with pytest.raises(DriverUnusable):
            await find_plans(arguments, environment, tmp_path, nvml)


async def test_scenario_108_without_the_program_nothing_is_served_and_it_is_tried_again(
    sockets: Path, nvml_library: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    file, root = sockets / "config.yaml", sockets / "mps"
    file.write_text(CONFIG)
    flags = (f"--config-file={file}", "--mps-root=/run/mps")
    program = stand_ins.directory / "nvidia-cuda-mps-control"
    hidden = program.rename(program.with_suffix(".away"))
    readiness = MpsReadiness(stand_ins.programs, root)
    async with gpu_node(t4(), sockets, nvml_library, *flags, mps=readiness) as node:
        missing = "error waiting for MPS daemon: error checking MPS daemon health"
        await until(lambda: f"{GPU} is not offered yet: {missing}: {program} cannot be run" in caplog.text)
        assert node.source.members == ()
        hidden.rename(program)
        async with controlled(root, stand_ins, always(PLAN)):
            plugin = await node.resource()
            await until(lambda: len(plugin.devices) == 2)


async def test_devices_are_unhealthy_while_a_daemon_that_has_answered_is_silent(
    sockets: Path, nvml_library: Path, stand_ins: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file, root = sockets / "config.yaml", sockets / "mps"
    file.write_text(CONFIG)
    flags = (f"--config-file={file}", "--mps-root=/run/mps")
    readiness = MpsReadiness(stand_ins.programs, root)
    async with gpu_node(t4(), sockets, nvml_library, *flags, mps=readiness) as node:
        async with controlled(root, stand_ins, always(PLAN)):
            plugin = await node.resource()
            await until(lambda: len(plugin.devices) == 2)
            assert not unhealthy(plugin)
        await until(lambda: set(unhealthy(plugin).values()) == {"MpsDaemonSilent"})
        assert len(plugin.devices) == 2
        with pytest.raises(RpcFailed, match=r"the MPS daemon of nvidia\.com/gpu does not answer: "):
            await plugin.client.allocate([DeviceId(next(iter(plugin.devices)))])
        assert f"the MPS daemon of {GPU} does not answer any more: " in caplog.text
        async with controlled(root, stand_ins, always(PLAN)):
            await until(lambda: not unhealthy(plugin))
        assert f"the MPS daemon of {GPU} answers again" in caplog.text


async def test_programs_that_hang_are_ended(tmp_path: Path) -> None:
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(GpusUnusable, match=r"hangs quit did not end within 0\.2 s"):
        await tell_daemon(MpsPrograms({}, control=str(program), answer_s=0.2), MpsPlace(tmp_path, GPU), "quit")


async def test_the_command_keeps_daemons_until_sigterm(sockets: Path, nvml_library: Path, stand_ins: StandIns) -> None:
    file, machine = sockets / "config.yaml", t4()
    file.write_text(CONFIG)
    lay_out_machine(sockets / "machine", machine)
    words = (f"--config-file={file}", f"--mps-directory={sockets / 'mps'}", f"--machine-root={sockets / 'machine'}")
    async with fake_driver(machine, library=nvml_library) as driver:
        path = f"{stand_ins.directory}:{os.environ['PATH']}"
        environ = {**environ_of(driver), "PATH": path}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "plugbay", "nvidia", "mps", *words), env=environ
        )
        try:
            await until((sockets / "mps" / ".ready").exists)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_S):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert not MpsPlace(sockets / "mps", GPU).started.exists()
