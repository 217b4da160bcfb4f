"""A look after changes finds what a whole look finds, and leaves alone what did not change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.plugins.generic.config.rules import DevNames, NameSpelling, PathRule, RuleGroup
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import FileKind
from tests.unit.plugins.generic.selecting.trees import NoHardware, TreeOfData, config, entry, looked, path_group

ENTRIES = (
    entry("tty", path_group("/dev/tty*", PathRule("/dev/control", limit=9))),
    entry("every", path_group("/dev/*"), path_group("/dev/snd/*"), is_shared=True),
    entry("links", path_group("/dev/by-id/*"), is_shared=True),
    entry("sound", path_group("/dev/snd", count=2)),
    replace(
        entry("{name}", RuleGroup(DevNames(re.compile("tty|snd|by-id/")))),
        is_shared=True,
        spelling=NameSpelling.OF_FILES,
    ),
)
PATHS = ("/dev/tty0", "/dev/tty1", "/dev/control", "/dev/x", "/dev/snd/c", "/dev/snd/d", "/dev/by-id/a", "/dev/by-id/b")
LINKS = {"/dev/by-id/a": "../tty0", "/dev/by-id/b": "../x"}


@pytest.mark.parametrize("tells_directories", [False, True])
@given(steps=st.lists(st.tuples(st.sampled_from(PATHS), st.booleans()), max_size=12))
def test_looks_after_changes_are_whole_looks(tells_directories: bool, steps: list[tuple[str, bool]]) -> None:
    tree = TreeOfData(["/dev/tty0", "/dev/control"])
    selection = RuleSelection(config(*ENTRIES), NoHardware(), tree)
    selection.look()
    for path, comes in steps:
        if comes:
            tree.files[path] = LINKS.get(path, FileKind.CHARACTER)
        else:
            tree.files.pop(path, None)
        above = path.rpartition("/")[0]
        if tells_directories:
            assert above in selection.directories
            changed = HostChanges(directories=frozenset({above, "/dev"}))
        else:
            changed = HostChanges(paths=frozenset({path, above}))
        assert selection.after(changed) == looked(tree, *ENTRIES)


def test_resources_without_a_change_keep_their_tuples() -> None:
    tree = TreeOfData(["/dev/a0", "/dev/b0"])
    entries = entry("as", path_group("/dev/a*")), entry("bs", path_group("/dev/b*"))
    selection = RuleSelection(config(*entries), NoHardware(), tree)
    before = dict(selection.look().units)
    tree.files["/dev/b1"] = FileKind.CHARACTER
    after = dict(selection.after(HostChanges(paths=frozenset({"/dev/b1"}))).units)
    assert [after[name] is before[name] for name in sorted(after)] == [True, False]


def test_what_is_named_is_found_when_its_directory_or_one_above_it_has_changed() -> None:
    tree = TreeOfData(["/dev/null", "/run/by-id/y"])
    tree.files["/run/by-id/y"] = "/dev/late"
    entries = (
        entry("fuse", path_group("/dev/fuse")),
        entry("link", path_group("/run/by-id/*")),
        entry("deep", path_group("/opt/deep/er/*")),
    )
    selection = RuleSelection(config(*entries), NoHardware(), tree)
    selection.look()
    assert selection.directories == {"/dev", "/run/by-id", "/opt/deep/er"}
    for path in ("/dev/fuse", "/dev/late", "/opt/deep/er/x"):
        tree.files[path] = FileKind.CHARACTER
    found = selection.after(HostChanges(directories=frozenset({"/dev", "/opt"})))
    assert found == looked(tree, *entries)
    assert [len(units) for units in found.units.values()] == [1, 1, 1]


def test_a_directory_given_as_a_device_follows_what_comes_into_it() -> None:
    tree = TreeOfData({"/dev/snd/by-path/x": "../c"})
    sound = entry("sound", path_group("/dev/snd"))
    selection = RuleSelection(config(sound), NoHardware(), tree)
    assert [len(units) for units in selection.look().units.values()] == [0]
    assert "/dev/snd" in selection.directories
    tree.files["/dev/snd/c"] = FileKind.CHARACTER
    found = selection.after(HostChanges(directories=frozenset({"/dev/snd"})))
    assert [len(units) for units in found.units.values()] == [1]
