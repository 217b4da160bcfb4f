"""Groups of paths: the other plugin's worked cases and IDs, and what ours refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.model.edits import DeviceNode, Mount
from plugbay.plugins.generic.config.rules import PathKind, PathRule
from plugbay.plugins.generic.selecting.tree import FileKind
from tests.unit.plugins.generic.selecting.trees import TreeOfData, entry, hosts, looked, path_group, units

T0, T1, T2, C = "/dev/t0", "/dev/t1", "/dev/t2", "/dev/c"
TREE = TreeOfData([T2, C, T0, T1])
TTYS = PathRule("/dev/t*")
CONTROL = PathRule(C)
MISSING = PathRule("/dev/missing")


def test_each_match_is_a_unit() -> None:
    assert hosts(TREE, path_group(TTYS)) == [(T0,), (T1,), (T2,)]


def test_a_path_is_used_once_without_a_limit() -> None:
    assert hosts(TREE, path_group(TTYS, CONTROL)) == [(T0, C)]


def test_a_limit_lets_a_path_be_used_again() -> None:
    assert hosts(TREE, path_group(TTYS, replace(CONTROL, limit=10))) == [(T0, C), (T1, C), (T2, C)]
    assert hosts(TREE, path_group(TTYS, replace(CONTROL, limit=2))) == [(T0, C), (T1, C)]


def test_matches_begin_anew_where_they_are_used_again() -> None:
    pair = PathRule("/dev/t[01]", mount_path="/dev/pair/", limit=2)
    assert hosts(TREE, path_group(TTYS, pair)) == [(T0, T0), (T1, T1), (T2, T0)]


def test_a_count_makes_copies() -> None:
    assert hosts(TREE, path_group(TTYS, replace(CONTROL, limit=10), count=2)) == [
        *((T0, C), (T0, C)),
        *((T1, C), (T1, C)),
        *((T2, C), (T2, C)),
    ]


def test_a_limit_and_a_count_of_zero_are_one() -> None:
    assert hosts(TREE, path_group(replace(CONTROL, limit=0), count=0)) == [(C,)]


def test_a_missing_path_empties_the_group_unless_it_is_optional() -> None:
    assert hosts(TREE, path_group(MISSING, PathRule(T0))) == []
    optional = replace(MISSING, is_optional=True)
    assert hosts(TREE, path_group(optional, PathRule(T0), PathRule(T1, is_optional=True))) == [(T0, T1)]
    assert hosts(TREE, path_group(optional)) == []


def test_an_optional_path_with_fewer_matches_still_caps_the_units() -> None:
    assert hosts(TREE, path_group(TTYS, replace(CONTROL, is_optional=True))) == [(T0, C)]


def test_matches_are_sorted_by_their_bytes() -> None:
    tree = TreeOfData(["/dev/x/z", "/dev/ttyUSB2", "/dev/ttyUSB10", "/dev/ttyUSB1", "/dev/a/1", "/dev/a-b/1"])
    assert hosts(tree, path_group("/dev/ttyUSB*", "/dev/ttyUSB*")) == [
        *(("/dev/ttyUSB1",), ("/dev/ttyUSB10",), ("/dev/ttyUSB2",)),
    ]
    assert hosts(tree, path_group("/dev/a*/1", "/dev/ttyUSB*")) == [
        ("/dev/a-b/1", "/dev/ttyUSB1"),
        ("/dev/a/1", "/dev/ttyUSB10"),
    ]


@pytest.mark.parametrize(
    ("paths", "copy", "wanted"),
    [
        (("/dev/ttyUSB0",), 0, "244c4eb967dd5fcfdc3d774106a9b1a20992aa12"),
        (("/dev/ttyUSB0",), 1, "ec099ded7c33914c2c8146a7e7bff5b24eb166b8"),
        (("/dev/fuse",), 0, "a68db766f638034740111848aafee2d2dcd6b642"),
        (("/dev/fuse",), 9, "bd6ee27a4355ad16a10fab1ffbeb436b0d07000f"),
        (("/dev/fuse",), 10, "f7e8f333e072c3f7168aa29d521ea71277d1e45b"),
        (("/dev/snd/controlC0", "/dev/snd/pcmC0D0c"), 0, "8e312365c4c43caed695c0e3bad2b52cb3dd6fa4"),
        (("/dev/bus/usb/003/022",), 0, "eface26afd7952c41e1b3baa744fb543353eedb0"),
        (("/dev/bus/usb/012/127",), 0, "7a9d85c90228bccc98419c203c26a71ea1a1ce74"),
    ],
)
def test_ids_are_those_of_the_other_plugin(paths: tuple[str, ...], copy: int, wanted: str) -> None:
    found = units(TreeOfData(paths), path_group(*paths, count=11))
    assert [unit.id for unit in found if unit.copy == copy] == [wanted]


def test_where_a_path_is_in_the_container() -> None:
    rules = (
        PathRule(T0, mount_path="/dev/serial/"),
        PathRule(T1, mount_path="/dev/port", permissions="r"),
        PathRule(C, kind=PathKind.MOUNT, permissions="", is_read_only=True),
    )
    [unit] = units(TREE, path_group(*rules))
    assert unit.nodes == (
        DeviceNode(T0, container_path="/dev/serial/t0", permissions="mrw"),
        DeviceNode(T1, container_path="/dev/port", permissions="r"),
    )
    assert unit.mounts == (Mount(C, read_only=True),)
    assert unit.facts == {"path": "/dev/serial/t0", "hostPath": T0, "name": "t0"}


KINDS = TreeOfData(
    {
        "/dev/snd/by-path/x": "../controlC0",
        "/dev/snd/controlC0": FileKind.CHARACTER,
        "/dev/sda": FileKind.BLOCK,
        "/dev/loose": "nowhere",
        "/dev/link": "sda",
        "/dev/file": FileKind.OTHER,
    }
)


def test_a_file_that_is_not_a_device_is_not_given_as_one() -> None:
    found = looked(KINDS, entry("things", path_group("/dev/*"), path_group("/dev/snd/*")))
    [resource] = found.units.values()
    assert {node.host_path for unit in resource for node in unit.nodes} == {
        "/dev/sda",
        "/dev/link",
        "/dev/snd/controlC0",
    }
    texts = " ".join(trouble.text for trouble in found.troubles)
    assert "/dev/file matches '/dev/*' and is not a device node" in texts
    assert "/dev/snd/by-path matches '/dev/snd/*' and is a directory" in texts
    assert "/dev/loose matches '/dev/*' and is a link to nothing" in texts
    assert texts.count("anyFile: true") == 4


def test_files_that_are_not_given_for_one_reason_are_told_together() -> None:
    tree = TreeOfData({f"/dev/f{number}": FileKind.OTHER for number in range(5)})
    [trouble] = looked(tree, entry("things", path_group("/dev/f*"))).troubles
    assert trouble.text.startswith("Each of /dev/f0, /dev/f1, /dev/f2 and 2 more matches '/dev/f*' and is not a device")


def test_any_file_is_given_as_a_device_if_the_rule_says_so() -> None:
    assert hosts(KINDS, path_group(PathRule("/dev/*", takes_any_file=True))) == [
        *(("/dev/file",), ("/dev/link",), ("/dev/loose",), ("/dev/sda",), ("/dev/snd",)),
    ]


def test_a_link_to_nothing_that_is_named_is_not_there() -> None:
    assert hosts(KINDS, path_group(PathRule("/dev/loose", takes_any_file=True))) == []


def test_a_directory_of_nodes_that_is_named_is_given_as_the_engine_takes_it() -> None:
    assert hosts(KINDS, path_group("/dev/snd", count=2)) == [("/dev/snd",), ("/dev/snd",)]
    assert hosts(KINDS, path_group("/dev/snd/by-path", "/dev/sda")) == []
    deep = TreeOfData(["/dev/bus/usb/001/002", "/dev/pts/0", "/dev/x/pts/0"])
    assert hosts(deep, path_group("/dev/bus/usb")) == [("/dev/bus/usb",)]
    assert hosts(deep, path_group("/dev/x")) == [], "engines do not look into pts"


def test_a_mount_may_be_any_file_that_is_there() -> None:
    mounts = PathRule("/dev/*", kind=PathKind.MOUNT, permissions="")
    assert sorted(hosts(KINDS, path_group(mounts))) == [("/dev/file",), ("/dev/link",), ("/dev/sda",), ("/dev/snd",)]


def test_a_link_keeps_its_name_and_its_target_comes_with_it_on_demand() -> None:
    [plain] = units(KINDS, path_group("/dev/link"))
    [both] = units(KINDS, path_group(PathRule("/dev/link", mount_path="/dev/disk", resolves=True)))
    assert [node.host_path for node in plain.nodes] == ["/dev/link"]
    assert [(node.host_path, node.container_path) for node in both.nodes] == [
        ("/dev/link", "/dev/disk"),
        ("/dev/sda", "/dev/sda"),
    ]
    assert plain.id == both.id


def test_a_broken_pattern_is_told_and_its_group_has_no_units() -> None:
    found = looked(TREE, entry("things", path_group("/dev/[", T0), path_group(T1)))
    [resource] = found.units.values()
    assert [node.host_path for unit in resource for node in unit.nodes] == [T1]
    assert "The path '/dev/[' is not a pattern" in found.troubles[0].text


def test_an_entry_without_groups_has_a_resource_without_units() -> None:
    assert looked(TREE, entry("things")).units == {"example.com/things": ()}


def test_a_name_that_is_not_utf8_is_left_out_and_told() -> None:
    found = looked(TreeOfData(["/dev/t\udcff", T0]), entry("things", path_group(TTYS)))
    [resource] = found.units.values()
    assert len(resource) == 1
    assert "'/dev/t\\udcff' matches '/dev/t*' and has a name that is not UTF-8" in found.troubles[0].text
    assert "anyFile" not in found.troubles[0].text
    assert found.troubles[0].text.encode()
