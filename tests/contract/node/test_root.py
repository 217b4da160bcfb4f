"""A node takes a root only when nobody else has it, and says clearly why not."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.errors import KubeletIsLive, PathTooLong, PathUnusable, RootInUse, StoreUnusable, UsageError
from plugbay.node.config import NodeConfig
from plugbay.node.root_lock import take_root
from plugbay.node.run import run_node
from plugbay.ops.clock import SystemClock
from tests.contract.rigs.node_run import LeapingClock, running_node


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def start(root: Path, *, name: str | None = None) -> None:
    """Start a node that stops at once."""
    stop = asyncio.Event()
    stop.set()
    await run_node(NodeConfig(root, name=name), environ={}, clock=SystemClock(), stop=stop, ready=lambda: None)


async def test_a_second_node_on_the_same_root_is_refused(sockets: Path) -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    config = NodeConfig(sockets)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_node(config, environ={}, clock=SystemClock(), stop=stop, ready=ready.set))
        await ready.wait()
        try:
            with pytest.raises(RootInUse) as caught:
                await start(sockets)
        finally:
            stop.set()
    assert caught.value.pid == os.getpid()
    assert str(caught.value) == f"another plugbay node (pid {os.getpid()}) is running on {sockets}"
    await start(sockets)


async def test_a_live_kubelet_is_left_alone(sockets: Path) -> None:
    path = NodeConfig(sockets).kubelet_paths.registration_socket
    path.parent.mkdir()
    (path.parent / "kubelet_internal_checkpoint").write_text("{}")
    before = tree(sockets)
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(path))
        kubelet.listen()
        with pytest.raises(KubeletIsLive, match=f"something answers at {path}"):
            await start(sockets)
        assert path.is_socket()
    assert tree(sockets) == before
    assert not NodeConfig(sockets).lock.exists()


async def test_a_dead_kubelets_socket_does_not_matter(sockets: Path) -> None:
    path = NodeConfig(sockets).kubelet_paths.registration_socket
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(path))
    await start(sockets)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


async def test_nothing_of_a_root_is_open_to_other_users_under_any_umask(sockets: Path, umask: int) -> None:
    root = sockets / "above" / "root"
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_node(NodeConfig(root), environ={}, clock=SystemClock(), stop=stop, ready=ready.set))
        await ready.wait()
        modes = {str(each.relative_to(root)): each.stat().st_mode & 0o777 for each in root.rglob("*")}
        stop.set()
    assert root.stat().st_mode & 0o777 == 0o750
    assert root.parent.stat().st_mode & 0o022 == 0
    listening = {name: mode for name, mode in modes.items() if name.endswith(".sock")}
    assert listening == dict.fromkeys(
        ("plugbay.sock", "device-plugins/kubelet.sock", "pod-resources/kubelet.sock"), 0o600
    )
    private = {name: mode for name, mode in modes.items() if name.split("/")[0] in ("state", "pods", "containers")}
    assert [name for name, mode in private.items() if mode & 0o077] == []
    assert [name for name, mode in modes.items() if mode & 0o022] == []


async def test_a_root_that_other_users_can_write_is_refused(sockets: Path) -> None:
    for mode in (0o770, 0o707, 0o1777):
        sockets.chmod(mode)
        with pytest.raises(PathUnusable, match="can be written by other users, who could run pods as you; run chmod"):
            await start(sockets)
    assert tree(sockets) == {}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
async def test_a_root_that_another_user_made_is_refused(sockets: Path) -> None:
    victim = sockets / "victim"
    victim.write_text("kept")
    root = sockets / "root"
    root.mkdir()
    (root / "plugbay.lock").symlink_to(victim)
    os.chown(root, 65534, 65534)
    with pytest.raises(PathUnusable, match=r"belongs to another user \(uid 65534\), who could run pods as you"):
        await start(root)
    assert victim.read_text() == "kept"


async def test_a_file_is_no_root(sockets: Path) -> None:
    root = sockets / "file"
    root.write_text("mine")
    with pytest.raises(PathUnusable, match=f"{root}: is not a directory"):
        await start(root)
    assert root.read_text() == "mine"


async def test_a_path_too_long_for_sockets_is_refused(sockets: Path) -> None:
    root = sockets / ("x" * 90)
    with pytest.raises(PathTooLong, match="unix sockets end at 107"):
        await start(root)
    assert not root.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
async def test_a_closed_root_is_refused(sockets: Path) -> None:
    sockets.chmod(0o500)
    try:
        with pytest.raises(PathUnusable, match="Permission denied"):
            await start(sockets)
    finally:
        sockets.chmod(0o700)


async def test_a_broken_store_is_reported_and_left_alone(sockets: Path) -> None:
    await start(sockets)
    store = NodeConfig(sockets).pod_store
    store.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnusable, match=f"store {store}: file is not a database"):
        await start(sockets)
    assert store.read_bytes() == b"not a database" * 100


def test_the_lock_names_its_holder_and_ends_with_it(sockets: Path) -> None:
    config = NodeConfig(sockets)
    held = take_root(config)
    assert config.lock.read_text() == f"{os.getpid()}\n"
    os.close(held)
    with config.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_the_control_socket_is_private(sockets: Path) -> None:
    modes = []
    stop = asyncio.Event()
    stop.set()
    config = NodeConfig(sockets)

    def ready() -> None:
        modes.append(config.control_socket.stat().st_mode & 0o777)

    await run_node(config, environ={}, clock=SystemClock(), stop=stop, ready=ready)
    assert modes == [0o600]
    assert not config.control_socket.exists()


async def test_a_name_that_no_node_can_have_is_refused(sockets: Path) -> None:
    with pytest.raises(UsageError, match="'Bad Name' is not a name for a node"):
        await start(sockets, name="Bad Name")


async def test_containers_that_cannot_be_listed_are_named(sockets: Path) -> None:
    (sockets / "containers").touch()
    with pytest.raises(PathUnusable, match=r"containers: cannot list containers: Not a directory"):
        await start(sockets)


async def test_a_file_in_place_of_the_plugins_directory_is_named(sockets: Path) -> None:
    (sockets / "device-plugins").touch()
    with pytest.raises(PathUnusable, match=r"device-plugins: "):
        await start(sockets)


async def test_a_node_is_as_old_as_its_root(sockets: Path) -> None:
    clock, ages = LeapingClock(), set()
    for _ in range(2):
        async with running_node(sockets, clock) as node:
            ages.add((await node.get("/api/v1/nodes/n1"))["metadata"]["creationTimestamp"])
        clock.leap(3600)
    assert len(ages) == 1
