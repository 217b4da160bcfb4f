"""Named configurations: chosen by a node's label, and switched while the plugin runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import InvalidNvidiaConfig, OperatorError, PathUnusable, UsageError
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.config.choices import FallbackStrategy, MigStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.named import NODE_LABEL, NamedConfigs, choose_config, config_names
from plugbay.plugins.nvidia.config.switching import ActiveConfig, switched
from plugbay.plugins.nvidia.config.validation import NamedSource, named_source_of
from plugbay.plugins.nvidia.platform.config_files import MAX_BYTES, list_configs, load_configuration
from tests.unit.plugins.nvidia.golden_machines import configured

ALL_FALLBACKS: Final = tuple(FallbackStrategy)


@pytest.mark.parametrize(
    ("rules", "names", "label", "chosen"),
    [
        (NamedConfigs(), ["a", "b"], "b", "b"),
        (NamedConfigs(default="a"), ["a", "b"], "b", "b"),
        (NamedConfigs(default="a"), ["a", "b"], None, "a"),
        (NamedConfigs(default="a"), ["a", "b"], "", "a"),
        (NamedConfigs(default="a", fallbacks=ALL_FALLBACKS), ["a", "default"], None, "a"),
        (NamedConfigs(fallbacks=ALL_FALLBACKS), ["a", "default"], None, "default"),
        (NamedConfigs(fallbacks=ALL_FALLBACKS), ["a"], None, "a"),
        (NamedConfigs(fallbacks=ALL_FALLBACKS), ["a", "b"], None, None),
        (NamedConfigs(fallbacks=(FallbackStrategy.EMPTY, FallbackStrategy.NAMED)), ["default"], None, None),
        (NamedConfigs(label="example.com/gpus"), ["a"], None, ""),
    ],
)
def test_config_of_a_node(rules: NamedConfigs, names: list[str], label: str | None, chosen: str | None) -> None:
    labels = {} if label is None else {rules.label: label}
    if chosen == "":
        with pytest.raises(UsageError, match="no config was set, no default was provided, and all fallbacks failed"):
            choose_config(rules, names, labels)
    else:
        assert choose_config(rules, names, labels) == chosen


@pytest.mark.parametrize(
    ("names", "labels", "problem"),
    [
        ([], {NODE_LABEL: "a"}, "no configuration files available"),
        (["a"], {NODE_LABEL: "b"}, "specified config b does not exist .*there are: a"),
        (["a"], {}, "all fallbacks failed"),
    ],
)
def test_no_config_for_a_node(names: list[str], labels: Mapping[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        choose_config(NamedConfigs(), names, labels)
    if not labels:
        with pytest.raises(UsageError, match=r"specified config b does not exist .the default"):
            choose_config(NamedConfigs(default="b"), names, labels)


def test_flags_of_the_config_manager() -> None:
    assert named_source_of({}, {}) is None
    arguments, environment = parse_flags(
        ["--config-file-srcdir=/configs", "--fallback-strategies=single,empty"],
        {"NODE_NAME": "worker", "NODE_LABEL": "example.com/gpus", "DEFAULT_CONFIG": "a100"},
    )
    rules = NamedConfigs("example.com/gpus", "a100", (FallbackStrategy.SINGLE, FallbackStrategy.EMPTY))
    assert named_source_of(arguments, environment) == NamedSource("/configs", "worker", rules)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--fallback-strategies=named,last"], r"unknown fallback strategy: last .allowed: named, single, empty"),
        (["--config-file=/config.yaml"], "exclude each other"),
    ],
)
def test_flags_of_the_config_manager_that_are_refused(arguments: list[str], problem: str) -> None:
    with pytest.raises(InvalidNvidiaConfig, match=problem):
        named_source_of(*parse_flags(["--config-file-srcdir=/configs", *arguments], {}))


def test_files_of_a_config_map(tmp_path: Path) -> None:
    """A ConfigMap's volume holds links to files in a directory that is exchanged as a whole."""
    versioned = tmp_path / "..2026_11_23"
    versioned.mkdir()
    (versioned / "a100").write_text("version: v1\n", encoding="utf-8")
    (tmp_path / "..data").symlink_to(versioned.name)
    (tmp_path / "a100").symlink_to("..data/a100")
    (tmp_path / "t4").write_text("", encoding="utf-8")
    (tmp_path / "directory").mkdir()
    assert list_configs(tmp_path) == ("a100", "t4")
    assert config_names(["b", "..data", ".hidden", "a"]) == (".hidden", "a", "b")
    with pytest.raises(PathUnusable, match="cannot be listed"):
        list_configs(tmp_path / "missing")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "open .*: no such file or directory"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), f"holds more than {MAX_BYTES} bytes"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidNvidiaConfig, match=problem):
        load_configuration(file, {}, {}, has_nvml=True)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("fifo", "it is a fifo that no process writes to"),
        ("directory", "is a directory"),
        ("circle", "too many levels of symbolic links"),
        ("endless", f"holds more than {MAX_BYTES} bytes"),
    ],
)
def test_what_is_not_an_ordinary_file_is_refused_at_once(tmp_path: Path, kind: str, problem: str) -> None:
    file = tmp_path / "config.yaml"
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case "circle":
            file.symlink_to(file.name)
        case "endless":
            file.symlink_to("/dev/zero")
    with pytest.raises(InvalidNvidiaConfig, match=problem):
        load_configuration(file, {}, {}, has_nvml=True)


