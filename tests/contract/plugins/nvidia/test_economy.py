"""The work that the NVIDIA plugin does not do: modules it does not read, and looks that find nothing new."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.cli.arguments.targets.loading import begin_targets, load_targets
from plugbay.cli.main import make_parser
from plugbay.errors import DriverUnusable, PathUnusable
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.nvml import program
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.nvml.starting import spawn_nvml_worker
from plugbay.plugins.nvidia.serving.node import NodeView
from plugbay.plugins.nvidia.serving.settings import NodeSettings, load_active
from plugbay.plugins.nvidia.serving.sight import Sight
from plugbay.sdk.process.sources import LooksOnce
from plugbay.testing.fakenvml import fake_driver, h100_mig, lay_out_driver, lay_out_machine, t4
from tests.contract.rigs.nvidia import environ_of, fake_nvml

UNUSED = ("yaml", "tempfile", "shutil", "plugbay.cdi", "plugbay.allocation.partition")
UNUSED_BY_WORKER = ("subprocess", "tempfile", "shutil", "asyncio", "dataclasses", "inspect", "pickle")


def loaded_by(code: str, *flags: str) -> list[str]:
    command = [sys.executable, *flags, "-c", f"import sys; {code}; print(*sys.modules)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_a_start_reads_no_module_that_few_nodes_need() -> None:
    loaded = loaded_by("import plugbay.plugins.nvidia.serving.source")
    assert [name for name in loaded if name.startswith(UNUSED)] == []


def test_a_worker_is_started_before_much_is_read() -> None:
    loaded = loaded_by("import plugbay.plugins.nvidia.nvml.starting")
    assert [name for name in loaded if name.startswith(("asyncio", "logging", "dataclasses"))] == []


def test_the_worker_reads_little_beside_the_bindings() -> None:
    places = [str(Path(program.__file__).parents[4]), *sys.path]
    code = f"sys.path += {places!r}; from plugbay.plugins.nvidia.nvml.program import _read_modules; _read_modules()"
    loaded = loaded_by(code, "-I", "-S")
    assert {"pynvml", "plugbay.plugins.nvidia.nvml.questions", "plugbay.plugins.nvidia.nvml.watch"} <= set(loaded)
    assert [name for name in loaded if name.startswith(UNUSED_BY_WORKER)] == []


async def test_a_worker_that_was_started_early_answers(nvml_library: Path) -> None:
    async with fake_driver(t4(), library=nvml_library) as driver:
        environ = environ_of(driver)
        early = spawn_nvml_worker(environ)
        async with Nvml(NvmlSettings(environ=environ), early) as nvml:
            assert len((await nvml.survey()).gpus) == 1
            assert nvml.pid == early.process.pid
            early.process.kill()
            with pytest.raises(DriverUnusable):
                await nvml.survey()
            assert len((await nvml.survey()).gpus) == 1
            assert nvml.pid != early.process.pid
        assert early.process.returncode == -signal.SIGKILL


async def test_a_worker_that_died_before_it_was_needed_is_replaced(nvml_library: Path) -> None:
    async with fake_driver(t4(), library=nvml_library) as driver:
        environ = environ_of(driver)
        early = spawn_nvml_worker(environ)
        early.process.kill()
        early.process.wait()
        async with Nvml(NvmlSettings(environ=environ), early) as nvml:
            with pytest.raises(DriverUnusable, match="killed by SIGKILL"):
                await nvml.survey()
            assert len((await nvml.survey()).gpus) == 1


def test_serve_starts_the_worker_before_it_reads_its_modules_and_uses_it(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = tmp_path / "machine.json"
    description.write_text(json.dumps(t4().description()))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library.parent))
    monkeypatch.setenv("PLUGBAY_FAKE_NVML", str(description))
    args = make_parser().parse_args(
        ["serve", "nvidia", "--driver-root-ctr-path=/", f"--machine-root={tmp_path}", f"--root={tmp_path}"]
    )
    begin_targets(args)
    worker = args.early_worker.process
    assert worker.poll() is None
    [(_, [source])] = load_targets(args)
    assert isinstance(source, LooksOnce)
    [plugin] = asyncio.run(source.look_once())
    assert plugin.resource_name == "nvidia.com/gpu"
    assert worker.returncode == -signal.SIGKILL, "it was in use, and was ended after that"


async def test_a_worker_that_is_not_needed_ends() -> None:
    early = spawn_nvml_worker()
    async with Nvml(early=early):
        pass
    assert early.process.returncode == -signal.SIGKILL


async def test_a_survey_without_news_is_the_one_before(nvml_library: Path) -> None:
    async with fake_nvml(t4(), nvml_library) as (driver, nvml):
        survey = await nvml.survey()
        assert await nvml.survey() is survey
        await driver.replace(driver.machine.with_gpu(0, name="Tesla T5"))
        changed = await nvml.survey()
        assert changed.gpus[0].name == "Tesla T5"
        await driver.replace(driver.machine.with_gpu(0, name="Tesla T4"))
        assert await nvml.survey() == survey


async def test_profiles_are_read_again_when_a_gpu_changes_or_the_driver_is_loaded_anew(nvml_library: Path) -> None:
    async def known() -> int:
        return len((await nvml.survey()).gpus[0].mig_profiles)

    async with fake_nvml(h100_mig(), nvml_library) as (driver, nvml):
        gpu = driver.machine.gpus[0]
        assert gpu.mig is not None
        assert await known() == len(gpu.mig.profiles)
        mig = replace(gpu.mig, enabled=not gpu.mig.enabled, devices=(), profiles=gpu.mig.profiles[:1])
        await driver.set_mig(0, mig)
        assert await known() == 1
        mig = replace(mig, profiles=gpu.mig.profiles[:2])
        await driver.replace(driver.machine.with_gpu(0, mig=mig, memory_bytes=gpu.memory_bytes + (1 << 30)))
        assert await known() == 2
        await driver.set_mig(0, replace(mig, profiles=gpu.mig.profiles[:3]))
        await driver.reload()
        assert await known() == 3


def configured(settings: NodeSettings) -> Configuration:
    return load_active(settings, None, None).configuration


def take_as_it_is(sight: Sight) -> None:
    """Find nothing wrong with what was seen."""


def settings_of(directory: Path, *words: str) -> NodeSettings:
    arguments, environment = parse_flags(("--driver-root-ctr-path=/", *words), {})
    return NodeSettings(arguments, environment, {}, directory, directory / "cdi")


async def test_a_look_that_finds_nothing_new_gives_the_sight_before(nvml_library: Path, tmp_path: Path) -> None:
    machine = h100_mig()
    lay_out_machine(tmp_path, machine)
    settings = settings_of(tmp_path)
    configuration, mixed = configured(settings), configured(settings_of(tmp_path, "--mig-strategy=mixed"))
    async with fake_nvml(machine, nvml_library) as (driver, nvml):
        view = NodeView(settings, nvml, take_as_it_is)
        sights = [await view.look(configuration)]
        assert await view.look(configuration) is sights[-1]
        sights.append(await view.look(mixed))
        assert await view.look(mixed) is sights[-1]
        await driver.lose(0)
        sights.append(await view.look(mixed))
        assert await view.look(mixed) is sights[-1]
        await driver.unload()
        assert (await view.look(mixed)).trouble is not None
        await driver.reload()
        sights.append(await view.look(mixed))
        (tmp_path / "proc/driver/nvidia-caps/mig-minors").write_text("config 7\n")
        sights.append(await view.look(mixed))
        assert sights[-1].minors.config == 7
    assert len(set(map(id, sights))) == len(sights)
    assert len(sights[0].resources) < len(sights[1].resources)
    assert sights[2].lost


@pytest.mark.usefixtures("may_make_nodes")
async def test_a_look_that_fails_is_not_taken_for_one_that_found_nothing_new(
    nvml_library: Path, tmp_path: Path
) -> None:
    machine = t4()
    lay_out_machine(tmp_path, machine, with_device_nodes=True)
    lay_out_driver(tmp_path, machine.driver_version)
    settings = settings_of(tmp_path, "--nvidia-driver-root=/")
    with_specs = configured(settings_of(tmp_path, "--nvidia-driver-root=/", "--device-list-strategy=cdi-cri"))
    settings.cdi_directory.write_text("in the way of the directory")
    async with fake_nvml(machine, nvml_library) as (_, nvml):
        view = NodeView(settings, nvml, take_as_it_is)
        before = await view.look(configured(settings))
        for _ in range(2):
            assert isinstance((await view.look(with_specs)).setback, PathUnusable)
        settings.cdi_directory.unlink()
        after = await view.look(with_specs)
        assert after is not before
        assert after.setback is None
        assert list(settings.cdi_directory.iterdir())
