"""Files that two entries would give, resources of two entries, and IDs that would be the same."""

from __future__ import annotations

from dataclasses import replace

from plugbay.plugins.generic.config.rules import PathKind, PathRule
from plugbay.plugins.generic.config.spots import Spot
from plugbay.plugins.generic.selecting.tree import FileKind
from plugbay.plugins.generic.selecting.units import SelectedUnits
from tests.unit.plugins.generic.selecting.trees import TreeOfData, entry, host_paths, looked, path_group

TREE = TreeOfData({"/dev/a": FileKind.CHARACTER, "/dev/b": FileKind.CHARACTER, "/dev/by-id/a": "../a"})


def given(found: SelectedUnits) -> dict[str, list[list[str]]]:
    return {name: [list(host_paths(unit)) for unit in units] for name, units in found.units.items()}


def test_a_file_of_two_entries_is_given_by_the_first_alone() -> None:
    later = replace(entry("all", path_group("/dev/[ab]")), spot=Spot(9, 5))
    found = looked(TREE, entry("one", path_group("/dev/a")), later)
    assert given(found) == {"example.com/one": [["/dev/a"]], "example.com/all": [["/dev/b"]]}
    [trouble] = found.troubles
    assert trouble.resource == "example.com/all"
    assert trouble.text == (
        "/dev/a: the entry 'one', number 1 gives this already, so the entry 'all', line 9 does not; write shared: true"
        " in both entries if both may give it at the same time."
    )


def test_a_link_to_a_file_of_another_entry_is_the_same_file() -> None:
    found = looked(TREE, entry("one", path_group("/dev/by-id/*")), entry("two", path_group("/dev/a")))
    assert given(found) == {"example.com/one": [["/dev/by-id/a"]], "example.com/two": []}


def test_a_file_given_by_its_name_and_by_a_link_in_one_entry_is_told() -> None:
    found = looked(TREE, entry("one", path_group("/dev/[ab]", PathRule("/dev/b", limit=2)), path_group("/dev/by-id/*")))
    assert [trouble.text for trouble in found.troubles] == [
        "/dev/by-id/a leads to /dev/a, and both are given, so two containers may get the same device; let the rules"
        " match one of them only."
    ]
    resolving = path_group(PathRule("/dev/by-id/*", resolves=True))
    assert looked(TREE, entry("one", resolving, path_group("/dev/b"))).troubles == ()


def test_entries_that_both_share_both_give_a_file() -> None:
    one, two = entry("one", path_group("/dev/a")), entry("two", path_group("/dev/a"))
    both = looked(TREE, replace(one, is_shared=True), replace(two, is_shared=True))
    assert given(both) == {"example.com/one": [["/dev/a"]], "example.com/two": [["/dev/a"]]}
    assert both.troubles == ()
    for entries in ((replace(one, is_shared=True), two), (one, replace(two, is_shared=True))):
        assert given(looked(TREE, *entries))["example.com/two"] == []


def test_mounts_of_two_entries_are_given_by_both() -> None:
    mount = path_group(PathRule("/dev/a", kind=PathKind.MOUNT, permissions=""))
    assert given(looked(TREE, entry("one", mount), entry("two", mount))) == {
        "example.com/one": [["/dev/a"]],
        "example.com/two": [["/dev/a"]],
    }


def test_the_same_file_in_two_groups_of_an_entry_is_one_unit_by_the_later_group() -> None:
    later = path_group(PathRule("/dev/a", mount_path="/dev/x"))
    [units] = looked(TREE, entry("one", path_group("/dev/a"), later)).units.values()
    assert [node.container_path for unit in units for node in unit.nodes] == ["/dev/x"]


def test_paths_that_read_the_same_when_joined_are_units_apart() -> None:
    tree = TreeOfData(["/a/b", "/b", "/a"])
    tree.files["/a"] = FileKind.CHARACTER
    groups = path_group("/a", "/b"), path_group("/a/b")
    [units] = looked(tree, entry("one", *groups)).units.values()
    assert len(units) == len({unit.id for unit in units}) == 2
    [alone] = looked(tree, entry("one", groups[0])).units.values()
    assert alone[0].id in {unit.id for unit in units}


def test_a_resource_of_two_entries_belongs_to_the_first() -> None:
    found = looked(TREE, entry("same", path_group("/dev/a")), entry("same", path_group("/dev/b")))
    assert given(found) == {"example.com/same": [["/dev/a"]]}
    assert "belongs to the entry 'same', number 1" in found.troubles[0].text
