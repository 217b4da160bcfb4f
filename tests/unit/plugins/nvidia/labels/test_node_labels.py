"""Labels beside those that gpu-feature-discovery was seen to give; scenarios of spec section 10 by number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import PathUnusable
from plugbay.plugins.nvidia.config.choices import MigStrategy
from plugbay.plugins.nvidia.labels import MachineProperties, NodeLabels, PciFunction, node_labels
from plugbay.plugins.nvidia.labels.feature_file import feature_text, remove_feature_file, write_feature_file
from plugbay.plugins.nvidia.labels.label_values import label_value, sanitised
from plugbay.plugins.nvidia.labels.reading import read_machine
from plugbay.plugins.nvidia.labels.vgpu import HostDriver, host_driver, is_vgpu, vendor_capability
from plugbay.plugins.nvidia.survey import Fabric, Gpu, Survey
from tests.unit.plugins.nvidia.golden_machines import Case, configured, golden, machine

CASES: Final = {case["name"]: case for case in golden("gfd-labels")["cases"]}
LABELLED: Final = [name for name, case in CASES.items() if "labels" in case]
MACHINE_TYPE: Final = " DGX  A100 (rev/2) "
COMPUTE: Final = 0x030200
TIME_SLICING: Final = "sharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n"
MPS: Final = TIME_SLICING.replace("timeSlicing", "mps")


def space(*capabilities: bytes, is_listed: bool = True) -> bytes:
    """A configuration space with capabilities, each with its ID first and a place for the next one's after it."""
    config = bytearray(256)
    config[0x06] = 0x10 if is_listed else 0
    link, position = 0x34, 0x40
    for capability in capabilities:
        config[link] = position
        config[position : position + len(capability)] = capability
        link, position = position + 1, position + len(capability)
    return bytes(config)


VERSION_RECORD: Final = b"\0\x16" + b"460.16".ljust(10, b"\0") + b"r460_00".ljust(10, b"\0")
VGPU: Final = b"\x09\0\x1bVF" + VERSION_RECORD
PASSTHROUGH: Final = b"\x09\0\x14\x01" + bytes(16)


def with_classes(survey: Survey, *classes: int, config: bytes = bytes(256)) -> MachineProperties:
    functions = zip(survey.gpus, classes or [COMPUTE] * len(survey.gpus), strict=True)
    return MachineProperties(MACHINE_TYPE, tuple(PciFunction(gpu.pci_bus_id, each, config) for gpu, each in functions))


def labelled(survey: Survey, config: str = "", mig: MigStrategy = MigStrategy.NONE) -> NodeLabels:
    sharing = configured(config=config or None).sharing
    return node_labels(survey, with_classes(survey), mig=mig, sharing=sharing)


def survey_of(case: Case) -> Survey | None:
    if case["node"] not in golden("gfd-labels")["nodes"] or case["node"] == "nvml-init-fails":
        return None
    return machine(case["node"], of="gfd-labels")


@pytest.mark.parametrize("name", LABELLED)
def test_scenario_109_labels_are_those_of_the_reference(name: str) -> None:
    case = CASES[name]
    survey = survey_of(case)
    strategy = next((arg for arg in case["args"] if arg.startswith("--mig-strategy=")), "--mig-strategy=none")
    found = node_labels(
        survey,
        MachineProperties(MACHINE_TYPE, ()) if survey is None else with_classes(survey),
        mig=MigStrategy(strategy.partition("=")[2]),
        sharing=configured(config=case.get("config"), arguments=("--mps-root=/mps",)).sharing,
    )
    assert found.labels == case["labels"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("NVIDIA-TITAN-X-(Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("some ( thing )else", "some-thing-else"),
        (" input  with multiple   spaces   ", "input-with-multiple-spaces"),
        ("some / thing /else", "some-thing-else"),
    ],
)
def test_scenario_110_sanitised_values(text: str, clean: str) -> None:
    assert sanitised(text) == clean


