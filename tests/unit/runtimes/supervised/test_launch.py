from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.security import Security
from plugbay.runtimes.port import ContainerId, ContainerSpec
from plugbay.runtimes.process.unconfined import Unconfined
from plugbay.runtimes.supervised import launch
from plugbay.runtimes.supervised.confinement import Launch
from plugbay.runtimes.supervised.launch import DEFAULT_PATH, check_paths, container_environment, encode_launch
from plugbay.runtimes.supervised.records import container_id
from tests.container_specs import changed, container_spec

DEADLINE_S = 30
SPEC = container_spec("true", uid=PodUid("uid"), pod="gopher-pod", name=ContainerName("gopher"), image="busybox")


def test_environment_is_nothing_but_defaults_devices_and_pod() -> None:
    spec = changed(SPEC, env={"A": "pod"}, edits=ContainerEdits(env={"A": "device", "Gopher": "g1"}))
    assert container_environment(spec, home="/home/dev", directory=Path("/d")) == {
        "PATH": DEFAULT_PATH,
        "HOSTNAME": "gopher-pod",
        "HOME": "/home/dev",
        "Gopher": "g1",
        "A": "pod",
        "PLUGBAY_CONTAINER": "/d",
    }


def test_defaults_give_way_to_what_is_asked_for() -> None:
    spec = changed(SPEC, env={"PATH": "/opt"}, edits=ContainerEdits(env={"HOME": "/device", "HOSTNAME": "h"}))
    assert container_environment(spec, home="/", directory=Path("/d")) == {
        "PATH": "/opt",
        "HOME": "/device",
        "HOSTNAME": "h",
        "PLUGBAY_CONTAINER": "/d",
    }


def test_paths_that_lie_elsewhere_are_told_in_the_environment() -> None:
    edits = ContainerEdits(
        mounts=(Mount("/same"), Mount("/srv/gophers", container_path="/etc/gophers")),
        device_nodes=(DeviceNode("/dev/gopher1", container_path="/dev/gopher"),),
    )
    spec = changed(SPEC, mounts=(Mount("/volumes/cache", container_path="/cache"),), edits=edits)
    assert json.loads(container_environment(spec, home="/", directory=Path("/d"))["PLUGBAY_MOUNTS"]) == {
        "/etc/gophers": "/srv/gophers",
        "/dev/gopher": "/dev/gopher1",
        "/cache": "/volumes/cache",
    }


@pytest.mark.parametrize(
    ("argv", "env", "text"),
    [
        pytest.param(("a\0b",), {}, "NUL", id="argument with NUL"),
        pytest.param(("a",), {"A": "\0"}, "NUL", id="value with NUL"),
        pytest.param(("a",), {"A=B": ""}, "'A=B' cannot be the name", id="name with ="),
        pytest.param(("a",), {"": ""}, "'' cannot be the name", id="empty name"),
    ],
)
def test_what_no_process_can_be_given_is_refused(argv: tuple[str, ...], env: dict[str, str], text: str) -> None:
    with pytest.raises(ContainerStartError, match=text) as raised:
        encode_launch(argv, working_dir="/", env=env)
    assert raised.value.reason == "CreateContainerError"


def test_missing_host_paths_are_refused_by_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for spec in (
        changed(SPEC, mounts=(Mount(missing, container_path="/m"),)),
        changed(SPEC, edits=ContainerEdits(mounts=(Mount(missing, container_path="/m"),))),
        changed(SPEC, edits=ContainerEdits(device_nodes=(DeviceNode(missing, container_path="/dev/x"),))),
    ):
        with pytest.raises(ContainerStartError, match=f"lstat {missing}: no such file or directory") as raised:
            check_paths(spec)
        assert raised.value.reason == "CreateContainerError"


@pytest.mark.parametrize("path", ["", "null"])
def test_paths_that_are_nowhere_on_the_host_are_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/dev")
    mounts, nodes = (Mount(path, container_path="/m"),), (DeviceNode(path, container_path="/dev/x"),)
    for edits in (ContainerEdits(mounts=mounts), ContainerEdits(device_nodes=nodes)):
        with pytest.raises(ContainerStartError, match=f"lstat {path}: no such file or directory"):
            check_paths(changed(SPEC, edits=edits))


class Searching(Unconfined):
    """Looks at paths until that is given up."""

    def __init__(self) -> None:
        super().__init__(home="/")
        self.ended = threading.Event()

    def launch(
        self, spec: ContainerSpec, container: ContainerId, directory: Path, *, is_given_up: Callable[[], bool]
    ) -> Launch:
        while not is_given_up():
            os.sched_yield()
        self.ended.set()
        return super().launch(spec, container, directory, is_given_up=is_given_up)


async def test_start_does_not_wait_for_ever_for_a_look_at_its_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "START_S", 0.01)
    confinement = Searching()
    with pytest.raises(ContainerStartError, match="context deadline exceeded") as raised:
        await launch.plan_launch(confinement, SPEC, ContainerId("c"), tmp_path)
    assert raised.value.reason == "CreateContainerError"
    assert await asyncio.to_thread(confinement.ended.wait, DEADLINE_S)


def test_rights_that_only_an_engine_could_take_are_refused() -> None:
    with pytest.raises(ContainerStartError, match="cannot confine a container, as runAsUser of its pod") as raised:
        check_paths(changed(SPEC, security=Security(run_as_user=1000)))
    assert raised.value.reason == "CreateContainerError"
    check_paths(changed(SPEC, security=Security(privileged=True, added_capabilities=("ALL",))))


def test_a_plain_file_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node = DeviceNode(tmp_path / "file", container_path="/dev/x")
    with pytest.raises(ContainerStartError, match='containerPath: "/dev/x" error: not a device node'):
        check_paths(changed(SPEC, edits=ContainerEdits(device_nodes=(node,))))


def test_a_device_without_permissions_fails_at_start() -> None:
    node = DeviceNode("/dev/null", permissions="")
    with pytest.raises(ContainerStartError, match="device access at 1 field cannot be empty") as raised:
        check_paths(changed(SPEC, edits=ContainerEdits(device_nodes=(node,))))
    assert raised.value.reason == "StartError"


def test_cdi_devices_are_refused_by_name() -> None:
    edits = ContainerEdits(cdi_devices=("example.com/gopher=g1",))
    with pytest.raises(ContainerStartError, match=r"cannot inject CDI devices example\.com/gopher=g1"):
        check_paths(changed(SPEC, edits=edits))


def test_existing_paths_pass(tmp_path: Path) -> None:
    edits = ContainerEdits(
        device_nodes=(DeviceNode(os.devnull, container_path="/dev/null"),),
        mounts=(Mount(tmp_path, container_path="/m"),),
    )
    check_paths(changed(SPEC, mounts=(Mount(tmp_path, container_path="/v"),), edits=edits))


def test_instances_have_distinct_harmless_names() -> None:
    uids = ["..", "a/b", "a_b", "a", ".hidden", "a%5Fb", "ü \n"]
    names = {container_id(changed(SPEC, uid=PodUid(uid), attempt=attempt)) for uid in uids for attempt in (0, 1)}
    assert len(names) == 2 * len(uids)
    assert not any("/" in name or name.startswith(".") for name in names)