class Files:
    """A directory of configurations, and the label of its node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.labels: dict[str, str] = {}

    def write(self, name: str, content: str) -> None:
        (self.directory / name).write_text(content, encoding="utf-8")

    def name(self) -> str | None:
        rules = NamedConfigs(fallbacks=(FallbackStrategy.EMPTY,))
        return choose_config(rules, list_configs(self.directory), self.labels)

    def read(self, name: str | None) -> Configuration:
        return load_configuration(None if name is None else self.directory / name, {}, {}, has_nvml=True)

    def switch(self, active: ActiveConfig | None) -> ActiveConfig:
        return switched(active, self.name, self.read)


def test_live_switch(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("single", "flags: {migStrategy: single}")
    files.write("broken", "flags:\n  migStrategy: 3\n")
    first = files.switch(None)
    assert (first.name, first.configuration, first.refusal) == (None, configured(), None)
    assert first.sentence() == "the empty configuration is used"

    files.labels[NODE_LABEL] = "single"
    second = files.switch(first)
    assert second.configuration.mig_strategy is MigStrategy.SINGLE
    assert second.sentence() == "configuration 'single' is used"

    files.labels[NODE_LABEL] = "broken"
    third = files.switch(second)
    assert (third.name, third.configuration) == ("single", second.configuration)
    assert third.sentence() == (
        "configuration 'broken' is broken, so configuration 'single' stays in use: "
        f"{tmp_path}/broken:2: flags.migStrategy: wants a text, found the number 3"
    )

    files.labels[NODE_LABEL] = "missing"
    fourth = files.switch(third)
    assert fourth.configuration is second.configuration
    assert "specified config missing does not exist" in fourth.sentence()

    files.labels[NODE_LABEL] = "broken"
    files.write("broken", "flags: {migStrategy: single}")
    fifth = files.switch(fourth)
    assert (fifth.name, fifth.refusal) == ("broken", None)
    assert fifth.configuration is second.configuration, "equal configurations are the same object"


def test_changed_content_behind_the_same_name_is_taken_over(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.labels[NODE_LABEL] = "a"
    files.write("a", "")
    before = files.switch(None)
    files.write("a", "flags: {migStrategy: mixed}")
    assert files.switch(before).configuration.mig_strategy is MigStrategy.MIXED


def test_broken_config_at_start_ends_it(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("a", "version: v2")
    files.labels[NODE_LABEL] = "a"
    with pytest.raises(OperatorError, match="unknown version: v2"):
        files.switch(None)
