"""The metrics of a node with fake GPUs, whose pods our Device Manager admits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import Address
from plugbay.ops.pages import serve_pages
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.author.release_settings import DEFAULT_RELEASE
from plugbay.sdk.process.pages import PluginPages
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from plugbay.testing.fakenvml import FakeDriver, FakeFault, FakeMachine, a100_nvswitch, fake_driver, lay_out_machine, t4
from tests.contract.rigs.gpu_node import OFTEN, until
from tests.contract.rigs.http_pages import LOOPBACK, Page, page, page_until
from tests.contract.rigs.nvidia import environ_of

GPU = ResourceName("nvidia.com/gpu")
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


class Node:
    def __init__(self, manager: DeviceManager, driver: FakeDriver, pages: Address) -> None:
        self.manager = manager
        self.driver = driver
        self.pages = pages

    async def admit(self, name: str) -> None:
        request = ContainerRequest(ContainerName("main"), ContainerKind.APP, {GPU: 1})
        await self.manager.admit(PodRequest(PodUid(f"uid-{name}"), "team", name, (request,)))


@asynccontextmanager
async def monitored(
    machine: FakeMachine, directory: Path, library: Path, config: str = "", **nvml: float
) -> AsyncIterator[Node]:
    root, file = directory / "machine", directory / "config.yaml"
    lay_out_machine(root, machine)
    file.write_text(f"version: v1\n{config}")
    paths, clock = KubeletPaths(directory / "k"), SystemClock()
    socket = paths.pod_resources_socket
    async with fake_driver(machine, library=library) as driver, watching() as watches:
        environ = environ_of(driver)
        arguments, environment = parse_flags(("--driver-root-ctr-path=/", OFTEN, f"--config-file={file}"), {})
        settings = NodeSettings(arguments, environment, environ, root, directory / "cdi")
        asked = NvmlSettings(sys_root=root / "sys", environ=environ, **nvml)  # type: ignore[arg-type]
        source = NvidiaSource(settings, asked)
        shared = Shared(DEFAULT_RELEASE, paths)
        roster = Roster(lambda plugin: PluginServer(plugin, paths, shared=shared), watches, shared.pod_lists)
        pages = PluginPages(clock, version="1", proc=Path("/proc/self"))
        pages.roster = roster
        async with (
            run_manager(ManagerConfig(paths, store=directory / "store.db"), clock=clock) as manager,
            serve_pod_resources(socket, manager.pod_resources(), manager.admitted_pods, clock=clock),
            serve_pages(pages.pages(), LOOPBACK, max_age_s=0) as address,
            roster.serving([source]),
        ):
            await until(lambda: GPU in manager.resources() and manager.resources()[GPU].allocatable)
            yield Node(manager, driver, address)


def held_by(metrics: Page, name: str = TEMPERATURE) -> list[tuple[str, str]]:
    return sorted(
        (found.get("pod", ""), found.get("vgpu", "")) for found in (dict(labels) for labels in metrics.samples(name))
    )


async def test_gpus_are_measured_and_a_shared_one_shows_all_its_pods(sockets: Path, nvml_library: Path) -> None:
    sharing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"
    async with monitored(t4(), sockets, nvml_library, sharing) as node:
        metrics = await page_until(node.pages, "/metrics", lambda found: TEMPERATURE in found.text)
        assert held_by(metrics) == [("", "")]
        assert metrics.value(TEMPERATURE, UUID=node.driver.machine.gpus[0].uuid) > 0
        assert metrics.value("plugbay_nvidia_driver_up") == 1
        for name in ("a", "b"):
            await node.admit(name)
        shared = await page_until(node.pages, "/metrics", lambda found: len(held_by(found)) == 2)
        assert [pod for pod, _ in held_by(shared)] == ["a", "b"]
        assert len({replica for _, replica in held_by(shared)}) == 2
        assert held_by(shared, "plugbay_nvidia_device_healthy") == held_by(shared)


async def test_xids_and_health_are_counted(sockets: Path, nvml_library: Path) -> None:
    async with monitored(t4(), sockets, nvml_library) as node:
        await node.admit("a")
        await page_until(node.pages, "/metrics", lambda found: held_by(found) == [("a", "")])
        await node.driver.xid(0, 79)
        metrics = await page_until(node.pages, "/metrics", lambda found: "plugbay_nvidia_xids_total{" in found.text)
        assert metrics.value("plugbay_nvidia_xids_total", xid="79") == 1
        assert metrics.value("DCGM_FI_DEV_XID_ERRORS", pod="a") == 79
        assert metrics.value("plugbay_nvidia_device_healthy", pod="a", reason="Xid79") == 0


async def test_a_driver_that_hangs_leaves_the_other_metrics(sockets: Path, nvml_library: Path) -> None:
    async with monitored(t4(), sockets, nvml_library) as node:
        await page_until(node.pages, "/metrics", lambda found: TEMPERATURE in found.text)
        await node.driver.misbehave(FakeFault("*", hang=True))
        metrics = await page(node.pages, "/metrics")
        assert TEMPERATURE not in metrics.text
        assert metrics.value("process_resident_memory_bytes") > 0
        assert metrics.value("plugbay_nvidia_driver_up") == 0
        assert len(metrics.samples("plugbay_nvidia_device_healthy")) == 1
        await node.driver.misbehave()
        await page_until(node.pages, "/metrics", lambda found: TEMPERATURE in found.text)


async def test_one_gpu_that_hangs_when_it_is_measured_costs_its_own_measurements_only(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = a100_nvswitch()
    machine = replace(machine, gpus=machine.gpus[:3])
    uuids = {gpu.uuid for gpu in machine.gpus}
    sick = machine.gpus[1].uuid

    def measured(metrics: Page) -> set[str]:
        return {dict(labels)["UUID"] for labels in metrics.samples(TEMPERATURE)}

    async with monitored(machine, sockets, nvml_library, gpu_s=4.0, gpu_rest_s=2.0) as node:
        await page_until(node.pages, "/metrics", lambda found: measured(found) == uuids)
        await node.driver.misbehave(FakeFault("nvmlDeviceGetUtilizationRates", gpu=sick, hang=True))
        metrics = await page(node.pages, "/metrics")
        assert metrics.value("plugbay_nvidia_driver_up", reason="DriverSlow") == 0
        assert len(metrics.samples("plugbay_nvidia_device_healthy")) == 3
        metrics = await page_until(node.pages, "/metrics", lambda found: measured(found) == uuids - {sick})
        assert metrics.value("plugbay_nvidia_driver_up") == 1
        assert set(metrics.samples("plugbay_nvidia_device_healthy").values()) == {1.0}
        await node.driver.misbehave()
        await page_until(node.pages, "/metrics", lambda found: measured(found) == uuids)
    for word in ("is Unknown", "is Unhealthy", "left out of the page"):
        assert word not in caplog.text
