"""The worker, and a plugin that is served, on a real NVIDIA driver; skipped on machines without one."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.values import Watching
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.plugins.nvidia.survey import Gpu
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.gpu_node import unhealthy, until
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


class RealNode(NamedTuple):
    """Our plugin of this machine's whole GPUs, beside a kubelet that is played."""

    source: NvidiaSource
    plugin: RegisteredPlugin
    gpus: tuple[Gpu, ...]

    async def edits(self, gpu: Gpu) -> ContainerEdits:
        """The answer for a container with one GPU."""
        answer = await self.plugin.client.allocate([DeviceId(gpu.uuid)])
        assert answer is not None
        return answer.edits


@asynccontextmanager
async def real_node(directory: Path, *flags: str) -> AsyncIterator[RealNode]:
    arguments, environment = parse_flags(("--driver-root-ctr-path=/", "--device-discovery-strategy=nvml", *flags), {})
    settings = NodeSettings(arguments, environment, dict(os.environ), cdi_directory=directory / "cdi")
    source, paths = NvidiaSource(settings), KubeletPaths(directory / "k")
    async with fake_kubelet(paths) as kubelet, serving([source], paths=paths):
        plugin = await kubelet.next_registration()
        await until(lambda: plugin.devices)
        assert source.sight is not None
        assert source.sight.survey is not None
        yield RealNode(source, plugin, source.sight.survey.gpus)


async def test_a_plugin_on_a_real_driver_registers_and_is_watched(sockets: Path) -> None:
    async with real_node(sockets) as node:
        assert node.plugin.registration.resource_name == "nvidia.com/gpu"
        listed = {str(each.id): each.numa_nodes or () for each in node.plugin.devices.values()}
        assert listed == {str(gpu.uuid): () if gpu.numa_node is None else (gpu.numa_node,) for gpu in node.gpus}
        await until(lambda: node.source.health.is_watching)
        assert unhealthy(node.plugin) == {}, "each GPU passed a probe and is watched"
        everything = [DeviceId(gpu.uuid) for gpu in node.gpus]
        assert set(await node.plugin.client.preferred_allocation(everything, [], len(everything))) == set(everything)


async def test_answers_on_a_real_driver_name_nodes_that_are_there(sockets: Path) -> None:
    async with real_node(sockets, "--pass-device-specs") as node:
        for gpu in node.gpus:
            edits = await node.edits(gpu)
            assert edits.env["NVIDIA_VISIBLE_DEVICES"] == gpu.uuid
            paths = [each.host_path for each in edits.device_nodes]
            assert {"/dev/nvidiactl", f"/dev/nvidia{gpu.minor}"} <= set(paths)
            assert all(stat.S_ISCHR(os.stat(path).st_mode) for path in paths)


@pytest.mark.parametrize("flags", [(), ("--cdi-feature-flags=self-contained",)], ids=["toolkit", "self-contained"])
async def test_a_cdi_spec_of_a_real_driver_holds_files_that_are_there(sockets: Path, flags: tuple[str, ...]) -> None:
    async with real_node(sockets, "--device-list-strategy=cdi-cri", *flags) as node:
        spec = json.loads((sockets / "cdi/k8s.device-plugin.nvidia.com-gpu.json").read_text())
        assert {gpu.uuid for gpu in node.gpus} <= {device["name"] for device in spec["devices"]}
        [first, *_] = node.gpus
        assert (await node.edits(first)).cdi_devices == (f"{spec['kind']}={first.uuid}",)
        edits = [spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])]
        for node_of in (each for edit in edits for each in edit["deviceNodes"]):
            assert stat.S_ISCHR(os.stat(node_of.get("hostPath", node_of["path"])).st_mode)
        mounted = [each["hostPath"] for edit in edits for each in edit.get("mounts", ())]
        assert [path for path in mounted if not os.path.exists(path)] == []
        assert any("libcuda.so." in path for path in mounted)


async def test_metrics_of_a_real_driver_cover_each_gpu(sockets: Path) -> None:
    async with real_node(sockets) as node:
        metrics = {each.name: list(each.samples) for each in await node.source.metrics(None)}
        assert {dict(labels)["UUID"] for labels, _ in metrics["DCGM_FI_DEV_GPU_TEMP"]} == {g.uuid for g in node.gpus}
        assert [value for _, value in metrics["plugbay_nvidia_driver_up"]] == [1]
