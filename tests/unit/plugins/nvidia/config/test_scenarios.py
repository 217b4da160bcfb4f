"""The scenarios of configuration, by their numbers in the specification of NVIDIA's plugin (section 10)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from plugbay.errors import InvalidNvidiaConfig, UsageError
from plugbay.plugins.nvidia.config.choices import (
    DeviceIdStrategy,
    DeviceListStrategy,
    Dialect,
    DiscoveryStrategy,
    MigStrategy,
    SharedAllocationPolicy,
)
from plugbay.plugins.nvidia.config.durations import ENDLESS, Span
from plugbay.plugins.nvidia.config.printing import feature_discovery_as_json, printed
from plugbay.plugins.nvidia.config.resource_names import GPU, ResourcePattern, ResourcePatterns
from tests.unit.plugins.nvidia.config.scenario_parts import MPS, SHARED, refusal, time_sliced
from tests.unit.plugins.nvidia.golden_machines import configured


def test_01_defaults() -> None:
    configuration = configured()
    assert configuration.mig_strategy is MigStrategy.NONE
    assert configuration.fail_on_init_error
    assert configuration.list_strategies == (DeviceListStrategy.ENVVAR,)
    assert configuration.id_strategy is DeviceIdStrategy.UUID
    assert configuration.allocation_policy is SharedAllocationPolicy.DISTRIBUTED
    assert configuration.discovery_strategy is DiscoveryStrategy.AUTO
    assert configuration.roots.host == configuration.roots.host_dev == "/"
    assert configuration.roots.container == "/driver-root"
    assert configuration.kubelet_socket == "/var/lib/kubelet/device-plugins/kubelet.sock"
    assert configuration.cdi.annotation_prefix == "cdi.k8s.io/"
    assert configuration.cdi.hook_path == "/usr/bin/nvidia-ctk"


def test_02_environment_counts_before_the_file() -> None:
    configuration = configured(environment={"MIG_STRATEGY": "single"}, config="flags: {migStrategy: mixed}")
    assert configuration.mig_strategy is MigStrategy.SINGLE


def test_03_command_line_counts_before_the_environment() -> None:
    environment = {"MIG_STRATEGY": "single"}
    configuration = configured(["--mig-strategy=none"], environment, "flags: {migStrategy: mixed}")
    assert configuration.mig_strategy is MigStrategy.NONE


def test_04_list_on_the_command_line_replaces_that_of_the_environment() -> None:
    configuration = configured(["--device-list-strategy=volume-mounts"], {"DEVICE_LIST_STRATEGY": "envvar"})
    assert configuration.list_strategies == (DeviceListStrategy.VOLUME_MOUNTS,)


def test_05_empty_boolean_variable_is_false() -> None:
    assert not configured(environment={"FAIL_ON_INIT_ERROR": ""}).fail_on_init_error


def test_06_empty_text_variable_is_an_empty_text() -> None:
    with pytest.raises(InvalidNvidiaConfig) as raised:
        configured(environment={"MIG_STRATEGY": ""})
    assert raised.value.problem == "unknown MIG strategy: "
    assert str(raised.value) == "environment: MIG_STRATEGY: unknown MIG strategy:  (allowed: none, single, mixed)"


def test_07_boolean_variable_of_another_kind_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match='could not parse "maybe" as bool value'):
        configured(environment={"FAIL_ON_INIT_ERROR": "maybe"})


def test_08_other_version() -> None:
    assert refusal("version: v2").problem == "unknown version: v2"


@pytest.mark.parametrize(
    "config", ["", "\n# nothing\n", "null", "foo: bar", "version: v1\nversion: v1\n", "VERSION: v1\nFlags: {}\n"]
)
def test_09_tolerated_files(config: str) -> None:
    assert configured(config=config).mig_strategy is MigStrategy.NONE


def test_09_fields_count_without_regard_to_case() -> None:
    for dialect in Dialect:
        configuration = configured(config="flags: {MIGSTRATEGY: single}", dialect=dialect)
        assert configuration.mig_strategy is MigStrategy.SINGLE


def test_09_extended_dialect_refuses_what_is_probably_a_mistake() -> None:
    error = refusal("version: v1\nflags:\n  migStrateg: single\n", dialect=Dialect.EXTENDED)
    assert (error.line, error.field, error.problem) == (3, "flags.migStrateg", "unknown field")
    assert "migStrategy" in error.allowed
    assert refusal("version: v1\nversion: v1\n", dialect=Dialect.EXTENDED).line == 2
    assert "same field as flags" in refusal("flags: {}\nFlags: {}\n", dialect=Dialect.EXTENDED).problem
    assert "more than one document" in refusal("{}\n---\n{}\n", dialect=Dialect.EXTENDED).problem
    assert replace(configured(config="{}\n---\nversion: v2\n"), warnings=()) == configured()


LENIENT: Final = [
    (
        "flags:\n  migStrateg: single\n",
        2,
        "flags.migStrateg: there is no such field; it is ignored (allowed: migStrategy,",
    ),
    ("flags: {}\nimex: {}\nflags:\n", 3, "flags: duplicate key: it stands at line 1 as well, and the last one counts"),
    ("flags: {}\nFlags: {}\n", 2, "Flags: it is the same field as flags; where both speak, flags counts"),
    ("version: v1\n---\nversion: v2\n", 1, "more documents follow this one; they are ignored"),
    ("version: v1\n---\n[\n", 1, "more documents follow this one; they are ignored"),
    (
        "flags:\n  plugin:\n    deviceListStrategy: []\n",
        3,
        "flags.plugin.deviceListStrategy: an empty list: containers get no device (allowed: one of envvar, ",
    ),
    ("imex:\n  channelIDs:\n  - null\n", 3, "imex.channelIDs[0]: null counts as 0"),
    ("sharing:\n  mps:\n", 2, "sharing.mps: null shares nothing by MPS"),
    (
        "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 10001\n",
        5,
        "sharing.timeSlicing.resources[0].replicas: 10001 replicas are more than a kubelet can be told of",
    ),
    ("resources:\n  gpus:\n  - pattern: null\n    name: a\n", 1, "resources: it is ignored, as NVIDIA's plugin does;"),
]


@pytest.mark.parametrize(("config", "line", "warning"), LENIENT, ids=[warning for *_, warning in LENIENT])
def test_09_whatever_the_reference_takes_is_taken_with_a_warning(config: str, line: int, warning: str) -> None:
    place = f"config.yaml:{line}: "
    assert any(each.startswith(place + warning) for each in configured(config=config).warnings)
    assert refusal(config, dialect=Dialect.EXTENDED)


@pytest.mark.parametrize(
    ("config", "strategy", "fails"),
    [
        ("flags: {MigStrategy: single, MIGSTRATEGY: none}", "single", True),
        ("flags: {migStrategy: single, migstrategy: none}", "none", True),
        ("flags: {migStrategy: single}\nFlags: {failOnInitError: false}", "single", False),
        ("flags: {migStrategy: single, migStrategy: mixed}", "mixed", True),
    ],
)
def test_09_of_several_spellings_the_last_in_order_counts(config: str, strategy: str, fails: bool) -> None:
    read = configured(config=config)
    assert (read.mig_strategy.value, read.fail_on_init_error) == (strategy, fails)


def test_10_file_is_a_list() -> None:
    assert refusal("- a\n").problem == "json: cannot unmarshal array into Go value of type v1.Config"


@pytest.mark.parametrize(
    ("value", "strategies"), [("envvar", ["envvar"]), ("[envvar, cdi-annotations]", ["envvar", "cdi-annotations"])]
)
def test_11_list_strategies_of_a_file(value: str, strategies: list[str]) -> None:
    configuration = configured(config=f"flags: {{plugin: {{deviceListStrategy: {value}}}}}")
    assert [strategy.value for strategy in configuration.list_strategies] == strategies


def test_11_text_of_a_file_is_not_split() -> None:
    error = refusal('flags: {plugin: {deviceListStrategy: "envvar,volume-mounts"}}')
    assert error.problem == "invalid --device-list-strategy option: invalid strategy: envvar,volume-mounts"
    assert (error.line, error.field) == (1, "flags.plugin.deviceListStrategy")


@pytest.mark.parametrize(
    ("value", "shown"), [("3", "3"), ("true", "true"), ("[3, a]", '[3,"a"]'), ("{a: b}", '{"a":"b"}')]
)
def test_12_list_strategies_of_another_kind(value: str, shown: str) -> None:
    error = refusal(f"flags: {{plugin: {{deviceListStrategy: {value}}}}}")
    assert error.problem == f"invalid deviceListStrategy: {shown}"


@pytest.mark.parametrize(
    ("value", "span", "text"),
    [
        ("0", Span(0), "0s"),
        ('"0s"', Span(0), "0s"),
        ("5", Span(5), "5ns"),
        ('"5s"', Span(5_000_000_000), "5s"),
        ('"1m30s"', Span(90_000_000_000), "1m30s"),
        ('"infinite"', ENDLESS, "infinite"),
    ],
)
def test_13_14_sleep_intervals_read_and_printed(value: str, span: Span, text: str) -> None:
    configuration = configured(config=f"flags: {{gfd: {{sleepInterval: {value}}}}}")
    assert configuration.feature_discovery.sleep_interval == span
    assert feature_discovery_as_json(configuration.feature_discovery)["sleepInterval"] == text


@pytest.mark.parametrize("value", ["true", "[5]", '"5"', '"five"', '"5s "', "1e30", '""'])
def test_13_sleep_intervals_that_are_none(value: str) -> None:
    assert refusal(f"flags: {{gfd: {{sleepInterval: {value}}}}}").problem.startswith("invalid duration")


@pytest.mark.parametrize("value", ["2", "2.0"])
def test_15_replicas(value: str) -> None:
    shared = time_sliced(configured(config=SHARED.replace("replicas: 2", f"replicas: {value}")))
    assert shared.resources[0].replicas == 2


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2.5", "wants an integer, found the number 2.5"),
        ('"2"', "wants an integer, found the text '2'"),
        ("1", "number of replicas must be >= 2"),
        ("0", "number of replicas must be >= 2"),
        ("-1", "number of replicas must be >= 2"),
        ("", "no replicas specified"),
    ],
)
def test_15_replicas_that_are_refused(value: str, problem: str) -> None:
    error = refusal(SHARED.replace("replicas: 2", f"replicas: {value}"))
    assert error.problem == problem
    assert (error.line, error.field) == (5, "sharing.timeSlicing.resources[0].replicas")


@pytest.mark.parametrize(
    ("number", "pattern", "matching", "other"),
    [
        (32, "1g.24gb", ["1g.24gb"], ["2g.48gb", "1g.24gb-me", "1g.24gb+me.all", "x1g.24gb", "1g.24gb+gfx", "1gx24gb"]),
        (33, "*", ["1g.24gb", "", "NVIDIA A100-SXM4-40GB"], []),
        (33, "1g.*", ["1g.24gb", "1g."], ["2g.48gb"]),
        (33, "*gb", ["1g.24gb"], ["1g.24gb-me"]),
        (34, "1g.24gb-me", ["1g.24gb-me"], ["1g.24gb"]),
        (34, "1g.24gb+me.all", ["1g.24gb+me.all"], ["1g.24gb", "1g.24gb+me"]),
        (34, "2g.48gb+gfx", ["2g.48gb+gfx"], ["2g.48gb", "2gg.48gb"]),
        (34, "2g.48gb", ["2g.48gb"], ["2g.48gb+gfx"]),
    ],
)
def test_32_33_34_patterns(number: int, pattern: str, matching: list[str], other: list[str]) -> None:
    made = ResourcePattern(pattern, GPU)
    assert all(made.matches(name) for name in matching)
    assert not any(made.matches(name) for name in other)


def test_printed_configuration_is_that_of_the_reference() -> None:
    patterns = ResourcePatterns((ResourcePattern("*", GPU),))
    config = SHARED.replace("timeSlicing:", "timeSlicing:\n    failRequestsGreaterThanOne: false")
    text = printed(configured(["--nvidia-driver-root=/run/nvidia/driver"], config=config), patterns)
    assert list(json.loads(text)) == ["version", "flags", "resources", "sharing", "imex"]
    assert json.loads(text) == {
        "version": "v1",
        "flags": {
            "migStrategy": "none",
            "failOnInitError": True,
            "mpsRoot": "",
            "nvidiaDriverRoot": "/run/nvidia/driver",
            "nvidiaDevRoot": "/run/nvidia/driver",
            "gdrcopyEnabled": False,
            "gdsEnabled": False,
            "mofedEnabled": False,
            "useNodeFeatureAPI": None,
            "deviceDiscoveryStrategy": "auto",
            "plugin": {
                "passDeviceSpecs": False,
                "deviceListStrategy": ["envvar"],
                "deviceIDStrategy": "uuid",
                "cdiAnnotationPrefix": "cdi.k8s.io/",
                "nvidiaCTKPath": "/usr/bin/nvidia-ctk",
                "containerDriverRoot": "/driver-root",
                "sharedDevicesAllocationPolicy": "distributed",
            },
        },
        "resources": {"gpus": [{"pattern": "*", "name": "nvidia.com/gpu"}]},
        "sharing": {
            "timeSlicing": {
                "failRequestsGreaterThanOne": False,
                "resources": [{"name": "nvidia.com/gpu", "devices": "all", "replicas": 2}],
            }
        },
        "imex": {},
    }


@pytest.mark.parametrize(
    ("arguments", "has_nvml", "problem"),
    [
        (["--device-list-strategy=foo", "--device-id-strategy=foo"], True, "invalid --device-list-strategy option"),
        (["--device-list-strategy=cdi-cri", "--device-id-strategy=foo"], False, "CDI --device-list-strategy options"),
        (["--device-id-strategy=foo", "--shared-devices-allocation-policy=x"], True, "invalid --device-id-strategy"),
        (["--shared-devices-allocation-policy=x", "--mig-strategy=mixed"], True, "invalid --shared-devices-allocation"),
        (["--mig-strategy=mixed", "--device-discovery-strategy=vfio"], True, "using --mig-strategy=mixed"),
        (["--device-discovery-strategy=vfio", "--mps-root=x", "--mig-strategy=y"], True, "invalid --device-discovery"),
        (["--mig-strategy=y", "--mps-root=x", "--imex-channel-ids=1"], True, "unknown MIG strategy: y"),
        (["--mps-root=x", "--imex-channel-ids=1"], True, "invalid IMEX channel IDs"),
    ],
)
def test_first_setting_that_fails_is_that_of_the_reference(arguments: list[str], has_nvml: bool, problem: str) -> None:
    with pytest.raises(InvalidNvidiaConfig) as raised:
        configured(arguments, config=MPS, has_nvml=has_nvml)
    assert raised.value.problem.startswith(problem)


CDI: Final = "--device-list-strategy=cdi-cri"
NO_HOOK: Final = "--nvidia-cdi-hook-path="


def test_specs_with_hooks_of_no_program_are_refused() -> None:
    with pytest.raises(InvalidNvidiaConfig) as raised:
        configured([CDI, NO_HOOK])
    assert raised.value.reference_text == (
        "error starting plugins: error getting plugins: unable to create cdi spec file: failed to save CDI spec: "
        'failed to write spec: invalid CDI Spec: invalid hook "createContainer" with empty path'
    )


@pytest.mark.parametrize(
    "arguments", [[], [CDI, "--cdi-disable-hooks=all"], [CDI, "--cdi-feature-flags=self-contained"]], ids=str
)
def test_without_hooks_no_program_is_needed(arguments: list[str]) -> None:
    assert configured([*arguments, NO_HOOK]).cdi.hook_path == ""
