"""The command line of ``plugbay serve nvidia``, where it is read otherwise than that of NVIDIA's plugin."""

from __future__ import annotations

import argparse

import pytest

from plugbay.cli.arguments.targets.nvidia import add_options, from_options
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.serving.source import NvidiaSource


def configured(*words: str) -> Configuration:
    parser = argparse.ArgumentParser()
    add_options(parser)
    args = parser.parse_args([*words])
    args.root = None
    [source] = from_options(args)
    assert isinstance(source, NvidiaSource)
    assert source.active is not None
    return source.active.configuration


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PASS_DEVICE_SPECS", "MIG_STRATEGY", "NVIDIA_DRIVER_ROOT", "DEVICE_LIST_STRATEGY", "CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("words", "passes"), [([], True), (["true"], True), (["false"], False)], ids=str)
def test_a_boolean_flag_takes_the_word_behind_it_and_reading_goes_on(words: list[str], passes: bool) -> None:
    configuration = configured("--pass-device-specs", *words, "--mig-strategy=single")
    assert configuration.pass_device_specs is passes
    assert configuration.mig_strategy.value == "single"


def test_of_two_names_of_one_flag_the_last_counts() -> None:
    assert configured("--driver-root=/a", "--nvidia-driver-root=/b").roots.host == "/b"


def test_repeated_lists_grow() -> None:
    strategies = configured("--device-list-strategy=envvar", "--device-list-strategy=volume-mounts").list_strategies
    assert [strategy.value for strategy in strategies] == ["envvar", "volume-mounts"]
