"""Find the daemons that a node should have: by its configuration and its GPUs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import SharingStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.validation import config_file_of
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.devices.node import node_devices
from plugbay.plugins.nvidia.mps.plan import MpsPlan, mps_plans
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.platform.config_files import load_configuration
from plugbay.plugins.nvidia.platform.roots import find_roots
from plugbay.plugins.nvidia.survey import MigMinors, Survey
from plugbay.plugins.nvidia.survey.mig_minors import NO_MIG_MINORS

logger = logging.getLogger(__name__)


async def find_plans(
    arguments: Layer, environment: Layer, root: Path, nvml: NvmlSettings | None = None
) -> tuple[MpsPlan, ...]:
    """The daemons of the machine whose files are below ``root``; none when its configuration does not share by MPS.

    Args:
        nvml: how the driver is asked, at the driver's root of the configuration.

    Raises:
        InvalidNvidiaConfig: the configuration is broken.
        DriverUnusable, DriverCallFailed: the driver does not describe the GPUs.
        GpusUnusable: a GPU has more replicas than MPS takes clients.
    """
    name = config_file_of(arguments, environment)
    file = Path(name) if name else None
    configuration = await asyncio.to_thread(load_configuration, file, arguments, environment, has_nvml=True)
    for warning in configuration.warnings:
        logger.warning("%s", warning)
    if configuration.sharing.strategy is not SharingStrategy.MPS:
        return ()
    answer = await _ask(configuration, root, nvml or NvmlSettings())
    if not isinstance(answer, Survey):
        raise answer
    minors: MigMinors = NO_MIG_MINORS  # of device nodes, which no daemon is given
    node = node_devices(configuration, GpuSource.NVML, answer, minors)
    for of_device in node.problems:
        logger.warning("a device has no MPS daemon: %s", of_device.problem)
    return mps_plans(node.resources)


async def _ask(
    configuration: Configuration, root: Path, nvml: NvmlSettings
) -> Survey | DriverUnusable | DriverCallFailed:
    roots = await asyncio.to_thread(find_roots, root, configuration.roots.container)
    async with Nvml(replace(nvml, driver_root=roots.driver, sys_root=root / "sys")) as driver:
        try:
            return await driver.survey()
        except (DriverUnusable, DriverCallFailed) as error:
            return error  # not raised here: the group of tasks around would wrap it
