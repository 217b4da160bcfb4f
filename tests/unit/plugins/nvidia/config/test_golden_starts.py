"""Starts of NVIDIA's plugin 0.20 on a fake driver: which fail, and with which sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import GpusUnusable, InvalidNvidiaConfig, UsageError
from plugbay.plugins.nvidia.config.arguments import Layer, parse_arguments, parse_environment
from plugbay.plugins.nvidia.config.choices import DiscoveryStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.validation import config_file_of
from plugbay.plugins.nvidia.devices.detection import GpuSource, PlatformSigns, source_of
from plugbay.plugins.nvidia.devices.node import node_devices
from plugbay.plugins.nvidia.devices.problems import LIBRARY_NOT_FOUND, check_problems, init_problem
from plugbay.plugins.nvidia.platform.config_files import load_configuration
from plugbay.plugins.nvidia.platform.imex import find_channels
from plugbay.plugins.nvidia.survey import MigMinors, Survey
from tests.unit.plugins.nvidia.golden_machines import Case, golden, machine

CASES: Final = golden("startup")["cases"]
OWN_WORDS: Final = {
    "cfg garbage": "not valid YAML",
    "cfg replicas str": "wants an integer, found the text '2'",
    "cfg replicas 2.5": "wants an integer, found the number 2.5",
    "cfg bool str": "wants true or false, found the text 'true'",
}
"""Where the reference shows the words of Go's libraries, ours are meant to be understood."""
CDI_GENERATION: Final = "tegra forced cdi"
"""The error comes from the generation of CDI specs."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_start_ends_as_that_of_the_reference(case: Case, tmp_path: Path) -> None:
    warnings: list[str] = []
    ending = attempt(case, tmp_path, warnings)
    if isinstance(ending, UsageError):
        assert f"Incorrect Usage: {ending}" == case["usage_error"]
        return
    assert "usage_error" not in case
    if case["name"] == CDI_GENERATION:
        assert ending is False
        return
    if isinstance(ending, bool):
        assert case["exit"] == "keeps running"
        assert ending is case["waits"]
        assert warnings == case.get("warnings", [])
        return
    assert case["exit"] == 1
    if own := OWN_WORDS.get(case["name"]):
        assert ending.problem.startswith(own)
        assert case["error"].startswith(ending.step)
    else:
        assert ending.reference_text == case["error"]


def attempt(case: Case, directory: Path, warnings: list[str]) -> bool | UsageError | InvalidNvidiaConfig | GpusUnusable:
    """The error that ends the start, or whether the plugin waits with nothing to offer."""
    try:
        arguments = parse_arguments([*case["args"], "--config-dialect=reference"])
        return start(case, arguments, parse_environment(case["env"]), directory, warnings)
    except (UsageError, InvalidNvidiaConfig, GpusUnusable) as error:
        return error


def start(case: Case, arguments: Layer, environment: Layer, directory: Path, warnings: list[str]) -> bool:
    """The steps of a start, as far as these are pure; returns whether the plugin waits with nothing to offer."""
    file = None
    if path := config_file_of(arguments, environment):
        file = Path(path)
    if "config" in case:
        file = directory / "config.yaml"
        file.write_text(case["config"], encoding="utf-8")
    reason, survey = driver(case)
    has_nvml = reason != LIBRARY_NOT_FOUND
    configuration = load_configuration(file, arguments, environment, has_nvml=has_nvml)
    if survey is None and has_nvml:
        give_up(reason, configuration, warnings)
        return True
    find_channels(configuration.imex, [directory])
    choice = source_of(configuration.discovery_strategy, PlatformSigns(has_nvml=has_nvml), survey)
    warnings += [choice.warning] if choice.warning else []
    if survey is None and choice.source is GpuSource.NVML:
        give_up(reason, configuration, warnings)
        return True
    node = node_devices(configuration, choice.source, survey, MigMinors({}, {}))
    check_problems(node.problems, fail_on_init_error=configuration.fail_on_init_error)
    return not node.resources


def driver(case: Case) -> tuple[str, Survey | None]:
    match case["nvml"]:
        case "library missing":
            return LIBRARY_NOT_FOUND, None
        case "init returns DRIVER_NOT_LOADED (9)":
            return "Driver Not Loaded", None
        case "one GPU named NVIDIA Thor":
            [gpu, _] = machine("two-a100").gpus
            return "", Survey("550.54.15", (12, 4), (replace(gpu, name="NVIDIA Thor"),))
        case other:
            assert other == "2 GPUs"
            return "", machine("two-a100")


def give_up(reason: str, configuration: Configuration, warnings: list[str]) -> None:
    problem = init_problem(reason, configuration.mig_strategy)
    check_problems([problem], fail_on_init_error=configuration.fail_on_init_error)
    warnings.append(problem.problem)


def test_strategy_auto_takes_a_thor_for_a_tegra() -> None:
    thor = next(case for case in CASES if case["name"] == "thor")
    _, survey = driver(thor)
    assert source_of(DiscoveryStrategy.AUTO, PlatformSigns(has_nvml=True), survey).source is GpuSource.TEGRA
