"""What edits do to an OCI runtime spec; each case is a sentence of CDI."""

from __future__ import annotations

import copy
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plugbay.cdi.convert import Spelled, from_cdi, to_cdi
from plugbay.cdi.host import find_node, host_node
from plugbay.cdi.inject import clean, inject
from plugbay.cdi.nodes import HostNode
from plugbay.cdi.spec import Edits, Hook, IntelRdt, NetDevice, SpecDeviceNode, SpecMount
from plugbay.errors import CdiInjectionFailed, NotInCdi
from plugbay.model import edits as model

HOST = {
    "/dev/fuse": HostNode("c", 10, 229, 0o660),
    "/dev/sda": HostNode("b", 8, 0, 0o640),
    "/run/pipe": HostNode("p", 0, 0, 0o600),
}


def look_up(path: str) -> HostNode | None:
    if path == "/etc/passwd":
        return None
    if path not in HOST:
        raise FileNotFoundError(2, "No such file or directory", path)
    return HOST[path]


def injected(edits: Edits, oci: dict[str, Any] | None = None) -> dict[str, Any]:
    given = {"ociVersion": "1.1.0"} if oci is None else oci
    before = copy.deepcopy(given)
    after = inject(edits, given, look_up)
    assert given == before, "the caller's spec stays as it was"
    return after


def node(**changes: Any) -> dict[str, Any]:
    linux: dict[str, Any] = injected(Edits(device_nodes=(SpecDeviceNode(**changes),)))["linux"]
    return linux


def test_env_replaces_in_place_and_appends() -> None:
    after = injected(Edits(env=("A=2", "C=1", "C=3")), {"process": {"env": ["A=1", "B=1"]}})
    assert after["process"]["env"] == ["A=2", "B=1", "C=3"]


def test_a_node_takes_what_it_lacks_from_the_host() -> None:
    assert node(path="/dev/g", host_path="/dev/fuse", permissions="rw") == {
        "devices": [{"path": "/dev/g", "type": "c", "major": 10, "minor": 229, "fileMode": 0o660}],
        "resources": {"devices": [{"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"}]},
    }


def test_a_complete_node_needs_no_host() -> None:
    made = node(path="/dev/g1", type="c", major=1, minor=5, file_mode=0o644, uid=7, gid=8)
    assert made["devices"] == [
        {"path": "/dev/g1", "type": "c", "major": 1, "minor": 5, "fileMode": 0o644, "uid": 7, "gid": 8}
    ]
    assert made["resources"]["devices"][0]["access"] == "rwm", "no permissions are all"


def test_a_complete_node_takes_the_mode_of_the_hosts() -> None:
    assert node(path="/dev/fuse", type="c", major=1, minor=5)["devices"][0]["fileMode"] == 0o660


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": "/dev/none"}, 'failed to stat CDI host device "/dev/none": no such file or directory'),
        ({"path": "/dev/none", "type": "c"}, "failed to stat"),
        ({"path": "/dev/none", "type": "u"}, "failed to stat"),
        ({"path": "/etc/passwd"}, "not a device node"),
        ({"path": "/dev/fuse", "type": "b"}, r"host type mismatch \(b, c\)"),
        ({"path": "/dev/fuse", "type": "u"}, r"host type mismatch \(u, c\)"),
    ],
)
def test_a_node_that_the_host_has_not_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(CdiInjectionFailed, match=problem):
        node(**given)


@pytest.mark.parametrize("path", ["/dev/\0", "/dev/\ud800"])
def test_a_path_that_no_host_can_have_is_refused(path: str) -> None:
    edits = Edits(device_nodes=(SpecDeviceNode(path),))
    with pytest.raises(CdiInjectionFailed, match=r"failed to stat CDI host device .*: invalid argument"):
        inject(edits, {"ociVersion": "1.1.0"}, partial(host_node, root=Path("/")))


def test_pipes_and_unbuffered_nodes_get_no_cgroup_rule() -> None:
    assert "resources" not in node(path="/dev/p", host_path="/run/pipe", type="p")
    assert "resources" not in node(path="/dev/u", type="u", major=4, minor=1)


def test_permissions_none_are_none() -> None:
    assert node(path="/dev/fuse", permissions="none")["resources"]["devices"][0]["access"] == ""


