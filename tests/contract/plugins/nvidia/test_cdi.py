"""CDI specs of machines while they are served: written, renewed, and honest about what is missing."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import GpusUnusable, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakenvml import a100_nvswitch, fake_driver, h100_mig, lay_out_driver, lay_out_machine
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.gpu_node import OFTEN, gpu_node, unhealthy, until
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of
from tests.unit.plugins.nvidia.driver_trees import tegra_board, wsl_machine

CDI = ("--device-list-strategy=cdi-cri", "--nvidia-driver-root=/")
KIND = "k8s.device-plugin.nvidia.com/gpu"


def read_spec(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "cdi/k8s.device-plugin.nvidia.com-gpu.json").read_text())
    return found


def names(directory: Path) -> list[str]:
    return [device["name"] for device in read_spec(directory)["devices"]]


async def cdi_devices(plugin: RegisteredPlugin, *ids: str) -> tuple[str, ...]:
    answer = await plugin.client.allocate([DeviceId(each) for each in ids])
    assert answer is not None
    return tuple(answer.edits.cdi_devices)


@pytest.mark.usefixtures("may_make_nodes")
async def test_a_start_that_fails_leaves_no_spec(sockets: Path, nvml_library: Path) -> None:
    machine, root, specs = h100_mig(), sockets / "machine", sockets / "cdi"
    lay_out_machine(root, machine, with_device_nodes=True)
    lay_out_driver(root, machine.driver_version)
    arguments, environment = parse_flags(["--driver-root-ctr-path=/", "--mig-strategy=single", *CDI], {})
    async with fake_driver(machine, library=nvml_library) as driver:
        settings = NodeSettings(arguments, environment, {}, root, specs)
        source = NvidiaSource(settings, NvmlSettings(environ=environ_of(driver)))
        with pytest.raises(GpusUnusable, match="no MIG devices configured"):
            await source.look_once()
    assert not specs.exists()


@pytest.mark.usefixtures("may_make_nodes")
async def test_a_gpu_without_its_device_node_is_unhealthy_until_it_has_one(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference writes a spec that no engine takes, and goes on offering all GPUs."""
    machine = a100_nvswitch()
    lay_out_driver(sockets / "machine", machine.driver_version)
    uuids = [gpu.uuid for gpu in machine.gpus]
    async with gpu_node(machine, sockets, nvml_library, *CDI, has_nodes=True) as node:
        plugin = await node.resource()
        await until(lambda: len(plugin.devices) == 8)
        assert names(sockets) == sorted(uuids)
        assert await cdi_devices(plugin, uuids[2]) == (f"{KIND}={uuids[2]}",)
        path = node.root / f"dev/nvidia{machine.gpus[2].minor}"
        path.unlink()
        await until(lambda: unhealthy(plugin) == {uuids[2]: "DeviceNodeMissing"})
        assert names(sockets) == sorted(set(uuids) - {uuids[2]})
        assert f"a device is unhealthy: /dev/nvidia{machine.gpus[2].minor} cannot be found below" in caplog.text
        with pytest.raises(RpcFailed, match="no CDI spec names the device"):
            await cdi_devices(plugin, uuids[2])
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(195, 77))
        await until(lambda: not unhealthy(plugin))
        [fresh] = [each for each in read_spec(sockets)["devices"] if each["name"] == uuids[2]]
        assert fresh["containerEdits"]["deviceNodes"][0]["minor"] == 77


@pytest.mark.parametrize(
    ("make", "device", "node"), [(tegra_board, "tegra", "/dev/nvhost-gpu"), (wsl_machine, "all", "/dev/dxg")]
)
async def test_the_one_device_of_a_platform_is_named_as_in_its_spec(
    make: Callable[[Path], Path], device: str, node: str, sockets: Path, nvml_library: Path
) -> None:
    """On a Tegra without NVML as well, where the reference does not start."""
    root, paths = make(sockets / "machine"), KubeletPaths(sockets / "k")
    arguments, environment = parse_flags([OFTEN, *CDI, "--driver-root-ctr-path=/"], {})
    async with fake_driver(a100_nvswitch(), library=nvml_library) as driver:
        variables = environ_of(driver) if device == "all" else {}
        nvml = NvmlSettings(environ=variables) if variables else None
        source = NvidiaSource(NodeSettings(arguments, environment, variables, root, sockets / "cdi"), nvml)
        async with fake_kubelet(paths) as kubelet, serving([source], paths=paths):
            plugin = await kubelet.next_registration()
            await until(lambda: set(plugin.devices) == {device})
            assert not unhealthy(plugin)
            assert await cdi_devices(plugin, device) == (f"{KIND}={device}",)
            [found] = read_spec(sockets)["devices"]
            assert found["name"] == device
            assert node in [each["path"] for each in found["containerEdits"]["deviceNodes"]]
            (root / node.lstrip("/")).unlink()
            if device == "all":
                await until(lambda: unhealthy(plugin) == {"all": "DeviceNodeMissing"})
            else:
                await until(lambda: node not in json.dumps(read_spec(sockets)))


async def test_another_driver_root_in_the_configuration_is_where_the_driver_is_loaded_from(
    sockets: Path, nvml_library: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file, machine = sockets / "config.yaml", a100_nvswitch()
    roots = [sockets / "machine" / name for name in ("old", "new")]
    for root in roots:
        lay_out_driver(root, machine.driver_version, nvml_library)
    configuration = "version: v1\nflags: {{plugin: {{containerDriverRoot: /{}}}}}\n"
    file.write_text(configuration.format("old"))
    arguments, environment = parse_flags([OFTEN, f"--config-file={file}"], {})
    paths = KubeletPaths(sockets / "k")
    async with fake_driver(machine, library=nvml_library) as driver:
        for name, value in driver.environ.items():
            if name != "LD_LIBRARY_PATH":
                monkeypatch.setenv(name, value)  # the worker has our environment
        source = NvidiaSource(NodeSettings(arguments, environment, {}, sockets / "machine", sockets / "cdi"))
        async with fake_kubelet(paths) as kubelet, serving([source], paths=paths):
            plugin = await kubelet.next_registration()
            await until(lambda: len(plugin.devices) == 8)
            assert await asyncio.to_thread(loaded, source) == {roots[0]}
            file.write_text(configuration.format("new"))
            await until(lambda: loaded(source) == {roots[1]})
            assert f"GPUs are read through {roots[1]} from now on" in caplog.text
            async with asyncio.timeout(DEADLINE_S):
                while not unhealthy(plugin):
                    await driver.xid(0, 79)  # lost until the new worker watches
                    await asyncio.sleep(0.05)
            assert set(unhealthy(plugin).values()) == {"Xid79"}
            assert not plugin.ended.is_set()


def loaded(source: NvidiaSource) -> set[Path]:
    """The roots of the drivers that the worker has loaded; none while it starts."""
    view = source.view
    assert view is not None
    try:
        maps = Path(f"/proc/{view.nvml.pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    return {Path(line.split()[-1]).parents[2] for line in maps if "libnvidia-ml.so" in line}
