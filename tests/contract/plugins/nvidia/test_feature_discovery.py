"""Feature discovery on a fake driver: what is written, when, and what is left at the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugbay.errors import DriverUnusable, InvalidNvidiaConfig, PlugbayError
from plugbay.plugins.nvidia.config.arguments import parse_arguments, parse_environment
from plugbay.plugins.nvidia.labels.discovery import FeatureDiscovery, find_labels, load_features
from plugbay.plugins.nvidia.labels.settings import FEATURE_FLAGS, FeatureSettings
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakenvml import (
    FakeDriver,
    FakeFault,
    FakeMachine,
    a100_nvswitch,
    fake_driver,
    h100_mig,
    lay_out_machine,
    t4,
)
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of

GPU_COUNT = "nvidia.com/gpu.count"
TIME_SLICING = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"


def settings_of(*arguments: str, environ: Mapping[str, str] | None = None) -> FeatureSettings:
    return load_features(parse_arguments(arguments, FEATURE_FLAGS), parse_environment(environ or {}, FEATURE_FLAGS))


def read_labels(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@asynccontextmanager
async def on_machine(machine: FakeMachine, library: Path, root: Path) -> AsyncIterator[tuple[FakeDriver, NvmlSettings]]:
    await asyncio.to_thread(lay_out_machine, root, machine)
    async with fake_driver(machine, library=library) as driver:
        yield driver, NvmlSettings(environ=environ_of(driver))


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 (files and other processes set no event)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("make", [t4, a100_nvswitch, h100_mig])
async def test_labels_of_ready_machines(make: Callable[[], FakeMachine], nvml_library: Path, tmp_path: Path) -> None:
    machine = make()
    async with on_machine(machine, nvml_library, tmp_path) as (_, nvml):
        found = await find_labels(settings_of("--no-timestamp"), tmp_path, timestamp_s=0, nvml=nvml)
    assert found.labels[GPU_COUNT] == str(len(machine.gpus))
    assert found.labels["nvidia.com/gpu.machine"] == "Fake-Station"
    assert found.labels["nvidia.com/cuda.driver-version.full"] == machine.driver_version
    assert "nvidia.com/gfd.timestamp" not in found.labels


async def test_scenario_113_a_driver_that_does_not_start_counts_with_the_flag_only(
    nvml_library: Path, tmp_path: Path
) -> None:
    async with on_machine(t4(), nvml_library, tmp_path) as (driver, nvml):
        await driver.unload()
        with pytest.raises(DriverUnusable):
            await find_labels(settings_of(), tmp_path, timestamp_s=7, nvml=nvml)
        lenient = settings_of("--fail-on-init-error=false")
        found = await find_labels(lenient, tmp_path, timestamp_s=7, nvml=nvml)
    assert found.labels == {"nvidia.com/gfd.timestamp": "7", "nvidia.com/vgpu.present": "false"}


@pytest.mark.parametrize("fails", ["true", "false"])
def test_scenario_113_an_unknown_mig_strategy_is_an_error_in_any_case(fails: str) -> None:
    with pytest.raises(InvalidNvidiaConfig, match="unknown MIG strategy: both"):
        settings_of("--mig-strategy=both", f"--fail-on-init-error={fails}")


async def test_a_lost_gpu_leaves_the_labels_of_the_others(nvml_library: Path, tmp_path: Path) -> None:
    async with on_machine(a100_nvswitch(), nvml_library, tmp_path) as (driver, nvml):
        await driver.lose(3)
        found = await find_labels(settings_of(), tmp_path, timestamp_s=0, nvml=nvml)
    assert found.labels[GPU_COUNT] == "7"
    assert any("no label tells of a GPU" in warning for warning in found.warnings)


def test_flags_count_before_variables_and_these_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "version: v1\nflags: {migStrategy: mixed, gfd: {oneshot: true, noTimestamp: true, sleepInterval: 5m, "
        "outputFile: /of/file, machineTypeFile: /machine}}\n"
    )
    of_file = settings_of("--config-file", str(file))
    assert (of_file.mig_strategy.value, of_file.is_oneshot, of_file.has_timestamp) == ("mixed", True, False)
    assert (of_file.sleep_s, of_file.output_file, of_file.machine_type_file) == (300.0, "/of/file", "/machine")
    environ = {
        "GFD_CONFIG_FILE": str(file),
        "GFD_SLEEP_INTERVAL": "7s",
        "MIG_STRATEGY": "none",
        "GFD_MIG_STRATEGY": "single",
    }
    both = settings_of("--sleep-interval=9s", environ=environ)
    assert (both.sleep_s, both.mig_strategy.value) == (9.0, "single")
    assert settings_of(environ=environ).sleep_s == 7.0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--sleep-interval=0s",), "invalid sleep interval 0s"),
        (("--sleep-interval=soon",), "invalid duration 'soon'"),
        (("--device-discovery-strategy=magic",), "invalid --device-discovery-strategy option magic"),
        (("--config-dialect=other",), "unknown config dialect: other"),
        (("--use-node-feature-api",), "required flag node-name not set"),
        (("--use-node-feature-api", "--node-name=n", "--namespace="), "required flag namespace not set"),
    ],
)
def test_settings_of_no_use_are_told(arguments: Sequence[str], problem: str) -> None:
    with pytest.raises(InvalidNvidiaConfig, match=problem) as caught:
        settings_of(*arguments)
    assert caught.value.allowed


@asynccontextmanager
async def discovering(
    load: Callable[[], FeatureSettings], root: Path, clock: ManualClock, nvml: NvmlSettings, shown: list[str]
) -> AsyncIterator[FeatureDiscovery]:
    discovery = FeatureDiscovery(load, root, show=shown.append, clock=clock, nvml=nvml)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(discovery.run())
        yield discovery
        discovery.stop()


async def test_each_round_sees_the_machine_anew_and_the_file_goes_with_the_end(
    nvml_library: Path, tmp_path: Path
) -> None:
    path, clock = tmp_path / "features.d" / "gfd", ManualClock()
    async with on_machine(a100_nvswitch(), nvml_library, tmp_path) as (driver, nvml):
        async with discovering(
            lambda: settings_of(f"--output-file={path}", "--sleep-interval=60s"), tmp_path, clock, nvml, []
        ):
            await until(lambda: clock.sleepers)
            first = read_labels(path)
            assert path.stat().st_mode & 0o777 == 0o644
            assert driver.clients == 0  # nothing keeps the driver loaded meanwhile
            await driver.replace(t4())
            clock.advance(60.0)
            await until(lambda: clock.sleepers)
            second = read_labels(path)
        assert (first[GPU_COUNT], second[GPU_COUNT]) == ("8", "1")
        assert first["nvidia.com/gfd.timestamp"] == second["nvidia.com/gfd.timestamp"]
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("stays", ["--oneshot", "--sleep-interval=infinite"])
async def test_labels_of_a_single_round_stay(stays: str, nvml_library: Path, tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    async with on_machine(t4(), nvml_library, tmp_path) as (_, nvml):
        async with discovering(lambda: settings_of(f"--output-file={path}", stays), tmp_path, ManualClock(), nvml, []):
            await until(path.exists)
    assert read_labels(path)[GPU_COUNT] == "1"


async def test_settings_are_read_again_on_demand_and_broken_ones_change_nothing(
    nvml_library: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, clock, shown = tmp_path / "config.yaml", ManualClock(), list[str]()
    config.write_text("version: v1\n")
    async with on_machine(t4(), nvml_library, tmp_path) as (_, nvml):
        async with discovering(
            lambda: settings_of("--output-file=", f"--config-file={config}"), tmp_path, clock, nvml, shown
        ) as discovery:
            await until(lambda: clock.sleepers)
            config.write_text(TIME_SLICING)
            discovery.reload()
            await until(lambda: len(shown) == 2)
            config.write_text("version: v7\n")
            await until(lambda: clock.sleepers >= 2)
            discovery.reload()
            await until(lambda: len(shown) == 3)
    assert ["-SHARED\n" in text for text in shown] == [False, True, True]
    assert "labels are made by the one before" in caplog.text


async def test_a_stop_in_the_middle_of_a_round_is_heard(nvml_library: Path, tmp_path: Path) -> None:
    async with on_machine(t4(), nvml_library, tmp_path) as (driver, nvml):
        await driver.misbehave(FakeFault("nvmlDeviceGetName", hang=True))
        async with discovering(lambda: settings_of("--output-file="), tmp_path, ManualClock(), nvml, []):
            await until(lambda: driver.clients)
        await driver.misbehave()


async def test_a_driver_that_fails_later_ends_the_program_and_takes_the_file_along(
    nvml_library: Path, tmp_path: Path
) -> None:
    path, clock = tmp_path / "gfd", ManualClock()
    async with on_machine(t4(), nvml_library, tmp_path) as (driver, nvml):
        discovery = FeatureDiscovery(
            lambda: settings_of(f"--output-file={path}"), tmp_path, show=print, clock=clock, nvml=nvml
        )
        async with asyncio.timeout(DEADLINE_S):
            run = asyncio.ensure_future(discovery.run())
            await until(lambda: clock.sleepers)
            assert path.exists()
            await driver.unload()
            clock.advance(60.0)
            with pytest.raises(PlugbayError):
                await run
    assert not path.exists()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "plugbay", "nvidia", "labels", *arguments]


async def test_the_command_prints_labels_in_three_forms(nvml_library: Path, tmp_path: Path) -> None:
    async with on_machine(t4(), nvml_library, tmp_path) as (driver, _):
        read = {}
        for form in ("", "json", "yaml"):
            words = command(f"--machine-root={tmp_path}", "--no-timestamp", *(("-o", form) if form else ()))
            done = await asyncio.to_thread(
                subprocess.run, words, env=environ_of(driver), capture_output=True, text=True, check=True
            )
            read[form] = done.stdout
    plain = dict(line.split("=", 1) for line in read[""].splitlines())
    assert plain == json.loads(read["json"]) == yaml.safe_load(read["yaml"])
    assert plain["nvidia.com/gpu.product"] == "Tesla-T4"


async def test_the_command_ends_in_order_on_sigterm(nvml_library: Path, tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    async with on_machine(t4(), nvml_library, tmp_path) as (driver, _):
        environ = {**environ_of(driver), "GFD_OUTPUT_FILE": str(path)}
        process = await asyncio.create_subprocess_exec(*command(f"--machine-root={tmp_path}"), env=environ)
        try:
            await until(path.exists)
            os.kill(process.pid, signal.SIGHUP)
            await asyncio.sleep(0.05)
            os.kill(process.pid, signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_S):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert not path.exists()


async def test_the_command_fails_without_a_driver(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run, command(f"--machine-root={tmp_path}"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "NVIDIA driver" in done.stderr