def test_owners_default_to_those_of_the_process_unless_root() -> None:
    edits = Edits(device_nodes=(SpecDeviceNode("/dev/fuse"), SpecDeviceNode("/dev/sda", uid=0)))
    first, second = injected(edits, {"process": {"user": {"uid": 1000, "gid": 0}}})["linux"]["devices"]
    assert (first["uid"], "gid" in first) == (1000, False)
    assert second["uid"] == 0


def test_a_node_replaces_the_one_at_its_path_and_leaves_its_rule() -> None:
    oci = {
        "linux": {
            "devices": [{"path": "/dev/fuse", "type": "c", "major": 1, "minor": 1}, {"path": "/dev/z"}],
            "resources": {"devices": [{"allow": False}]},
        }
    }
    linux = injected(Edits(device_nodes=(SpecDeviceNode("/dev/fuse"),)), oci)["linux"]
    assert [(each["path"], each.get("major")) for each in linux["devices"]] == [("/dev/z", None), ("/dev/fuse", 10)]
    assert len(linux["resources"]["devices"]) == 2


def test_mounts_replace_and_are_sorted_by_depth_stably() -> None:
    oci = {"mounts": [{"destination": "/a/b/c", "source": "1"}, {"destination": "/z"}, {"destination": "/a"}]}
    after = injected(Edits(mounts=(SpecMount("/h", "/a/b/c", ("rbind",)), SpecMount("/h", "/m//", type="none"))), oci)
    assert after["mounts"] == [
        {"destination": "/z"},
        {"destination": "/a"},
        {"destination": "/m//", "source": "/h", "type": "none"},
        {"destination": "/a/b/c", "source": "/h", "options": ["rbind"]},
    ]


