"""Ask for the GPUs whose labels a node gets: NVML, CUDA or the PCI bus, by the settings and the platform.

Source: gpu-feature-discovery 0.20 ``internal/resource/factory.go``; spec 7.1.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.errors import DriverCallFailed, DriverUnusable, GpusUnusable
from plugbay.plugins.nvidia.devices.detection import GpuSource, PlatformSigns, labels_source, platform_of
from plugbay.plugins.nvidia.labels.cuda import cuda_survey
from plugbay.plugins.nvidia.labels.settings import FeatureSettings, FeatureStrategy
from plugbay.plugins.nvidia.labels.vfio import vfio_survey
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.plugins.nvidia.platform.roots import find_roots
from plugbay.plugins.nvidia.platform.signs import find_signs
from plugbay.plugins.nvidia.survey import Survey

logger = logging.getLogger(__name__)

_UNSUPPORTED: Final = "failed to create resource manager: unsupported strategy auto"
Answer = Survey | DriverUnusable | DriverCallFailed | GpusUnusable
"""The GPUs, or why they are not known."""


async def labelled_gpus(settings: FeatureSettings, root: Path, nvml: NvmlSettings) -> Survey | None:
    """The GPUs of the machine whose files are below ``root``; None where there is no driver, and that is fine.

    Raises:
        DriverUnusable, DriverCallFailed, GpusUnusable: they are not known, and the settings want an error then.
    """
    roots = await asyncio.to_thread(find_roots, root, settings.container_driver_root)
    asked = replace(nvml, driver_root=roots.driver, sys_root=root / "sys")
    match settings.strategy:
        case FeatureStrategy.NVML:
            answer = await _ask_nvml(asked)
        case FeatureStrategy.TEGRA:
            answer = await _ask_cuda(asked)
        case FeatureStrategy.VFIO:
            return await asyncio.to_thread(vfio_survey, root, roots.driver)
        case FeatureStrategy.AUTO:
            answer = await _ask_platform(asked, root)
    if isinstance(answer, Survey):
        return answer
    if settings.fail_on_init_error:
        raise answer
    logger.warning("the node gets the labels of a node without GPUs: %s", answer)
    return None


async def _ask_platform(asked: NvmlSettings, root: Path) -> Answer:
    answer = await _ask_nvml(asked)
    is_missing = isinstance(answer, DriverUnusable) and answer.reason == DriverTrouble.LIBRARY_MISSING.value
    names = [gpu.name for gpu in answer.gpus] if isinstance(answer, Survey) else []
    signs = await asyncio.to_thread(find_signs, root, has_nvml=not is_missing)
    source = labels_source(platform_of(signs, names))
    if source is GpuSource.TEGRA:
        of_cuda = await _ask_cuda(asked)
        if isinstance(of_cuda, Survey) or not isinstance(answer, Survey):
            return of_cuda
        logger.warning("labels are made of what NVML tells of this Tegra: %s", of_cuda)
    return answer if source is not None else _unsupported(answer, signs)


def _unsupported(answer: Answer, signs: PlatformSigns) -> Answer:
    """The error of a machine without a driver, with a way out for one whose GPUs belong to virtual machines."""
    if not signs.vfio_functions:
        return answer
    functions = ", ".join(signs.vfio_functions)
    way = f"its GPUs {functions} are bound to vfio-pci, and --device-discovery-strategy=vfio labels these"
    return GpusUnusable(f"{way} ({answer})", _UNSUPPORTED)


async def _ask_nvml(asked: NvmlSettings) -> Answer:
    async with Nvml(asked) as driver:
        try:
            return await driver.survey()
        except (DriverUnusable, DriverCallFailed) as error:
            return error  # not raised here: the group of tasks around would wrap it


async def _ask_cuda(asked: NvmlSettings) -> Answer:
    try:
        return await cuda_survey(asked.driver_root, asked.environ, asked.survey_s)
    except DriverUnusable as error:
        return error
