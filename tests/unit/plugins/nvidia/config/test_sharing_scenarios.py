"""Scenarios 16 to 31 of configurations: devices that are shared, and channels of IMEX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.config.choices import (
    Dialect,
    SharingStrategy,
)
from plugbay.plugins.nvidia.config.resource_names import GPU
from plugbay.plugins.nvidia.config.selections import (
    ALL_DEVICES,
    DeviceReference,
    FirstDevices,
    ListedDevices,
    ReferenceKind,
    printed_selection,
)
from plugbay.plugins.nvidia.platform.imex import find_channels
from tests.unit.plugins.nvidia.config.scenario_parts import MPS, SHARED, refusal, time_sliced
from tests.unit.plugins.nvidia.golden_machines import configured

GPU_UUID: Final = "GPU-00000000-1111-2222-3333-444444444444"
MIG_UUID: Final = "MIG-00000000-1111-2222-3333-444444444444"
LEGACY_UUID: Final = f"MIG-{GPU_UUID}/3/0"
ROOT: Final = ("--mps-root=/run/nvidia/mps",)


def selection(value: object) -> Any:
    config = SHARED + f"      devices: {json.dumps(value)}\n"
    return time_sliced(configured(config=config, dialect=Dialect.EXTENDED)).resources[0].devices


@pytest.mark.parametrize("index", [0, "0"])
def test_16_number_and_text_are_the_same_reference(index: object) -> None:
    assert selection([index]) == ListedDevices((DeviceReference("0", ReferenceKind.GPU_INDEX),))


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (["0:0"], [ReferenceKind.MIG_INDEX]),
        ([GPU_UUID], [ReferenceKind.GPU_UUID]),
        ([MIG_UUID], [ReferenceKind.MIG_UUID]),
        ([LEGACY_UUID], [ReferenceKind.MIG_UUID]),
        ([0, "1:2", GPU_UUID], [ReferenceKind.GPU_INDEX, ReferenceKind.MIG_INDEX, ReferenceKind.GPU_UUID]),
    ],
)
def test_16_18_references_are_of_exactly_one_kind(value: list[object], kinds: list[ReferenceKind]) -> None:
    selected = selection(value)
    assert [reference.kind for reference in selected.references] == kinds


def test_16_devices_all_and_a_count() -> None:
    assert selection("all") == ALL_DEVICES
    assert selection(2) == FirstDevices(2)


@pytest.mark.parametrize(
    "value",
    [
        "not-all",
        -2,
        0,
        [-1],
        ["-1"],
        ["GPU-UUID"],
        ["MIG-UUID"],
        [f"MIG-{GPU_UUID}"],
        [True],
        True,
        {},
        [0.5],
    ],
    ids=str,
)
@pytest.mark.parametrize("dialect", Dialect)
def test_17_devices_that_are_refused(value: object, dialect: Dialect) -> None:
    error = refusal(SHARED + f"      devices: {json.dumps(value)}\n", dialect=dialect)
    assert error.line == 6
    assert error.field.startswith("sharing.timeSlicing.resources[0].devices")
    assert "GPU indices" in error.allowed


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("devices", "devices set as '' but the only valid string input is 'all'"),
        ("rename", "incorrect format for resource name 'nvidia.com/'"),
    ],
)
@pytest.mark.parametrize("dialect", Dialect)
def test_17_null_is_the_empty_text_where_it_is_read(field: str, problem: str, dialect: Dialect) -> None:
    """The reference looks whether the field is there, and reads null as it reads ``""``."""
    config = SHARED + f"      {field}: null\n"
    error = refusal(config, dialect=dialect)
    assert problem in error.problem
    assert error.field == f"sharing.timeSlicing.resources[0].{field}"


@pytest.mark.parametrize("value", ["[null]", "[null, null]"])
def test_17_null_in_a_list_of_devices_is_what_only_the_reference_takes(value: str) -> None:
    config = SHARED + f"      devices: {value}\n"
    assert time_sliced(configured(config=config)).resources[0].devices == ALL_DEVICES
    assert "unsupported type for device" in refusal(config, dialect=Dialect.EXTENDED).problem


def test_17_empty_list_of_devices() -> None:
    config = SHARED + "      devices: []\n"
    assert time_sliced(configured(config=config)).resources[0].devices == ALL_DEVICES
    assert "selects no device" in refusal(config, dialect=Dialect.EXTENDED).problem


def test_19_devices_printed() -> None:
    references = tuple(map(DeviceReference.parse, ("0", "0:1", GPU_UUID)))
    assert printed_selection(ALL_DEVICES) == "all"
    assert printed_selection(FirstDevices(2)) == 2
    assert printed_selection(ListedDevices(references)) == ["0", "0:1", GPU_UUID]
    with pytest.raises(ValueError, match="selects no device"):
        ListedDevices(())


def test_20_shared_resource_without_devices_has_all() -> None:
    assert time_sliced(configured(config=SHARED)).resources[0].devices == ALL_DEVICES


@pytest.mark.parametrize("name", ["valid", "nvidia.com/valid"])
def test_21_resource_names(name: str) -> None:
    shared = time_sliced(configured(config=SHARED.replace("name: gpu", f"name: {name}")))
    assert shared.resources[0].name == "nvidia.com/valid"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("$invalid$", "incorrect format for resource name 'nvidia.com/$invalid$': [a lowercase RFC 1123 subdomain"),
        ("a" * 60, "fully-qualified resource name must be 63 characters or less: nvidia.com/aaa"),
        ("example.com/gpu", "incorrect format for resource name 'nvidia.com/example.com/gpu': ["),
        ("''", "incorrect format for resource name 'nvidia.com/': ["),
    ],
)
def test_21_resource_names_that_are_refused(name: str, problem: str) -> None:
    error = refusal(SHARED.replace("name: gpu", f"name: {name}"))
    assert error.problem.startswith(problem)
    assert error.line == 4


def test_22_rename_without_rename_by_default() -> None:
    configuration = configured(config=SHARED + "      rename: foo\n")
    assert time_sliced(configuration).resources[0].registered_name == GPU
    assert "config.yaml:6: sharing.timeSlicing.resources[0].rename" in configuration.warnings[0]
    extended = configured(config=SHARED + "      rename: foo\n", dialect=Dialect.EXTENDED)
    assert time_sliced(extended).resources[0].registered_name == "nvidia.com/foo"
    assert "NVIDIA's plugin 0.20 would ignore it" in extended.warnings[0]


@pytest.mark.parametrize("dialect", Dialect)
def test_23_rename_by_default(dialect: Dialect) -> None:
    config = SHARED.replace("timeSlicing:", "timeSlicing:\n    renameByDefault: true")
    configuration = configured(config=config, dialect=dialect)
    assert time_sliced(configuration).resources[0].registered_name == "nvidia.com/gpu.shared"
    assert not configuration.warnings


@pytest.mark.parametrize(("value", "fails"), [(None, True), ("true", True), ("false", False)])
def test_24_mps_fails_requests_over_one_unless_told(value: str | None, fails: bool) -> None:
    config = MPS if value is None else MPS.replace("mps:", f"mps:\n    failRequestsGreaterThanOne: {value}")
    assert configured(ROOT, config=config).sharing.fails_requests_over_one is fails


def test_25_time_slicing_does_not_fail_requests_over_one_unless_told() -> None:
    assert not configured(config=SHARED).sharing.fails_requests_over_one
    config = SHARED.replace("timeSlicing:", "timeSlicing:\n    failRequestsGreaterThanOne: true")
    assert configured(config=config).sharing.fails_requests_over_one


@pytest.mark.parametrize("way", ["timeSlicing", "mps"])
@pytest.mark.parametrize("value", ["{}", "null", "{resources: []}", "{resources: null}"])
def test_26_no_resources(way: str, value: str) -> None:
    dialect = Dialect.EXTENDED if (way, value) == ("mps", "null") else Dialect.REFERENCE
    assert refusal(f"sharing: {{{way}: {value}}}", *ROOT, dialect=dialect).problem == "no resources specified"


def test_26_null_for_mps_shares_nothing() -> None:
    assert configured(config="sharing: {mps: null}").sharing.active is None


def test_27_two_shared_resources() -> None:
    shared = time_sliced(configured(config=SHARED + "    - name: mig-1g.5gb\n      replicas: 3\n"))
    assert [(each.name, each.replicas, each.devices) for each in shared.resources] == [
        ("nvidia.com/gpu", 2, ALL_DEVICES),
        ("nvidia.com/mig-1g.5gb", 3, ALL_DEVICES),
    ]
    assert not shared.rename_by_default
    assert shared.fails_requests_over_one is None


def test_28_mps_counts_before_time_slicing() -> None:
    configuration = configured(ROOT, config=SHARED + MPS.partition("\n")[2])
    assert configuration.sharing.strategy is SharingStrategy.MPS
    assert configuration.sharing.active is configuration.sharing.mps


def test_29_mps_with_mixed_and_without_root() -> None:
    mixed = refusal(MPS, "--mig-strategy=mixed", *ROOT)
    assert mixed.problem == "using --mig-strategy=mixed is not supported with MPS"
    rootless = refusal(MPS)
    assert rootless.problem == "using MPS requires --mps-root to be specified"
    assert (rootless.field, rootless.line) == ("sharing.mps", 2), "where the file asks for it"


@pytest.mark.parametrize("value", ["{}", "{channelIDs: null}", "{channelIDs: []}", "{channelIDs: [0]}", "null"])
def test_30_imex_channels(value: str) -> None:
    assert configured(config=f"imex: {value}").imex.channel_ids in ((), (0,))


@pytest.mark.parametrize(("value", "found"), [("[1]", "[1]"), ("[2]", "[2]"), ("[0, 0]", "[0 0]")])
def test_30_imex_channels_that_are_refused(value: str, found: str) -> None:
    error = refusal(f"imex:\n  channelIDs: {value}\n")
    expected = f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found {found}"
    assert (error.problem, error.line, error.field) == (expected, 2, "imex.channelIDs")


def test_31_missing_imex_channel(tmp_path: Path) -> None:
    required = configured(config="imex: {channelIDs: [0], required: true}").imex
    with pytest.raises(GpusUnusable, match="requested IMEX channel channel0 does not exist"):
        find_channels(required, [tmp_path])
    channels, [warning] = find_channels(configured(["--imex-channel-ids=0"]).imex, [tmp_path])
    assert channels == ()
    assert warning.startswith("Ignoring requested IMEX channel channel0")
    assert warning.endswith("containers get it from the next look at the machine on at which it is one")


def test_31_imex_channel_that_exists(tmp_path: Path) -> None:
    node = tmp_path / "dev/nvidia-caps-imex-channels/channel0"
    node.parent.mkdir(parents=True)
    node.symlink_to("/dev/null")  # a character device that is everywhere
    channels, warnings = find_channels(configured(["--imex-channel-ids=0"]).imex, [tmp_path / "elsewhere", tmp_path])
    assert [channel.path for channel in channels] == ["/dev/nvidia-caps-imex-channels/channel0"]
    assert warnings == ()
