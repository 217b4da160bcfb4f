"""Configuration files that NVIDIA's plugin 0.20 takes or refuses, and what they mean to it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from plugbay.errors import InvalidNvidiaConfig
from plugbay.plugins.nvidia.config.printing import as_json
from plugbay.plugins.nvidia.devices.patterns import node_patterns
from tests.unit.plugins.nvidia.golden_machines import configured, golden

FILES: Final = golden("config-files")


def printed(config: str) -> dict[str, Any]:
    """The configuration as it is printed on a machine without GPUs."""
    configuration = configured(config=config)
    return as_json(configuration, node_patterns(configuration.patterns, configuration.mig_strategy, ()))


def changed(of: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A document with changes at some of its fields."""
    return of | {
        name: changed(of[name], each) if isinstance(each, dict) and isinstance(of.get(name), dict) else each
        for name, each in changes.items()
    }


@pytest.mark.parametrize("field", FILES["fields"], ids=lambda field: field["file"])
def test_each_value_of_a_field_is_taken_and_means_what_it_means_to_the_reference(field: dict[str, Any]) -> None:
    for value, changes in field["taken"].items():
        assert printed(field["file"].replace("$", value) + "\n") == changed(FILES["empty"], changes), value


@pytest.mark.parametrize("field", FILES["fields"], ids=lambda field: field["file"])
def test_each_value_that_the_reference_refuses_is_refused(field: dict[str, Any]) -> None:
    for value in field["refused"]:
        with pytest.raises(InvalidNvidiaConfig):
            printed(field["file"].replace("$", value) + "\n")


@pytest.mark.parametrize("file", FILES["files"], ids=lambda file: file["name"])
def test_odd_files_are_read_as_the_reference_reads_them(file: dict[str, Any]) -> None:
    if file["taken"]:
        assert printed(file["config"]) == changed(FILES["empty"], file["printed"])
        return
    with pytest.raises(InvalidNvidiaConfig):
        printed(file["config"])