@pytest.mark.parametrize("path", ["//m", "///m", "//m/", "//x/../m"])
def test_slashes_at_the_beginning_make_no_mount_deeper(path: str) -> None:
    after = injected(Edits(mounts=(SpecMount("/h", path),)), {"mounts": [{"destination": "/a/b"}]})
    assert [each["destination"] for each in after["mounts"]] == [path, "/a/b"]


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "."),
        ("/", "/"),
        ("//", "/"),
        ("///", "/"),
        ("//a//b/", "/a/b"),
        ("//..", "/"),
        ("a/", "a"),
        ("./../a", "../a"),
    ],
)
def test_paths_are_cleaned_as_by_go(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned


def test_without_a_new_mount_nothing_is_sorted() -> None:
    oci = {"mounts": [{"destination": "/a/b"}, {"destination": "/a"}]}
    assert injected(Edits(env=("A=1",)), oci)["mounts"] == oci["mounts"]


@pytest.mark.parametrize(
    ("mount", "options"),
    [
        (SpecMount("/h", "/c", ("bind", "ro")), ["bind", "ro", "idmap"]),
        (SpecMount("/h", "/c", ("rbind",)), ["rbind", "ridmap"]),
        (SpecMount("/h", "/c", ("rbind", "idmap")), ["rbind", "idmap"]),
        (SpecMount("/h", "/c", (), "bind"), ["idmap"]),
        (SpecMount("/h", "/c", ("ro",), "tmpfs"), ["ro"]),
    ],
)
def test_in_a_user_namespace_bind_mounts_are_id_mapped(mount: SpecMount, options: list[str]) -> None:
    oci = {"linux": {"namespaces": [{"type": "user"}]}}
    assert injected(Edits(mounts=(mount,)), oci)["mounts"][0]["options"] == options


def test_hooks_join_those_of_their_stage() -> None:
    hooks = (
        Hook("createContainer", "/x", ("x", "-v"), ("A=1",), 0),
        Hook("poststop", "/y"),
    )
    after = injected(Edits(hooks=hooks), {"hooks": {"createContainer": [{"path": "/first"}]}})
    assert after["hooks"] == {
        "createContainer": [
            {"path": "/first"},
            {"path": "/x", "args": ["x", "-v"], "env": ["A=1"], "timeout": 0},
        ],
        "poststop": [{"path": "/y"}],
    }


def test_the_rest_lands_where_the_runtime_looks() -> None:
    edits = Edits(
        net_devices=(NetDevice("eth9", "g0"),),
        intel_rdt=IntelRdt("c", "L3:0=f", "MB:0=1", ("x",), True),
        additional_gids=(0, 5, 6, 6),
    )
    after = injected(edits, {"process": {"user": {"additionalGids": [5]}}, "linux": {"intelRdt": {"closID": "old"}}})
    assert after["linux"]["netDevices"] == {"eth9": {"name": "g0"}}
    assert after["linux"]["intelRdt"] == {
        "closID": "c",
        "l3CacheSchema": "L3:0=f",
        "memBwSchema": "MB:0=1",
        "schemata": ["x"],
        "enableMonitoring": True,
    }
    assert after["process"]["user"]["additionalGids"] == [5, 6]


def test_the_host_is_looked_at_without_following_links(tmp_path: Any) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert host_node("/null", root=tmp_path) is None
    found = host_node("/pipe", root=tmp_path)
    assert found is not None
    assert (found.type, found.mode) == ("p", 0o600)
    with pytest.raises(FileNotFoundError):
        host_node("/missing", root=tmp_path)


def test_what_a_plugin_gives_can_be_a_spec_and_come_back() -> None:
    given = model.ContainerEdits(
        env={"A": "1=2"},
        mounts=(model.Mount("/h", container_path="/c", read_only=True), model.Mount("/d")),
        device_nodes=(model.DeviceNode("/dev/y", container_path="/dev/x", permissions="r"), model.DeviceNode("/dev/z")),
    )
    made = to_cdi(given)
    assert [mount.options for mount in made.mounts] == [
        ("ro", "nosuid", "nodev", "rbind"),
        ("rw", "nosuid", "nodev", "rbind"),
    ]
    assert from_cdi(made, names=("v/c=a",)) == Spelled(given)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device node of another user")
def test_a_node_has_the_mode_and_the_owner_of_the_hosts_as_when_engines_get_it_otherwise(tmp_path: Path) -> None:
    node, link = tmp_path / "node", tmp_path / "link"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    node.chmod(0o620)
    os.chown(node, 7, 8)
    link.symlink_to("node")
    given = model.ContainerEdits(device_nodes=[model.DeviceNode(link, container_path="/dev/x")])
    made = to_cdi(given, find_node)
    assert made.device_nodes == (
        SpecDeviceNode("/dev/x", str(node), file_mode=0o620, uid=7, gid=8, permissions="rw"),  # no engine follows links
    )
    spelled = model.ContainerEdits(device_nodes=[model.DeviceNode(node, container_path="/dev/x")])
    assert from_cdi(made, names=("v/c=a",), find=find_node) == Spelled(spelled)
    node.chmod(0o660)
    with pytest.raises(CdiInjectionFailed, match="modes or owners"):
        from_cdi(made, names=("v/c=a",), find=find_node)
    node.unlink()
    assert to_cdi(given, find_node).device_nodes == (SpecDeviceNode("/dev/x", str(link), permissions="rw"),)


def test_groups_are_told_once_each_and_never_that_of_root() -> None:
    edits = Edits(additional_gids=(777, 0, 5, 777))
    assert from_cdi(edits, names=("v/c=a",)) == Spelled(model.NO_EDITS, (777, 5))


@pytest.mark.parametrize(
    "given", [model.ContainerEdits(annotations={"a": "b"}), model.ContainerEdits(cdi_devices=("v/c=a",))]
)
def test_what_a_spec_cannot_hold_is_refused(given: model.ContainerEdits) -> None:
    with pytest.raises(NotInCdi):
        to_cdi(given)


@pytest.mark.parametrize(
    "edits",
    [
        Edits(hooks=(Hook("poststop", "/x"),)),
        Edits(intel_rdt=IntelRdt()),
        Edits(net_devices=(NetDevice("a", "b"),)),
        Edits(device_nodes=(SpecDeviceNode("/a", type="c", major=1),)),
        Edits(device_nodes=(SpecDeviceNode("/a", file_mode=0),)),
    ],
)
def test_what_an_engine_without_cdi_cannot_be_told_is_refused(edits: Edits) -> None:
    with pytest.raises(CdiInjectionFailed, match=r"v/c=a: an engine without CDI cannot be given"):
        from_cdi(edits, names=("v/c=a",))
