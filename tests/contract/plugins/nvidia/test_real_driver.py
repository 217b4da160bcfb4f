"""The worker on a real NVIDIA driver; skipped on machines without one."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.values import Watching
from tests.contract.rigs.nvidia import next_event

pytestmark = pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists(), reason="there is no NVIDIA driver on this machine: /dev/nvidiactl is missing"
)


async def test_a_real_driver_is_surveyed() -> None:
    async with Nvml() as nvml:
        survey, links = await nvml.survey(), await nvml.links()
        assert survey.driver_version.count(".") >= 1
        assert survey.gpus
        assert links.uuids == tuple(gpu.uuid for gpu in survey.gpus)
        for gpu in survey.gpus:
            assert gpu.uuid.startswith("GPU-")
            assert gpu.architecture != "undefined"
            assert Path(f"/sys/bus/pci/devices/{gpu.pci_bus_id}").exists()
            assert Path(f"/dev/nvidia{gpu.minor}").exists()
            await nvml.probe(gpu.uuid)


async def test_a_real_driver_is_measured_and_watched() -> None:
    async with Nvml() as nvml, aclosing(nvml.events()) as events:
        assert isinstance(await next_event(events), Watching)
        for metrics in await nvml.metrics():
            assert metrics.memory_bytes is None or metrics.memory_bytes > 0
            assert metrics.temperature_c is not None
            assert 0 < metrics.temperature_c < 110