@pytest.mark.parametrize(
    ("config", "product", "replicas"),
    [
        (TIME_SLICING, "NVIDIA-A100-SXM4-40GB-SHARED", "2"),
        (TIME_SLICING.replace("resources", "renameByDefault: true\n    resources"), "NVIDIA-A100-SXM4-40GB", "2"),
        (TIME_SLICING.replace("/gpu", "/mig-1g.5gb"), "NVIDIA-A100-SXM4-40GB", "1"),
    ],
)
def test_scenario_111_products_of_shared_gpus(config: str, product: str, replicas: str) -> None:
    labels = labelled(machine("two-a100"), config).labels
    assert (labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.replicas"]) == (product, replicas)


def test_scenario_112_a_gpu_in_mig_mode_is_not_shared_with_the_strategy_none() -> None:
    alone = labelled(machine("mig-3x1g", of="gfd-labels"), TIME_SLICING).labels
    assert [alone[f"nvidia.com/gpu.{end}"] for end in ("replicas", "sharing-strategy", "count", "product")] == [
        "0",
        "none",
        "1",
        "NVIDIA-A100-SXM4-40GB",
    ]
    beside = labelled(machine("mig-3x1g-and-full-gpu", of="gfd-labels"), TIME_SLICING).labels
    assert [beside[f"nvidia.com/gpu.{end}"] for end in ("replicas", "sharing-strategy", "count", "product")] == [
        "2",
        "time-slicing",
        "2",
        "NVIDIA-A100-SXM4-40GB-SHARED",
    ]


@pytest.mark.parametrize(
    ("classes", "mode"),
    [
        ((0x030000, 0x030000), "graphics"),
        ((0x030200, 0x030200), "compute"),
        ((0x068000, 0x068000), "unknown"),
        ((0x030000, 0x030200), "unknown"),
    ],
)
def test_scenario_114_modes_by_pci_class(classes: tuple[int, int], mode: str) -> None:
    survey = machine("two-a100")
    labels = node_labels(survey, with_classes(survey, *classes), mig=MigStrategy.NONE).labels
    assert labels["nvidia.com/gpu.mode"] == mode


def test_scenario_119_vgpus_by_their_capability() -> None:
    assert [len(vendor_capability(space(each)) or b"") for each in (PASSTHROUGH, VGPU)] == [20, 27]
    assert [is_vgpu(PASSTHROUGH), is_vgpu(VGPU)] == [False, True]
    assert host_driver(VGPU) == HostDriver("460.16", "r460_00")
    survey = machine("two-a100")
    labels = node_labels(survey, with_classes(survey, config=space(VGPU)), mig=MigStrategy.NONE).labels
    assert {name.rpartition("/")[2]: value for name, value in labels.items() if "vgpu" in name} == {
        "vgpu.present": "true",
        "vgpu.host-driver-version": "460.16",
        "vgpu.host-driver-branch": "r460_00",
    }


@pytest.mark.parametrize(
    ("capability", "host"),
    [
        (b"\x09\0\x1fVF\x07\x04\0\0" + VERSION_RECORD, HostDriver("460.16", "r460_00")),
        (b"\x09\0\x09VF\x07\x04\0\0", None),
        (b"\x09\0\x07VF\x07\0", None),
        (VGPU[:-1], None),
    ],
)
def test_records_before_the_host_s_driver_are_passed_over(capability: bytes, host: HostDriver | None) -> None:
    assert host_driver(capability) == host


def test_odd_lists_of_capabilities_end() -> None:
    assert vendor_capability(space(VGPU, is_listed=False)) is None
    looped = bytearray(space(b"\x05\x40\0"))
    looped[0x41] = 0x40
    assert vendor_capability(bytes(looped)) is None
    assert vendor_capability(space(b"\xff\0\0")) is None
    assert vendor_capability(space(b"\x05\0\0\0", VGPU)) == VGPU
    with pytest.raises(ValueError, match="64 bytes"):
        vendor_capability(bytes(64))


def test_a_vgpu_that_cannot_be_read_is_a_warning() -> None:
    survey = machine("two-a100")
    unreadable = node_labels(survey, with_classes(survey, config=bytes(64)), mig=MigStrategy.NONE)
    assert "nvidia.com/vgpu.present" not in unreadable.labels
    assert "reading it takes root" in unreadable.warnings[0]
    silent = node_labels(survey, with_classes(survey, config=space(b"\x09\0\x05VF")), mig=MigStrategy.NONE)
    assert silent.labels["nvidia.com/vgpu.present"] == "true"
    assert "does not tell its host's driver" in silent.warnings[0]
    assert "nvidia.com/vgpu.present" not in node_labels(survey, MachineProperties(), mig=MigStrategy.NONE).labels


def test_mps_with_a_gpu_in_mig_mode_is_a_warning() -> None:
    sharing = configured(config=MPS, arguments=("--mps-root=/mps",)).sharing
    survey = machine("mig-3x1g", of="gfd-labels")
    found = node_labels(survey, with_classes(survey), mig=MigStrategy.NONE, sharing=sharing)
    assert found.labels["nvidia.com/mps.capable"] == "false"
    assert "MPS sharing is not supported for MIG devices" in found.warnings[0]


def test_of_several_models_the_first_whole_gpu_s_labels_remain() -> None:
    survey = machine("mig-3x1g-and-full-gpu", of="gfd-labels")
    other = replace(survey, gpus=(survey.gpus[0], replace(survey.gpus[1], name="NVIDIA T4", compute_capability=(7, 5))))
    found = labelled(other)
    assert found.labels["nvidia.com/gpu.product"] == "NVIDIA-T4"
    assert found.labels["nvidia.com/gpu.family"] == "turing"
    assert "Multiple device types detected" in found.warnings[0]


def test_cliques_need_all_attached_gpus_to_agree() -> None:
    survey = machine("two-a100")
    one = Fabric("6f3a0000-0000-0000-0000-000000000000", 7, 3, 0)

    def clique(*fabrics: Fabric | None) -> str | None:
        gpus: tuple[Gpu, ...] = tuple(
            replace(gpu, fabric=fabric) for gpu, fabric in zip(survey.gpus, fabrics, strict=True)
        )
        return labelled(replace(survey, gpus=gpus)).labels.get("nvidia.com/gpu.clique")

    assert clique(one, one) == clique(one, None) == "6f3a0000-0000-0000-0000-000000000000.7"
    assert clique(one, replace(one, state=2)) == "6f3a0000-0000-0000-0000-000000000000.7"
    assert clique(one, replace(one, clique=8)) is None
    assert clique(None, None) is None


@pytest.mark.parametrize(
    ("version", "revision", "warnings"), [("560.35", "", 0), ("1.2.3.4", None, 1), ("560", None, 1)]
)
def test_versions_of_drivers(version: str, revision: str | None, warnings: int) -> None:
    found = labelled(replace(machine("two-a100"), driver_version=version))
    assert found.labels.get("nvidia.com/cuda.driver-version.revision") == revision
    assert len(found.warnings) == warnings


def test_labels_tell_the_time_of_the_start_when_it_is_given() -> None:
    found = node_labels(None, MachineProperties(), mig=MigStrategy.NONE, timestamp_s=1700000000)
    assert found.labels == {"nvidia.com/gfd.timestamp": "1700000000"}


def test_values_are_valid_labels() -> None:
    assert label_value("-" + "a" * 70 + "-") == "a" * 63
    assert label_value("a" * 62 + "-b") == "a" * 62
    long = replace(machine("two-a100"), gpus=(replace(machine("two-a100").gpus[0], name="(N) " + "x" * 80),))
    assert len(labelled(long, TIME_SLICING).labels["nvidia.com/gpu.product"]) == 63


def test_the_machine_is_read_below_a_root(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    for path, content in (
        (device / "vendor", b"0x10de\n"),
        (device / "class", b"0x030200\n"),
        (device / "config", space(VGPU)),
        (device.parent / "0000:00:00.0/vendor", b"0x8086\n"),
        (tmp_path / "sys/class/dmi/id/product_name", b" DGX\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert read_machine(tmp_path) == MachineProperties("DGX", (PciFunction("0000:3b:00.0", COMPUTE, space(VGPU)),))
    assert read_machine(tmp_path, "").machine_type is None
    (device / "class").write_text("odd")
    assert read_machine(tmp_path, "/missing") == MachineProperties(None, None)


def test_the_feature_file_is_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "features.d/gfd"
    write_feature_file({"nvidia.com/b": "", "nvidia.com/a": "1"}, path)
    write_feature_file({"nvidia.com/b": "", "nvidia.com/a": "2"}, path)
    assert (
        path.read_text() == "nvidia.com/a=2\nnvidia.com/b=\n" == feature_text({"nvidia.com/b": "", "nvidia.com/a": "2"})
    )
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["gfd"]
    remove_feature_file(path)
    remove_feature_file(path)
    assert list(path.parent.iterdir()) == []


def test_a_feature_file_that_cannot_be_written_is_the_operator_s(tmp_path: Path) -> None:
    (tmp_path / "gfd").mkdir()
    with pytest.raises(PathUnusable, match="cannot be written"):
        write_feature_file({}, tmp_path / "gfd")
    assert [each.name for each in tmp_path.iterdir()] == ["gfd"]
    with pytest.raises(PathUnusable, match="cannot be removed"):
        remove_feature_file(tmp_path / "gfd")


@pytest.mark.parametrize(("content", "value"), [("DGX  A100\n", "DGX-A100"), ("\n", ""), (None, "unknown")])
def test_a_machine_without_a_name_has_an_empty_label_and_one_that_cannot_be_read_is_unknown(
    content: str | None, value: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "name").write_text(content)
    survey = machine("two-a100")
    found = node_labels(survey, read_machine(tmp_path, "/name"), mig=MigStrategy.NONE, sharing=configured().sharing)
    assert found.labels["nvidia.com/gpu.machine"] == value
