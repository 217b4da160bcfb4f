"""Ask CUDA for the GPUs of a Tegra, of which NVML knows little or nothing.

Source: gpu-feature-discovery 0.20 ``internal/resource/cuda-{lib,device}.go``, ``internal/cuda``; spec 7.1.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plugbay.errors import DriverUnusable
from plugbay.ops.worker_process import WorkerProcess
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble, crashed, hung
from plugbay.plugins.nvidia.platform.library import find_library
from plugbay.plugins.nvidia.survey import UNKNOWN_VERSION, Gpu, GpuUuid, Survey

CUDA_LIBRARY: Final = "libcuda.so.1"
_PROGRAM: Final = Path(__file__).with_name("cuda_program.py")
_OURS: Final = Path(__file__).parents[4]
"""The directory that plugbay is in."""
_TEGRA_DIRECTORIES: Final = ("usr/lib/aarch64-linux-gnu/nvidia", "usr/lib/aarch64-linux-gnu/tegra")
_QUESTION: Final = "its CUDA devices"
_LENGTH_BYTES: Final = 4


async def cuda_survey(driver_root: Path, environ: Mapping[str, str] | None, answer_s: float) -> Survey:
    """The GPUs that CUDA tells, as far as it describes them: without UUIDs and places.

    Raises:
        DriverUnusable: CUDA is not there, fails, or does not answer in time.
    """
    library = await asyncio.to_thread(find_library, driver_root, CUDA_LIBRARY, _TEGRA_DIRECTORIES)
    try:
        process = await WorkerProcess.start(_PROGRAM, library.path, str(_OURS), environ=environ)
    except OSError as error:
        raise crashed(f"cannot be started ({error})", None) from error
    try:
        async with asyncio.timeout(answer_s):
            length = int.from_bytes(await process.answers.readexactly(_LENGTH_BYTES), "big")
            kind, *rest = pickle.loads(await process.answers.readexactly(length))
    except TimeoutError:
        raise hung(_QUESTION, answer_s) from None
    except asyncio.IncompleteReadError:
        raise crashed(await process.how_it_ended(), _QUESTION) from None
    finally:
        await process.kill()
    if kind != "found":
        sentence = f"CUDA cannot be asked ({rest[0]}): {library.path} and the driver behind it are needed on a Tegra"
        raise DriverUnusable(DriverTrouble.FAILED.value, sentence, 0)
    version, devices = rest
    return Survey(UNKNOWN_VERSION, (version // 1000, version % 1000 // 10), tuple(_gpus(devices)))


def _gpus(devices: list[tuple[str, int, int, int]]) -> Any:
    for index, (name, memory_bytes, major, minor) in enumerate(devices):
        yield Gpu(index, -1, GpuUuid(""), name, "", memory_bytes, (major, minor))
