"""Devices and Allocate answers of NVIDIA's plugin 0.20, as recorded on a fake driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from plugbay.errors import AllocationError, GpusUnusable
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.answers.answering import answer
from plugbay.plugins.nvidia.answers.requests import requested_devices
from plugbay.plugins.nvidia.config.choices import Dialect, DiscoveryStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.devices.devices import ResourceDevices
from plugbay.plugins.nvidia.devices.node import NodeDevices, node_devices
from plugbay.plugins.nvidia.devices.problems import check_problems
from tests.unit.plugins.nvidia.golden_machines import Case, configured, golden, machine, minors

CASES: Final = golden("allocate")["cases"]
UUID4: Final = "<uuid4>"


def built(case: Case, dialect: Dialect = Dialect.REFERENCE) -> tuple[Configuration, NodeDevices]:
    configuration = configured(case["args"], config=case.get("config"), dialect=dialect)
    is_tegra = configuration.discovery_strategy is DiscoveryStrategy.TEGRA
    source = GpuSource.TEGRA if is_tegra else GpuSource.NVML
    return configuration, node_devices(configuration, source, machine(case["node"]), minors())


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_node_has_the_resources_and_devices_of_the_reference(case: Case, dialect: Dialect) -> None:
    configuration, node = built(case, dialect)
    if case.get("exit") == 1:
        with pytest.raises(GpusUnusable) as raised:
            check_problems(node.problems, fail_on_init_error=configuration.fail_on_init_error)
        assert raised.value.reference_text == case["error"]
        return
    check_problems(node.problems, fail_on_init_error=True)
    expected = {plugin["registration"]["resourceName"]: plugin for plugin in case["plugins"]}
    assert set(node.resources) == set(expected)
    for name, resource in node.resources.items():
        plugin = expected[name]
        assert resource.socket_name == plugin["registration"]["endpoint"]
        assert listed(resource) == {each["ID"]: numa_of(each) for each in plugin["devices"]}


def listed(resource: ResourceDevices) -> dict[str, int | None]:
    return {each: device.numa_node for device in resource.devices.values() for each in device.listed_ids()}


def numa_of(device: Case) -> int | None:
    nodes = device.get("topology", {}).get("nodes")
    return int(nodes[0].get("ID", 0)) if nodes else None


ALLOCATIONS: Final = [
    pytest.param(case, plugin, each, id=f"{case['name']}: {plugin['registration']['resourceName']} {number}")
    for case in CASES
    for plugin in case["plugins"]
    for number, each in enumerate(plugin["allocate"])
]


@pytest.mark.parametrize(("case", "plugin", "allocation"), ALLOCATIONS)
def test_answer_is_that_of_the_reference(case: Case, plugin: Case, allocation: Case) -> None:
    configuration, node = built(case)
    resource = node.resources[ResourceName(plugin["registration"]["resourceName"])]
    expected = allocation["response"]
    if "code" in expected:
        with pytest.raises(AllocationError, match=f"^{re.escape(expected['details'])}$"):
            requested_devices(resource, allocation["request"], configuration.sharing)
        return
    devices = requested_devices(resource, allocation["request"], configuration.sharing)
    edits = answer(resource.name, devices, configuration, unique=UUID4)
    [container] = expected["containerResponses"]
    assert as_response(edits) == {**container, "devices": unique(container.get("devices", []))}


def as_response(edits: ContainerEdits) -> dict[str, Any]:
    """The answer as the golden data show it; lists and mappings that are empty are left out there."""
    devices = [
        {"containerPath": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
        for node in edits.device_nodes
    ]
    parts = {
        "envs": dict(edits.env),
        "mounts": [{"containerPath": mount.container_path, "hostPath": mount.host_path} for mount in edits.mounts],
        "annotations": dict(edits.annotations),
        "cdiDevices": [{"name": name} for name in edits.cdi_devices],
    }
    assert not any(mount.read_only for mount in edits.mounts)
    return {"devices": unique(devices), **{name: part for name, part in parts.items() if part}}


def unique(devices: Sequence[Case]) -> list[Case]:
    """Device specs as a set: the reference names a node once for each device that has it, in random order."""
    return sorted({each["containerPath"]: each for each in devices}.values(), key=lambda each: str(each))
