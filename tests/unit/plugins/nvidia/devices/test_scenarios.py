"""The scenarios of devices and MIG, by their numbers in the specification of NVIDIA's plugin (section 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.cdi.devices import spec_devices
from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy, Dialect, MigStrategy
from plugbay.plugins.nvidia.config.resource_names import GPU
from plugbay.plugins.nvidia.devices.detection import GpuSource, PlatformSigns, source_of
from plugbay.plugins.nvidia.devices.devices import (
    DeviceKind,
    DeviceMap,
    NvidiaDevice,
    all_devices,
    by_index,
    physical_of,
    with_device,
)
from plugbay.plugins.nvidia.devices.node import NodeDevices, node_devices
from plugbay.plugins.nvidia.devices.problems import check_problems
from plugbay.plugins.nvidia.survey import Gpu, GpuUuid, MigMinors, Survey, UnreadableGpu
from tests.unit.plugins.nvidia.golden_machines import configured, machine, minors

NO_MINORS: Final = MigMinors({}, {})
SLICED: Final = "sharing: {timeSlicing: {renameByDefault: true, resources: ["


def built(
    survey: Survey,
    *arguments: str,
    config: str | None = None,
    caps: MigMinors | None = None,
    dialect: Dialect = Dialect.EXTENDED,
) -> NodeDevices:
    configuration = configured(arguments, config=config, dialect=dialect)
    choice = source_of(configuration.discovery_strategy, PlatformSigns(has_nvml=True), survey)
    return node_devices(configuration, choice.source, survey, minors() if caps is None else caps)


def ids(node: NodeDevices) -> dict[str, list[str]]:
    return {name: list(resource.listed_ids()) for name, resource in node.resources.items()}


def counts(node: NodeDevices) -> dict[str, int]:
    return {name: len(listed) for name, listed in ids(node).items()}


def failure(node: NodeDevices) -> str:
    with pytest.raises(GpusUnusable) as raised:
        check_problems(node.problems, fail_on_init_error=True)
    check_problems(node.problems, fail_on_init_error=False)
    return str(raised.value)


def with_gpus(survey: Survey, *gpus: Gpu) -> Survey:
    return replace(survey, gpus=gpus)


def test_35_numa_nodes() -> None:
    [resource] = built(machine("two-a100")).resources.values()
    assert [device.numa_node for device in resource.devices.values()] == [0, 1]


def test_36_no_numa_node() -> None:
    survey = machine("two-a100")
    [resource] = built(with_gpus(survey, replace(survey.gpus[0], numa_node=None))).resources.values()
    assert [device.numa_node for device in resource.devices.values()] == [None]


@pytest.mark.parametrize("name", ["mig-3x1g", "mig-enabled-empty"])
def test_37_strategy_none_offers_the_whole_gpu(name: str) -> None:
    survey = machine(name)
    assert ids(built(survey)) == {"nvidia.com/gpu": [survey.gpus[0].uuid]}


def test_38_strategy_single() -> None:
    node = built(machine("mig-3x1g"), "--mig-strategy=single")
    [resource] = node.resources.values()
    assert resource.name == GPU
    devices = list(resource.devices.values())
    assert [device.id for device in devices] == [f"MIG-{gi:02}000000-0000-0000-0000-000000000000" for gi in (7, 8, 9)]
    assert {device.numa_node for device in devices} == {0}
    assert [device.index for device in devices] == ["0:0", "0:1", "0:2"]
    assert devices[0].paths == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    assert devices[0].memory_bytes == 4864 << 20
    assert devices[0].compute_capability == (8, 0)


def test_problems_say_what_they_cost_a_plugin_that_runs_on() -> None:
    sharing = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}"
    told = [
        problem.sentence()
        for node in (
            built(machine("mig-3x1g-and-3g"), "--mig-strategy=single"),
            built(machine("mig-3x1g"), "--mig-strategy=single", "--mps-root=/mps", config=sharing),
            built(machine("mig-3x1g"), "--mig-strategy=single", caps=NO_MINORS),
        )
        for problem in node.problems[:1]
    ]
    assert [each.split(": ")[0] for each in told] == [
        "no MIG device is offered",
        "not all devices are shared as configured",
        "a device of GPU 0 is not offered",
    ]


def test_39_strategy_single_with_two_kinds() -> None:
    node = built(machine("mig-3x1g-and-3g"), "--mig-strategy=single")
    assert failure(node) == "more than one MIG device type present on node"
    assert counts(node) == {}


def test_40_strategy_single_without_mig_devices() -> None:
    node = built(machine("mig-enabled-empty"), "--mig-strategy=single")
    assert failure(node) == "device 0 has no MIG devices configured"


def test_41_strategy_single_with_one_gpu_in_mig_mode() -> None:
    node = built(machine("mig-3x1g-and-full-gpu"), "--mig-strategy=single")
    assert failure(node) == "all devices on the node must be configured with the same migEnabled value"
    assert counts(node) == {"nvidia.com/gpu": 1}, "without fail-on-init-error the whole GPU is offered"


def test_42_strategy_single_takes_split_gpu_instances() -> None:
    node = built(machine("mig-3g-split-into-two-ci"), "--mig-strategy=single")
    assert counts(node) == {"nvidia.com/gpu": 2}
    assert not node.problems


def test_43_strategy_mixed_refuses_split_gpu_instances() -> None:
    node = built(machine("mig-3g-split-into-two-ci"), "--mig-strategy=mixed")
    assert failure(node) == "MIG profile '1c.3g.20gb' does not match any resource patterns"
    own = built(
        machine("mig-3g-split-into-two-ci"),
        "--mig-strategy=mixed",
        config="resources: {mig: [{pattern: '1c.*', name: mig-half}]}",
    )
    assert counts(own) == {"nvidia.com/mig-half": 2}, "a pattern of the file names the resource"


def test_44_strategy_mixed() -> None:
    node = built(machine("mig-five-kinds-and-full-gpu"), "--mig-strategy=mixed")
    assert {resource.socket_name: len(resource.devices) for resource in node.resources.values()} == {
        "nvidia-gpu.sock": 1,
        "nvidia-mig-1g.5gb.sock": 1,
        "nvidia-mig-1g.5gb.me.sock": 1,
        "nvidia-mig-1g.10gb.sock": 1,
        "nvidia-mig-3g.20gb.sock": 1,
    }
    assert {each.pattern: each.resource for each in node.patterns.mig}["1g.5gb+me"] == "nvidia.com/mig-1g.5gb.me"


def test_45_strategy_mixed_without_mig_devices() -> None:
    node = built(machine("mig-empty-and-full-gpu"), "--mig-strategy=mixed")
    assert counts(node) == {"nvidia.com/gpu": 1}
    assert node.warnings[0].startswith("device 0 has no MIG devices configured")
    assert not node.problems
    alone = built(machine("mig-enabled-empty"), "--mig-strategy=mixed")
    assert not alone.resources
    assert not alone.problems


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_46_missing_cap_minors(strategy: str) -> None:
    node = built(machine("mig-3x1g"), f"--mig-strategy={strategy}", caps=NO_MINORS)
    path = "/proc/driver/nvidia/capabilities/gpu0/mig/gi7/access"
    assert failure(node) == f"missing MIG GPU instance capability path: {path}"
    without_compute = replace(minors(), compute_instances={})
    assert failure(built(machine("mig-3x1g"), f"--mig-strategy={strategy}", caps=without_compute)).endswith(path)


def test_46_missing_cap_minors_of_one_device_leave_the_others() -> None:
    whole = minors()
    caps = replace(whole, gpu_instances={key: minor for key, minor in whole.gpu_instances.items() if key != (0, 8)})
    node = built(machine("mig-3x1g"), "--mig-strategy=mixed", caps=caps)
    assert counts(node) == {"nvidia.com/mig-1g.5gb": 2}
    assert len(node.problems) == 1


def test_46_missing_cap_minors_hide_an_error_of_the_configuration() -> None:
    assert failure(built(machine("mig-3x1g-and-3g"), "--mig-strategy=single", caps=NO_MINORS)).startswith("missing MIG")


@pytest.mark.parametrize("dialect", Dialect)
def test_47_strategy_mixed_with_shared_resources(dialect: Dialect) -> None:
    config = SLICED + "{name: mig-1g.5gb, replicas: 2}, {name: nvidia.com/gpu, replicas: 2}]}}"
    node = built(machine("mig-five-kinds-and-full-gpu"), "--mig-strategy=mixed", config=config, dialect=dialect)
    assert counts(node) == {
        "nvidia.com/gpu.shared": 2,
        "nvidia.com/mig-1g.5gb.shared": 2,
        "nvidia.com/mig-1g.5gb.me": 1,
        "nvidia.com/mig-1g.10gb": 1,
        "nvidia.com/mig-3g.20gb": 1,
    }
    assert not node.problems


def test_48_device_map_grows() -> None:
    one, two = (NvidiaDevice(each, each, DeviceKind.GPU) for each in ("1", "2"))
    other = ResourceName("nvidia.com/other")
    devices: DeviceMap = with_device({}, GPU, one)
    assert list(devices[GPU].devices.values()) == [one]
    devices = with_device(devices, GPU, two)
    assert list(devices[GPU].devices) == ["1", "2"]
    devices = with_device(devices, other, one)
    assert [(name, device.id) for name, device in all_devices(devices)] == [(GPU, "1"), (GPU, "2"), (other, "1")]
    again = with_device(devices, GPU, replace(one, memory_bytes=5))
    assert again[GPU].devices["1"].memory_bytes == 5
    assert len(again[GPU].devices) == 2


def test_49_wsl_machine_has_one_device() -> None:
    survey = machine("two-a100")
    survey = with_gpus(survey, *survey.gpus, replace(survey.gpus[0], index=2))
    choice = source_of(configured().discovery_strategy, PlatformSigns(has_dxcore=True, has_nvml=True), survey)
    assert choice.source is GpuSource.WSL
    node = node_devices(configured(), choice.source, survey, NO_MINORS)
    [device] = node.resources[GPU].devices.values()
    assert (device.id, device.index, device.paths, device.kind) == ("all", "all", ("/dev/dxg",), DeviceKind.WSL)
    assert not node_devices(configured(), GpuSource.WSL, with_gpus(survey), NO_MINORS).resources


@pytest.mark.parametrize("arguments", [[], ["--device-discovery-strategy=tegra"]])
def test_50_tegra_machine_has_one_device(arguments: Sequence[str]) -> None:
    survey = machine("two-a100")
    if not arguments:
        survey = with_gpus(survey, replace(survey.gpus[0], name="NVIDIA Thor"))
    [device] = built(survey, *arguments).resources[GPU].devices.values()
    assert (device.id, device.index, device.paths, device.numa_node) == ("tegra", "0", (), None)


def test_display_of_a_workstation_is_skipped_and_keeps_its_index() -> None:
    survey = machine("two-a100")
    survey = with_gpus(survey, replace(survey.gpus[0], name="NVIDIA DGX Display"), survey.gpus[1])
    [device] = built(survey).resources[GPU].devices.values()
    assert (device.index, device.paths) == ("1", ("/dev/nvidia1",))


def test_lost_gpu_leaves_the_others() -> None:
    survey = machine("two-a100")
    problem = "error getting device handle for index '1': GPU is lost"
    told = "the driver does not describe GPU 1: GPU is lost"
    lost = replace(with_gpus(survey, survey.gpus[0]), unreadable=(UnreadableGpu(1, told, 15),))
    node = built(lost)
    assert failure(node) == problem
    assert counts(node) == {"nvidia.com/gpu": 1}
    assert failure(built(lost, "--mig-strategy=mixed")) == problem


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
@pytest.mark.parametrize("name", ["two-a100", "mig-3x1g"])
def test_a_gpu_without_a_minor_number_has_no_device_node_to_give(name: str, strategy: str) -> None:
    """The reference ends. In WSL no GPU has one, and none needs it."""
    survey = machine(name)
    survey = with_gpus(survey, replace(survey.gpus[0], minor=-1), *survey.gpus[1:])
    node = built(survey, f"--mig-strategy={strategy}")
    assert failure(node) == "GPU 0 has no device node: error getting GPU device minor number: Not Supported"
    assert counts(node) == ({"nvidia.com/gpu": 1} if name == "two-a100" else {})
    described = spec_devices(survey, minors(), mig=MigStrategy(strategy), ids=DeviceIdStrategy.UUID)
    assert [each.paths for each in described] == ([("/dev/nvidia1",)] if name == "two-a100" else [])
    assert node_devices(configured(), GpuSource.WSL, survey, NO_MINORS).resources


def test_mig_device_of_a_profile_that_is_not_known_leaves_the_others() -> None:
    [gpu] = machine("mig-3x1g").gpus
    first, *others = gpu.mig_devices
    survey = with_gpus(machine("mig-3x1g"), replace(gpu, mig_devices=(replace(first, profile=None), *others)))
    node = built(survey, "--mig-strategy=mixed")
    where = "error getting MIG profile for MIG device at index '(0, 0)'"
    assert failure(node) == f"{where}: no matching profile IDs found"
    assert counts(node) == {"nvidia.com/mig-1g.5gb": 2}


def test_patterns_of_the_file_name_resources_by_model() -> None:
    config = "resources: {gpus: [{pattern: '*A100*', name: a100}]}"
    survey = machine("two-a100")
    survey = with_gpus(survey, survey.gpus[0], replace(survey.gpus[1], name="Tesla T4"))
    assert counts(built(survey, config=config)) == {"nvidia.com/a100": 1, "nvidia.com/gpu": 1}
    assert counts(built(survey, config=config, dialect=Dialect.REFERENCE)) == {"nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("all", {"nvidia.com/slice": 6}),
        ("1", {"nvidia.com/slice": 3, "nvidia.com/gpu": 1}),
        ("[1]", {"nvidia.com/slice": 3, "nvidia.com/gpu": 1}),
        ("[GPU-11111111-1111-1111-1111-111111111111, 01]", {"nvidia.com/slice": 3, "nvidia.com/gpu": 1}),
        ("[0, 1]", {"nvidia.com/slice": 6}),
    ],
)
def test_devices_and_rename_do_what_they_say(devices: str, expected: dict[str, int]) -> None:
    config = f"sharing: {{timeSlicing: {{resources: [{{name: gpu, rename: slice, replicas: 3, devices: {devices}}}]}}}}"
    node = built(machine("two-a100"), config=config)
    assert counts(node) == expected
    assert not node.problems
    assert counts(built(machine("two-a100"), config=config, dialect=Dialect.REFERENCE)) == {"nvidia.com/gpu": 6}


def test_several_entries_share_out_a_resource() -> None:
    config = SLICED + "{name: gpu, replicas: 2, devices: [1], rename: half}, {name: gpu, replicas: 5}]}}"
    assert counts(built(machine("two-a100"), config=config)) == {"nvidia.com/half": 2, "nvidia.com/gpu.shared": 5}
    merged = built(machine("two-a100"), config=config, dialect=Dialect.REFERENCE)
    assert counts(merged) == {"nvidia.com/gpu.shared": 10}


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        ("3", "requested 3 devices to be replicated, found 2"),
        ("[7]", "is called 7"),
        ("['0:1']", "is called 0:1"),
    ],
)
def test_devices_that_do_not_exist(devices: str, problem: str) -> None:
    config = SLICED + f"{{name: gpu, replicas: 2, devices: {devices}}}]}}}}"
    assert problem in failure(built(machine("two-a100"), config=config))


def test_mig_devices_are_called_by_index_and_by_both_uuids() -> None:
    [gpu] = machine("mig-3x1g").gpus
    references = ["0:0", gpu.mig_devices[1].uuid, f"MIG-{gpu.uuid}/9/0"]
    config = SLICED + f"{{name: mig-1g.5gb, replicas: 2, devices: {references}}}]}}}}"
    assert counts(built(machine("mig-3x1g"), "--mig-strategy=mixed", config=config)) == {
        "nvidia.com/mig-1g.5gb.shared": 6
    }


def test_mps_shares_no_mig_devices() -> None:
    config = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}"
    node = built(machine("mig-3x1g"), "--mig-strategy=single", "--mps-root=/mps", config=config)
    assert failure(node) == "sharing using MPS is not supported for MIG devices"
    assert counts(node) == {"nvidia.com/gpu": 3}


@given(st.integers(1, 40), st.integers(1, 12))
def test_replicas_of_any_number_are_found_by_their_ids(replicas: int, gpus: int) -> None:
    survey = machine("two-a100")
    many = [
        replace(survey.gpus[0], index=index, minor=index, uuid=GpuUuid(f"GPU-{index}"))
        for index in reversed(range(gpus))
    ]
    config = None if replicas == 1 else SLICED + f"{{name: gpu, replicas: {replicas}}}]}}}}"
    [resource] = built(with_gpus(survey, *many), config=config).resources.values()
    listed = resource.listed_ids()
    assert len(set(listed)) == len(listed) == replicas * gpus
    for each in listed:
        device = resource.device(each)
        assert device is not None
        assert device.id == physical_of(each)
        assert ("::" in each) == (replicas > 1) == device.is_shared
    assert sorted(resource.devices.values(), key=by_index) == list(resource.devices.values())
    strange = (
        "",
        "GPU-0::",
        "GPU-0::x",
        f"GPU-0::{replicas}",
        "GPU-0::-1",
        "GPU-0::00",
        "GPU-0::0::0",
        "GPU-x",
        "GPU-0::²",
    )
    assert not any(map(resource.device, strange))
    assert (resource.device("GPU-0") is None) == (replicas > 1)
