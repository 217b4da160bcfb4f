"""The OCI spec of a container as a function of what is wanted; what engines make of it is tested with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.edits import Mount
from plugbay.model.security import MASKED_PATHS, READ_ONLY_PATHS, Seccomp, Security
from plugbay.runtimes.devices import FoundDevice
from plugbay.runtimes.oci.handlers import OciHandler, handler_of
from plugbay.runtimes.oci.shares import PodShares
from plugbay.runtimes.oci.spec import ContainerSurroundings, oci_spec
from plugbay.runtimes.port import ContainerSpec
from tests.container_specs import changed, container_spec

SPEC = container_spec()
AROUND = ContainerSurroundings("rootfs", capabilities=("CHOWN", "SYS_ADMIN"))
GOPHER = FoundDevice("/dev/gopher", "c", 10, 229, 0o600, 0, 44, "rw")


def made(spec: ContainerSpec = SPEC, *devices: FoundDevice, around: ContainerSurroundings = AROUND) -> Any:
    return oci_spec(spec, env={}, around=around, devices=devices)


def test_of_two_devices_at_one_place_the_first_is_there_and_both_are_allowed() -> None:
    other = replace(GOPHER, minor=230)
    linux = made(SPEC, GOPHER, other)["linux"]
    assert linux["devices"] == [
        {"path": "/dev/gopher", "type": "c", "major": 10, "minor": 229, "fileMode": 0o600, "uid": 0, "gid": 44}
    ]
    assert linux["resources"]["devices"][-2:] == [
        {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"},
        {"allow": True, "type": "c", "major": 10, "minor": 230, "access": "rw"},
    ]
    assert linux["resources"]["devices"][0] == {"allow": False, "access": "rwm"}


def test_pod_network_is_joined_and_the_hosts_is_kept() -> None:
    kinds = [each["type"] for each in made()["linux"]["namespaces"]]
    assert kinds == ["pid", "ipc", "uts", "mount"]
    joined = made(around=replace(AROUND, shares=PodShares({"network": "/ns"})))["linux"]["namespaces"]
    assert {"type": "network", "path": "/ns"} in joined


def test_container_sees_no_more_of_the_kernel_than_with_a_kubelet() -> None:
    linux = made()["linux"]
    assert (linux["maskedPaths"], linux["readonlyPaths"]) == ([*MASKED_PATHS], [*READ_ONLY_PATHS])


def test_privileged_container_gets_all_there_is_to_give() -> None:
    config = made(changed(SPEC, security=Security(privileged=True)))
    assert config["process"]["capabilities"]["effective"] == ["CAP_CHOWN", "CAP_SYS_ADMIN"]
    assert config["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert "maskedPaths" not in config["linux"]
    assert "rw" in next(each for each in config["mounts"] if each["destination"] == "/sys")["options"]


def refused(security: Security) -> set[str]:
    filters = made(changed(SPEC, security=security))["linux"].get("seccomp", {"syscalls": []})
    return {name for rule in filters["syscalls"] for name in rule["names"]}


def test_default_profile_allows_what_a_capability_is_for() -> None:
    usual = Security(seccomp=Seccomp.RUNTIME_DEFAULT)
    assert refused(usual) >= {"mount", "reboot", "init_module", "clone", "clone3", "keyctl"}
    assert refused(replace(usual, added_capabilities=("SYS_ADMIN",))) == refused(usual) - {
        *(
            "bpf",
            "fanotify_init",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "lookup_dcookie",
            "mount",
            "clone",
            "clone3",
        ),
        *("mount_setattr", "move_mount", "open_tree", "perf_event_open", "pivot_root", "quotactl", "quotactl_fd"),
        *("setdomainname", "sethostname", "setns", "swapoff", "swapon", "umount", "umount2", "unshare"),
    }
    for unconfined in (Security(), Security(seccomp=Seccomp.UNCONFINED), replace(usual, privileged=True)):
        assert refused(unconfined) == set()


def test_whoever_makes_a_namespace_of_any_kind_is_refused() -> None:
    rules = made(changed(SPEC, security=Security(seccomp=Seccomp.RUNTIME_DEFAULT)))["linux"]["seccomp"]["syscalls"]
    flags = [rule["args"][0]["value"] for rule in rules if rule["names"] == ["clone"]]
    mount, cgroup, uts, ipc, user, pid, net = 1 << 17, *(1 << place for place in range(25, 31))
    assert flags == [mount, cgroup, uts, ipc, user, pid, net]
    assert {rule["args"][0]["op"] for rule in rules if rule["names"] == ["clone"]} == {"SCMP_CMP_MASKED_EQ"}


@pytest.mark.parametrize(
    ("added", "dropped", "has", "has_not"),
    [
        ((), (), {"CHOWN", "NET_RAW"}, {"SYS_ADMIN"}),
        (("SYS_ADMIN",), ("CHOWN",), {"SYS_ADMIN", "NET_RAW"}, {"CHOWN"}),
        (("NET_ADMIN",), ("ALL",), {"NET_ADMIN"}, {"CHOWN"}),
        (("ALL",), ("CHOWN",), {"SYS_ADMIN"}, {"CHOWN", "NET_RAW"}),
    ],
)
def test_capabilities_are_added_and_dropped(
    added: tuple[str, ...], dropped: tuple[str, ...], has: set[str], has_not: set[str]
) -> None:
    security = Security(added_capabilities=added, dropped_capabilities=dropped)
    held = {
        each.removeprefix("CAP_")
        for each in made(changed(SPEC, security=security))["process"]["capabilities"]["bounding"]
    }
    assert held >= has
    assert not held & has_not


def test_user_other_than_root_has_no_capability_in_effect() -> None:
    capabilities = made(changed(SPEC, security=Security(run_as_user=1000)))["process"]["capabilities"]
    assert capabilities["bounding"]
    assert capabilities["effective"] == capabilities["permitted"] == []


PATHS = st.lists(st.sampled_from(["data", "run", "tmp", "a", "b"]), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(st.builds(Mount, st.just("/host"), container_path=PATHS, read_only=st.booleans()), max_size=6))
def test_no_mount_hides_another_and_the_pods_own_win(mounts: list[Mount]) -> None:
    destinations = [each["destination"] for each in made(changed(SPEC, mounts=tuple(mounts)))["mounts"]]
    assert len(destinations) == len(set(destinations))
    for place, destination in enumerate(destinations):
        assert not any(later != destination and destination.startswith(f"{later}/") for later in destinations[place:])
    placed = {each["destination"]: each for each in made(changed(SPEC, mounts=tuple(mounts)))["mounts"]}
    for mount in {each.container_path: each for each in mounts}.values():
        assert placed[mount.container_path]["source"] == "/host"
        assert ("ro" if mount.read_only else "rw") in placed[mount.container_path]["options"]


@pytest.mark.parametrize("dev", ["/dev", "//dev", "///dev/"])
def test_nothing_of_ours_is_mounted_into_a_dev_of_the_pod(dev: str) -> None:
    volumes = Mount("/dev", container_path=dev, read_only=True), Mount("/srv/own", container_path=f"{dev}/own")
    spec = replace(SPEC, mounts=volumes)
    places = [each["destination"] for each in made(spec)["mounts"] if "/dev" in each["destination"]]
    assert places == [dev, f"{dev}/own"]
    around = replace(AROUND, shares=PodShares({}, shm="/run/shm-of-the-pod"))
    shared = [each["destination"] for each in made(spec, around=around)["mounts"]]
    assert "/dev/shm" in shared
    assert "/dev/mqueue" not in shared


@pytest.mark.parametrize(
    ("runtime_class", "handler"),
    [("", OciHandler.PLAIN), ("nvidia", OciHandler.NVIDIA), ("runc", OciHandler.RUNC), ("crun", None), ("kata", None)],
)
def test_runtime_class_chooses_a_handler(runtime_class: str, handler: OciHandler | None) -> None:
    assert handler_of(runtime_class, engine="runc") is handler
