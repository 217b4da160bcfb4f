"""Flags, environment and file: which of them counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import InvalidGenericConfig, PathUnusable, PlugbayError, UsageError
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.serving.arguments import GenericArguments, find_file, load_rules, variable

FUSE = "{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "devices.yaml"
    path.write_text("domain: file.example\nlisten: :1\ndevices: [{name: kvm, groups: [{paths: [{path: /dev/kvm}]}]}]\n")
    return path


def resources(arguments: GenericArguments) -> list[str]:
    config = load_rules(arguments, find_file(arguments, ()))
    return [f"{entry.domain}/{entry.name}" for entry in config.entries]


def test_the_file_counts_where_nothing_else_is_given(file: Path) -> None:
    assert resources(GenericArguments(file)) == ["file.example/kvm"]


@pytest.mark.parametrize(
    ("variables", "domain"),
    [
        ({"DOMAIN": "squat.example"}, "squat.example"),
        ({"DOMAIN": "squat.example", "PLUGBAY_DOMAIN": "own.example"}, "own.example"),
    ],
)
def test_the_environment_counts_before_the_file_and_a_flag_before_that(
    file: Path, variables: dict[str, str], domain: str
) -> None:
    arguments = GenericArguments(file, variables=variables)
    assert resources(arguments) == [f"{domain}/kvm"]
    assert resources(replace(arguments, domain="flag.example")) == ["flag.example/kvm"]


def test_devices_of_flags_replace_those_of_the_file(file: Path) -> None:
    arguments = GenericArguments(file, devices=(("--device", FUSE),))
    assert resources(arguments) == ["file.example/fuse"]
    assert load_rules(arguments, file).settings["listen"] == ":1"


def test_presets_come_beside_the_others(file: Path) -> None:
    assert resources(GenericArguments(file, presets=("tun",))) == ["file.example/kvm", "file.example/tun"]
    assert resources(GenericArguments(presets=("tun", "fuse"))) == ["devic.es/tun", "devic.es/fuse"]
    both = GenericArguments(devices=(("--device", FUSE),), presets=("tun",), domain="flag.example")
    assert resources(both) == ["flag.example/fuse", "flag.example/tun"]


def test_a_domain_that_nothing_names_is_told(file: Path) -> None:
    flags = GenericArguments(devices=(("--device", FUSE),), presets=("tun",))
    text = "no domain is given, so that it is devic.es; give --domain, such as --domain example.com"
    told = [each.sentence for each in load_rules(flags, None).warnings]
    assert told == [f"--device: {text}", f"preset tun: {text}"]
    own = GenericArguments(devices=(("--device", FUSE.replace("{name", "{domain: example.com, name", 1)),))
    for quiet in (replace(flags, domain="flag.example"), replace(flags, file=file), own):
        assert load_rules(quiet, quiet.file).warnings == ()


def test_a_broken_device_list_of_the_file_does_not_matter_then(file: Path) -> None:
    file.write_text("devices: [{nam: x}]")
    assert resources(GenericArguments(file, devices=(("--device", FUSE),))) == ["devic.es/fuse"]


@pytest.mark.parametrize(
    ("arguments", "kind", "problem"),
    [
        (GenericArguments(), UsageError, "`generic` needs --config FILE, --device ENTRY or"),
        (GenericArguments(presets=("tin",)), UsageError, 'there is no preset "tin"; did you mean "'),
        (
            GenericArguments(devices=(("--device 1", FUSE), ("--device 2", FUSE))),
            UsageError,
            "--device 2: devic.es/fuse is the resource of --device 1 already",
        ),
        (GenericArguments(Path("/no/file.yaml")), PathUnusable, "/no/file.yaml: cannot be read: No such file"),
        (GenericArguments(devices=(("--device", "fuse,/dev/fuse"),)), InvalidGenericConfig, "--device:1:1: .*entry"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: GenericArguments, kind: type[PlugbayError], problem: str) -> None:
    with pytest.raises(kind, match=problem):
        resources(arguments)


FUSE_TOO = FUSE.replace("name: fuse", "name: other")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            GenericArguments(devices=(("--device 1", FUSE), ("--device 2", FUSE_TOO))),
            "--device 2:1:33: /dev/fuse is a path of fuse in --device 1 already; write shared: true in both if both may"
            " give it at the same time",
        ),
        (
            GenericArguments(devices=(("--device", FUSE_TOO),), presets=("fuse",)),
            "preset fuse:.*: /dev/fuse is a path of other in --device already",
        ),
    ],
)
def test_a_path_of_two_flags_is_refused_as_one_of_two_entries_of_a_file(
    arguments: GenericArguments, sentence: str
) -> None:
    with pytest.raises(InvalidGenericConfig, match=sentence):
        load_rules(arguments, None)
    [warning] = [each for each in load_rules(replace(arguments, is_lenient=True), None).warnings if "path" in each.text]
    assert "/dev/fuse is a path of " in warning.text


def test_a_path_of_two_flags_may_be_shared() -> None:
    shared = [("--device", each.replace("{name", "{shared: true, name", 1)) for each in (FUSE, FUSE_TOO)]
    assert len(load_rules(GenericArguments(devices=tuple(shared), domain="a.b"), None).entries) == 2


def test_entries_of_several_flags_are_named_by_their_flags(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/x").touch()
    text = "{name: %s, paths: [{path: '%s', anyFile: true}]}"
    devices = (("--device 1", text % ("one", "/dev/x")), ("--device 2", text % ("two", "/dev/*")))
    rules = load_rules(GenericArguments(devices=devices, domain="a.b"), None)
    [trouble] = select(rules, SysMachine(tmp_path / "sys", tmp_path / "dev"), HostTree(tmp_path)).troubles
    assert trouble.text.startswith(
        "/dev/x: the entry 'one' of --device 1 gives this already, so the entry 'two' of --device 2 does not"
    )


def test_a_file_with_another_ending_is_yaml(tmp_path: Path) -> None:
    file = tmp_path / "devices.conf"
    file.write_text(f"devices: [{FUSE}]\n")
    assert resources(GenericArguments(file)) == ["devic.es/fuse"]


def test_a_file_is_found_where_squats_plugin_looks(tmp_path: Path) -> None:
    first, second = tmp_path / "etc", tmp_path / "here"
    first.mkdir()
    second.mkdir()
    assert find_file(GenericArguments(), (first, second)) is None
    (second / "config.json").touch()
    assert find_file(GenericArguments(), (first, second)) == second / "config.json"
    (first / "config.toml").touch()
    assert find_file(GenericArguments(), (first, second)) == first / "config.toml"
    for beside in (GenericArguments(devices=(("--device", FUSE),)), GenericArguments(presets=("tun",))):
        assert find_file(beside, (first, second)) == first / "config.toml"
    assert find_file(GenericArguments(Path("/x.yaml")), (first, second)) == Path("/x.yaml")


def test_a_found_file_counts_beside_devices_of_flags_but_for_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("domain: found.example\nlisten: :1\ndevices: [{nam: broken}]\n")
    arguments = GenericArguments(devices=(("--device", FUSE),))
    found = load_rules(arguments, find_file(arguments, (tmp_path,)))
    assert [f"{entry.domain}/{entry.name}" for entry in found.entries] == ["found.example/fuse"]
    assert found.settings["listen"] == ":1"


def test_our_variables_count_before_squats() -> None:
    assert variable({"LISTEN": ":1"}, "LISTEN") == ":1"
    assert variable({"LISTEN": ":1", "PLUGBAY_LISTEN": ":2"}, "LISTEN") == ":2"
    assert variable({}, "LISTEN") == ""
