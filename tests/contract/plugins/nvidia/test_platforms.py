"""Machines that are no ordinary servers: Tegra boards, virtual machines' hosts, nodes that a kubelet comes to later."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import DriverUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakenvml import FakeMachine, fake_driver, lay_out_driver, lay_out_machine, t4
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs.gpu_node import OFTEN, gpu_node, unhealthy, until
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of

[T4] = t4().gpus
THOR = replace(T4, name="NVIDIA Thor", bus_id="00000000:01:00.0")
BESIDE = replace(T4, uuid="GPU-00000000-0000-0000-0000-000000000001", bus_id="00000000:AF:00.0", minor=1)


async def test_a_thor_beside_a_lost_gpu_is_offered(sockets: Path, nvml_library: Path) -> None:
    """The reference takes such a machine for a server, and does not start."""
    machine = FakeMachine((THOR, replace(BESIDE, lost=True)))
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await node.resource()
        await until(lambda: set(plugin.devices) == {"tegra"})
        assert not unhealthy(plugin)


async def test_a_tegra_stays_one_when_its_gpu_is_lost(sockets: Path, nvml_library: Path) -> None:
    async with gpu_node(FakeMachine((THOR, BESIDE)), sockets, nvml_library) as node:
        plugin = await node.resource()
        await until(lambda: set(plugin.devices) == {"tegra"})
        view = node.source.view
        assert view is not None
        await node.driver.lose(0)
        looks = view.looks
        await until(lambda: view.looks > looks + 1)
        assert set(plugin.devices) == {"tegra"}


async def test_scenario_106_a_kubelet_that_comes_later_is_registered_with_once(
    sockets: Path, nvml_library: Path
) -> None:
    """The reference tries again after 30 s, and once more when that time is over although the kubelet has come."""
    root, machine = sockets / "machine", t4()
    lay_out_machine(root, machine)
    paths = KubeletPaths(sockets / "k")
    paths.device_plugins.mkdir(parents=True)
    async with fake_driver(machine, library=nvml_library) as driver:
        arguments, environment = parse_flags(["--driver-root-ctr-path=/", OFTEN], {})
        settings = NodeSettings(arguments, environment, dict(driver.environ), root, sockets / "cdi")
        source = NvidiaSource(settings, NvmlSettings(environ=environ_of(driver)))
        async with serving([source], paths=paths):
            await until(lambda: source.members)
            view = source.view
            assert view is not None
            await until(lambda: view.looks > 2)
            async with fake_kubelet(paths) as kubelet:
                async with asyncio.timeout(DEADLINE_S):
                    plugin = await kubelet.next_registration()
                await until(lambda: plugin.devices)
                looks = view.looks
                await until(lambda: view.looks > looks + 3)
                assert not plugin.ended.is_set()
                assert kubelet.unasked_registrations == 0


@pytest.mark.parametrize("fails", [True, False])
async def test_a_machine_whose_gpus_belong_to_virtual_machines_says_so(
    fails: bool, sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference knows no such platform: it ends, or waits without a word."""
    root = sockets / "machine"
    for address in ("0000:3b:00.0", "0000:af:00.0"):
        place = root / "sys/bus/pci/devices" / address
        place.mkdir(parents=True)
        (place / "vendor").write_text("0x10de\n")
        (place / "class").write_text("0x030200\n")
        (place / "driver").symlink_to("../../drivers/vfio-pci")
    arguments, environment = parse_flags([OFTEN, f"--fail-on-init-error={fails}", "--driver-root-ctr-path=/driver"], {})
    async with fake_driver(t4(), library=nvml_library) as driver:
        environ = {name: value for name, value in environ_of(driver).items() if name != "LD_LIBRARY_PATH"}
        settings = NodeSettings(arguments, environment, {}, root, sockets / "cdi")
        source = NvidiaSource(settings, NvmlSettings(driver_root=root / "driver", environ=environ))
        if fails:
            with pytest.raises(DriverUnusable, match="is not installed"):
                await source.look_once()
        else:
            paths = KubeletPaths(sockets / "k")
            async with fake_kubelet(paths) as kubelet, serving([source], paths=paths):
                await until(lambda: "are bound to vfio-pci" in caplog.text)
                assert not source.members
                lay_out_driver(root / "driver", "550.54.15", nvml_library)  # the GPUs are bound to it now
                plugin = await kubelet.next_registration()
                await until(lambda: len(plugin.devices) == 1)
    assert "the GPUs 0000:3b:00.0, 0000:af:00.0 are bound to vfio-pci, for virtual machines" in caplog.text
