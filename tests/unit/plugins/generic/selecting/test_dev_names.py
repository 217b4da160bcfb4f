"""Names below ``/dev`` by expressions: a resource for each file, as smarter-device-manager makes them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plugbay.model.edits import DeviceNode
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.config.rules import DevNames, Entry, NameSpelling, RuleGroup
from plugbay.plugins.generic.selecting.explaining import explain
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import FileKind
from tests.unit.plugins.generic.selecting.trees import NoHardware, TreeOfData, config, entry, host_paths, looked

TREE = TreeOfData(
    {
        "/dev/video0": FileKind.CHARACTER,
        "/dev/video10": FileKind.BLOCK,
        "/dev/videos.log": FileKind.OTHER,
        "/dev/ttyUSB0": FileKind.CHARACTER,
        "/dev/net/tun": FileKind.CHARACTER,
        "/dev/snd/by-path/a": "../controlC0",
        "/dev/snd/controlC0": FileKind.CHARACTER,
        "/dev/serial0": "ttyUSB0",
        "/dev/old": "gone",
        "/dev/sound": "snd",
        "/dev/here": ".",
        "/dev/shm/video5": FileKind.CHARACTER,
    }
)


def names(*expressions: str, count: int = 1) -> Entry:
    groups = (RuleGroup(DevNames(re.compile(each)), count=count) for each in expressions)
    return replace(entry("{name}", *groups), spelling=NameSpelling.OF_FILES)


def resources(*expressions: str) -> dict[str, list[tuple[str, ...]]]:
    found = looked(TREE, names(*expressions)).units
    return {name.removeprefix("example.com/"): [host_paths(unit) for unit in units] for name, units in found.items()}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("^video[0-9]*$", {"video0": "/dev/video0", "video10": "/dev/video10"}),
        ("deo1", {"video10": "/dev/video10"}),
        ("^net/tun$", {"net_tun": "/dev/net/tun"}),
        ("^snd$", {"snd": "/dev/snd"}),
        ("^snd/[^/]*$", {"snd_controlC0": "/dev/snd/controlC0"}),
        ("by-path", {"snd_by-path_a": "/dev/snd/by-path/a"}),
        ("serial", {"serial0": "/dev/serial0"}),
        ("^absent$", {}),
    ],
)
def test_each_file_with_such_a_name_is_a_resource(expression: str, wanted: dict[str, str]) -> None:
    assert resources(expression) == {name: [(path,)] for name, path in wanted.items()}


def test_a_file_is_as_many_units_as_containers_may_use_it() -> None:
    [units] = looked(TREE, names("^ttyUSB", count=3)).units.values()
    assert [unit.copy for unit in sorted(units, key=lambda unit: unit.copy)] == [0, 1, 2]
    assert len({unit.id for unit in units}) == 3
    assert units[0].nodes == (DeviceNode("/dev/ttyUSB0", permissions="rw"),)


def test_the_last_expression_that_matches_a_file_counts() -> None:
    rules = read_config(
        "- {devicematch: ^video, nummaxdevices: 5}\n- {devicematch: '10', nummaxdevices: 1}\n", source="f"
    )
    found = looked(TREE, *rules.entries).units
    assert {name: len(units) for name, units in found.items()} == {
        "smarter-devices/video0": 5,
        "smarter-devices/video10": 1,
    }
    earlier, later = explain(rules, NoHardware(), TREE, "/dev/video10").verdicts
    assert earlier.text == "It matches '^video', and a later entry as well, which counts."
    assert later.is_taken


def test_what_is_no_device_is_told() -> None:
    texts = [each.text for each in looked(TREE, names("^videos", "^old")).troubles]
    assert texts == [
        "/dev/videos.log matches '^videos' and is not a device node, so it is not given.",
        "/dev/old matches '^old' and is a link to nothing, so it is not given.",
    ]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/dev/video0", "It is given by example.com/video0 as "),
        ("/dev/ttyUSB0", "Its name from /dev on does not match 'video|serial'."),
        ("/dev/videos.log", "/dev/videos.log matches 'video|serial', but it is not a device node."),
        (
            "/dev/shm/video5",
            "/dev/shm/video5 matches 'video|serial', but it is in a directory that is not looked into.",
        ),
    ],
)
def test_the_reason_is_told(path: str, wanted: str) -> None:
    [verdict] = explain(config(names("video|serial")), NoHardware(), TREE, path).verdicts
    assert verdict.text.startswith(wanted)


def test_a_name_that_is_too_long_for_a_resource_is_the_reason() -> None:
    path = "/dev/" + "x" * 64
    [verdict] = explain(config(names("^x")), NoHardware(), TreeOfData([path]), path).verdicts
    assert "has 64 characters, and Kubernetes takes 63 at most" in verdict.text


def test_a_directory_comes_and_goes_with_the_nodes_in_it() -> None:
    tree = TreeOfData(["/dev/null"])
    selection = RuleSelection(config(names("^snd$")), NoHardware(), tree)
    assert selection.look().units == {}
    for nodes in (["/dev/snd/a"], [], ["/dev/snd/b"]):
        tree.files = dict.fromkeys(["/dev/null", *nodes], FileKind.CHARACTER)
        found = selection.after(HostChanges(paths=frozenset({"/dev/snd", "/dev/snd/a", "/dev/snd/b"}))).units
        assert [*found] == ["example.com/snd"] * len(nodes)


def test_a_link_out_of_dev_is_seen_to_lead_elsewhere() -> None:
    tree = TreeOfData({"/dev/cam": "/run/cam", "/run/cam": FileKind.CHARACTER})
    selection = RuleSelection(config(names("^cam$")), NoHardware(), tree)
    assert [*selection.look().units] == ["example.com/cam"]
    del tree.files["/run/cam"]
    assert selection.after(HostChanges(paths=frozenset({"/run/cam"}))).units == {}
    tree.files["/run/cam"] = FileKind.CHARACTER
    assert [*selection.after(HostChanges(paths=frozenset({"/run/cam"}))).units] == ["example.com/cam"]
