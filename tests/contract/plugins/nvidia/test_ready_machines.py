"""The ready machines of the fake driver: our plugin answers the requests recorded with NVIDIA's plugin 0.20."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.errors import RpcFailed
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.testing.fakenvml import READY
from plugbay.testing.fakes.kubelet import RegisteredPlugin
from tests.contract.rigs.gpu_node import GpuNode, gpu_node

GOLDEN: Final = Path(__file__).parents[3] / "golden/nvidia-plugin/ready-machines.json"
CASES: Final[list[dict[str, Any]]] = json.loads(GOLDEN.read_text())["cases"]
Case = dict[str, Any]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_answers_are_those_of_the_reference(case: Case, sockets: Path, nvml_library: Path) -> None:
    flags = list(case["args"])
    if "config" in case:
        file = sockets / "config.yaml"
        file.write_text(case["config"])
        flags.append(f"--config-file={file}")
    async with gpu_node(READY[case["machine"]](), sockets, nvml_library, *flags) as node:
        plugins = await registered(node, len(case["plugins"]))
        assert set(plugins) == {each["resource"] for each in case["plugins"]}
        for expected in case["plugins"]:
            plugin = plugins[expected["resource"]]
            await check_registration(plugin, expected)
            for asked in expected["allocate"]:
                await check_allocation(plugin, expected["devices"], asked, sorts="--device-id-strategy=index" in flags)
            for asked in expected["choose"]:
                await check_choice(plugin, expected["devices"], asked)


async def registered(node: GpuNode, count: int) -> dict[str, RegisteredPlugin]:
    plugins = [await node.kubelet.next_registration() for _ in range(count)]
    return {plugin.registration.resource_name: plugin for plugin in plugins}


async def check_registration(plugin: RegisteredPlugin, expected: Case) -> None:
    await plugin.next_list()
    registration, options = plugin.registration, plugin.registration.options
    assert registration.version == expected["version"]
    assert (options.get_preferred_allocation_available, options.pre_start_required) == (
        expected["preferred"],
        expected["pre_start"],
    )
    numa = {device.id: device.numa_nodes for device in plugin.devices.values()}
    assert {name: None if nodes is None else list(nodes) for name, nodes in numa.items()} == dict(
        zip(expected["devices"], expected["numa"], strict=True)
    )
    assert all(device.is_healthy for device in plugin.devices.values())


async def check_allocation(plugin: RegisteredPlugin, devices: list[str], asked: Case, *, sorts: bool) -> None:
    ids = [DeviceId(each if isinstance(each, str) else devices[each]) for each in asked["ids"]]
    if "refused" in asked:
        with pytest.raises(RpcFailed) as raised:
            await plugin.client.allocate(ids)
        check_refusal(raised.value, asked)
        return
    answer = await plugin.client.allocate(ids)
    assert answer is not None
    expected = {name: asked[name] for name in ("envs", "mounts", "devices")}
    if sorts:
        expected["mounts"] = sorted(expected["mounts"])
    assert as_recorded(answer.edits, sorts=sorts) == expected
    assert not answer.edits.annotations
    assert not answer.edits.cdi_devices


def as_recorded(edits: ContainerEdits, *, sorts: bool) -> Case:
    mounts = [[mount.host_path, mount.container_path] for mount in edits.mounts]
    return {
        "envs": dict(edits.env),
        "mounts": sorted(mounts) if sorts else mounts,
        "devices": sorted([node.host_path, node.container_path, node.permissions] for node in edits.device_nodes),
    }


async def check_choice(plugin: RegisteredPlugin, devices: list[str], asked: Case) -> None:
    available, required = ([DeviceId(devices[place]) for place in asked[name]] for name in ("available", "required"))
    if "refused" in asked:
        with pytest.raises(RpcFailed) as raised:
            await plugin.client.preferred_allocation(available, required, asked["size"])
        check_refusal(raised.value, asked)
        return
    chosen = await plugin.client.preferred_allocation(available, required, asked["size"])
    if "chosen" in asked:
        assert list(chosen) == [devices[place] for place in asked["chosen"]], asked
    else:
        assert sorted(Counter(each.partition("::")[0] for each in chosen).values()) == asked["counts"], asked


def check_refusal(error: RpcFailed, asked: Case) -> None:
    assert f"{error.code.name}: {error.detail}" == asked["refused"]
