"""The fake NVIDIA driver, for tests that need one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import CompilerUnusable
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.nvml.values import DriverEvent
from plugbay.testing.fakenvml import (
    A100_40GB_PROFILES,
    FakeDriver,
    FakeGpu,
    FakeMachine,
    FakeMig,
    FakeMigDevice,
    compile_library,
    fake_driver,
    find_compiler,
)

DEADLINE_S = 30.0


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The fake library, compiled once; tests of it are skipped only when there is no compiler at all."""
    if find_compiler() is None:
        pytest.skip("no C compiler is installed to make the fake NVML library with")
    try:
        yield compile_library(tmp_path_factory.mktemp("nvml"))
    except CompilerUnusable as error:
        pytest.fail(str(error))


def environ_of(driver: FakeDriver) -> dict[str, str]:
    return {**os.environ, **driver.environ}


@asynccontextmanager
async def fake_nvml(
    machine: FakeMachine, library: Path, sys_root: Path = Path("/nonexistent"), **settings: Any
) -> AsyncIterator[tuple[FakeDriver, Nvml]]:
    """A fake driver, and our client of it."""
    async with fake_driver(machine, library=library) as driver:
        chosen = NvmlSettings(environ=environ_of(driver), sys_root=sys_root, **settings)
        async with asyncio.timeout(DEADLINE_S), Nvml(chosen) as nvml:
            yield driver, nvml


@contextmanager
def impatient(nvml: Nvml, **deadlines_s: float) -> Iterator[None]:
    """Give the driver little time for some questions, so that a hang is found soon.

    Only while it hangs: on a busy machine a worker takes seconds to start, and an answer some as well.
    """
    patient = nvml.settings
    nvml.settings = replace(patient, **deadlines_s)  # type: ignore[arg-type]
    try:
        yield
    finally:
        nvml.settings = patient


async def next_event(events: AsyncIterator[DriverEvent]) -> DriverEvent:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(events)


async def ask_nvml(script: str, environ: Mapping[str, str]) -> Any:
    """Run a script that has ``nvml``, started, and sets ``answer``; returns that, by way of JSON."""
    program = f"import json, pynvml as nvml\nnvml.nvmlInit()\n{script}\nprint(json.dumps(answer))\n"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def machine_of(node: Mapping[str, Any]) -> FakeMachine:
    """The machine of a node in the golden files of NVIDIA's device plugin."""
    gpus = []
    for place, gpu in enumerate(node["gpus"]):
        devices = tuple(
            FakeMigDevice(
                slot=device["slot"],
                uuid=device["uuid"],
                gpu_instance=device["gi_id"],
                compute_instance=device["ci_id"],
                profile=device["gi_profile_index"],
                compute_profile=device["ci_profile_index"],
                memory_mib=device["attr_memory_mib"],
                multiprocessors=device["attr_multiprocessors"],
                gpu_slices=device["attr_gpu_slices"],
                compute_slices=device["attr_compute_slices"],
                copy_engines=0,
            )
            for device in node.get("mig_devices", ())
            if device["gpu"] == place
        )
        major, minor = map(int, gpu["cc"].split("."))
        gpus.append(
            FakeGpu(
                uuid=gpu["uuid"],
                name=gpu["name"],
                bus_id=gpu["bus_id"],
                minor=gpu["minor"],
                memory_bytes=gpu["memory_bytes"],
                compute_capability=(major, minor),
                mig=FakeMig(gpu["mig_mode"] == "enabled", profiles=A100_40GB_PROFILES, devices=devices),
            )
        )
    return FakeMachine(tuple(gpus))
