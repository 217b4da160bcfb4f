"""The checkpoint file beside a running manager: written, taken over, given back, and whole after any crash."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import AllocateFailed, CheckpointNotOurs, CorruptCheckpoint, PathUnusable, RpcCode, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.checkpoint import encode, load
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.checkpoint.view import DEBOUNCE_S, RETRY_S
from plugbay.manager.config import ForeignCheckpoint, ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import SaveAssignments, SaveViewChecksums
from plugbay.manager.store.store import open_store
from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits
from plugbay.model.health import unhealthy
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.clock import Clock, SystemClock
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.wire.convert import decode_edits
from tests.contract.rigs.manager import SleepersClock

GOPHER = ResourceName("example.com/gopher")
DEVICES = [Device("g1"), Device("g2", numa_nodes=[1])]
Condition = Callable[[CheckpointData], bool]


@pytest.fixture
def config(sockets: Path) -> ManagerConfig:
    return ManagerConfig(KubeletPaths(sockets), sockets / "state" / "manager.db")


def read(config: ManagerConfig) -> CheckpointData:
    return load(config.paths.checkpoint.read_bytes(), source="view")


async def until_view(config: ManagerConfig, condition: Condition) -> CheckpointData:
    """Wait for a view; every one on the way must be whole."""
    async with asyncio.timeout(20), watch_paths([config.paths.checkpoint]) as changes:
        while True:
            if config.paths.checkpoint.exists() and condition(data := read(config)):
                return data
            await anext(changes)


@asynccontextmanager
async def managed(config: ManagerConfig, clock: Clock | None = None) -> AsyncIterator[tuple[DeviceManager, FakePlugin]]:
    """A manager with a plugin whose devices it has seen."""
    async with (
        run_manager(config, clock=clock or SystemClock()) as manager,
        fake_plugin(GOPHER, config.paths.device_plugins / "g.sock", DEVICES) as plugin,
    ):
        await plugin.register(config.paths.registration_socket)
        async with asyncio.timeout(20):
            async for _ in manager.changes():
                if (count := manager.resources().get(GOPHER)) and count.capacity == len(DEVICES):
                    break
        yield manager, plugin


def pod(uid: str, count: int = 1) -> PodRequest:
    container = ContainerRequest(ContainerName("app"), ContainerKind.APP, {GOPHER: count})
    return PodRequest(PodUid(uid), "default", uid, (container,))


def pods(data: CheckpointData) -> list[str]:
    return [entry.pod_uid for entry in data.pod_device_entries or ()]


def entry(uid: str, device: str, *, resource: str = GOPHER) -> PodDevicesEntry:
    return PodDevicesEntry(uid, "app", resource, {-1: (device,)}, b"")


def write(config: ManagerConfig, data: CheckpointData) -> None:
    """What a kubelet does."""
    config.paths.device_plugins.mkdir(parents=True, exist_ok=True)
    config.paths.checkpoint.write_bytes(encode(data))


@contextmanager
def watching_logs(name: str) -> Iterator[Callable[[str], Awaitable[None]]]:
    """A function that waits until something was logged."""
    messages: list[str] = []
    arrived = asyncio.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            arrived.set()

    async def until(text: str) -> None:
        async with asyncio.timeout(20):
            while not any(text in message for message in messages):
                arrived.clear()
                await arrived.wait()

    handler = Handler()
    logging.getLogger(name).addHandler(handler)
    try:
        yield until
    finally:
        logging.getLogger(name).removeHandler(handler)


# --- the view -------------------------------------------------------------------------------------------------------


async def test_s121_view_is_a_file_by_the_kubelets_rules(config: ManagerConfig) -> None:
    async with managed(config) as (manager, plugin):
        await manager.admit(pod("b", 2))
        data = await until_view(config, lambda data: pods(data) == ["b"])
        (held,) = data.pod_device_entries or ()
        assert (held.container_name, held.resource_name) == ("app", GOPHER)
        assert held.device_ids == {-1: ("g1",), 1: ("g2",)}
        assert decode_edits(held.alloc_resp or b"") == manager.edits(PodUid("b"), ContainerName("app")) != NO_EDITS
        assert data.registered_devices == {GOPHER: ("g1", "g2")}
        plugin.send([Device("g1", health=unhealthy("gone"))])
        await until_view(config, lambda data: data.registered_devices == {GOPHER: ()})
        await manager.release_pod(PodUid("b"))
        data = await until_view(config, lambda data: not pods(data))
        assert data.pod_device_entries is None
    assert config.paths.checkpoint.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in config.paths.device_plugins.iterdir()) == ["kubelet_internal_checkpoint"]


async def test_s123_list_that_changes_nothing_writes_the_file_again(config: ManagerConfig) -> None:
    async with managed(config) as (_, plugin):
        await until_view(config, lambda data: data.registered_devices == {GOPHER: ("g1", "g2")})
        before = identity(config.paths.checkpoint)
        plugin.send(DEVICES)
        await until_view(config, lambda _: identity(config.paths.checkpoint) != before)


async def test_devices_of_a_plugin_that_goes_leave_the_file(config: ManagerConfig) -> None:
    """A kubelet writes only with its next change."""
    async with managed(config) as (_, plugin):
        await until_view(config, lambda data: data.registered_devices == {GOPHER: ("g1", "g2")})
        plugin.end_streams()
        await until_view(config, lambda data: data.registered_devices == {GOPHER: ()})


def identity(path: Path) -> tuple[int, int]:
    """Of one writing of a file; the number alone may be that of an earlier one again."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


async def test_last_view_is_written_at_stop(config: ManagerConfig) -> None:
    async with run_manager(config, clock=ManualClock()) as manager:  # whose time stands still: no view follows
        async with fake_plugin(GOPHER, config.paths.device_plugins / "g.sock", DEVICES) as plugin:
            await plugin.register(config.paths.registration_socket)
            async for _ in manager.changes():
                if (count := manager.resources().get(GOPHER)) and count.capacity:
                    break
            await manager.admit(pod("p"))
        assert not config.paths.checkpoint.exists()
    assert pods(read(config)) == ["p"]
    assert read(config).registered_devices == {GOPHER: ()}  # its plugin was disconnected


async def test_manager_that_cannot_start_leaves_the_file(config: ManagerConfig) -> None:
    write(config, CheckpointData((entry("p", "g1"),), {GOPHER: ("g1",)}))
    before = config.paths.checkpoint.read_bytes()
    config.paths.registration_socket.mkdir()  # in the way
    with pytest.raises((PathUnusable, ExceptionGroup)):
        async with run_manager(config, clock=SystemClock()):
            pytest.fail("it started")
    assert config.paths.checkpoint.read_bytes() == before


async def test_s122_view_that_cannot_be_written_is_told_once_and_holds_nobody_up(
    config: ManagerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SleepersClock()  # no view is written but when the test lets time pass
    async with managed(config, clock) as (manager, _):
        await clock.sleep_through(DEBOUNCE_S)
        await until_view(config, lambda data: data.registered_devices == {GOPHER: ("g1", "g2")})
        config.paths.checkpoint.unlink()
        config.paths.checkpoint.mkdir()  # a rename over it fails, whoever we are
        with (
            caplog.at_level(logging.DEBUG, "plugbay.manager.checkpoint.view"),
            watching_logs("plugbay.manager.checkpoint.view") as logged,
        ):
            await manager.admit(pod("p"))
            await manager.admit(pod("q"))
            await clock.sleep_through(DEBOUNCE_S)
            await logged("cannot write")
            await clock.sleep_through(RETRY_S)
            await clock.until_asleep(RETRY_S)  # it failed once more
            config.paths.checkpoint.rmdir()
            await clock.sleep_through(RETRY_S)
            await logged("is written again")
        assert pods(read(config)) == ["p", "q"]
    assert caplog.text.count("cannot write") == 1


# --- other people's files -------------------------------------------------------------------------------------------


@asynccontextmanager
async def started(config: ManagerConfig) -> AsyncIterator[DeviceManager]:
    async with run_manager(config, clock=ManualClock()) as manager:
        yield manager


def holders(manager: DeviceManager) -> dict[str, tuple[str, ...]]:
    return {
        uid: tuple(ids for by_name in manager.devices_of(uid).values() for held in by_name.values() for ids in held)
        for uid in manager.assigned_pods()
    }


async def test_s119_kubelets_file_is_taken_over_and_given_back(config: ManagerConfig) -> None:
    kubelets = CheckpointData((entry("q", "g2"), entry("p", "g1")), {"example.com/z": ("z",), GOPHER: ("g2", "g1")})
    write(config, kubelets)
    async with started(config) as manager:
        assert holders(manager) == {"p": ("g1",), "q": ("g2",)}
        assert {name: (count.capacity, count.allocatable) for name, count in manager.resources().items()} == {
            GOPHER: (0, 0),
            "example.com/z": (0, 0),
        }
    given_back = read(config)
    assert given_back.pod_device_entries == (entry("p", "g1"), entry("q", "g2"))
    assert given_back.registered_devices == {GOPHER: (), "example.com/z": ()}


async def test_kubelets_later_file_replaces_what_the_store_holds(config: ManagerConfig) -> None:
    write(config, CheckpointData((entry("old", "g1"),), {GOPHER: ()}))
    async with started(config):
        pass
    write(config, CheckpointData((entry("new", "g1"),), {}))
    async with started(config) as manager:
        assert holders(manager) == {"new": ("g1",)}
        assert [name for name, count in manager.resources().items()] == [GOPHER]  # through its assignment
    config.paths.checkpoint.unlink()
    async with started(config) as manager:
        assert holders(manager) == {"new": ("g1",)}  # it was kept


async def test_foreign_file_is_refused_when_told_so(config: ManagerConfig) -> None:
    refusing = replace(config, on_foreign_checkpoint=ForeignCheckpoint.REFUSE)
    async with started(refusing):
        pass
    async with started(refusing):
        pass  # its own file is no foreign one
    write(config, CheckpointData((entry("p", "g1"),), {}))
    with pytest.raises(CheckpointNotOurs) as caught:
        async with started(refusing):
            pytest.fail("it started")
    assert str(config.paths.checkpoint) in str(caught.value)
    assert "--on-foreign-checkpoint import" in str(caught.value)
    assert pods(read(config)) == ["p"]


@pytest.mark.parametrize("damage", [b"", b"{", b"half of it"], ids=["empty", "cut", "garbage"])
async def test_corrupt_file_is_kept_aside_and_the_store_wins(config: ManagerConfig, damage: bytes) -> None:
    write(config, CheckpointData((entry("p", "g1"),), {GOPHER: ()}))
    async with started(config):
        pass
    config.paths.checkpoint.write_bytes(damage)
    async with started(config) as manager:
        assert holders(manager) == {"p": ("g1",)}
    assert pods(read(config)) == ["p"]
    (aside,) = config.store.parent.glob("kubelet_internal_checkpoint.corrupt-*")
    assert aside.name.endswith(".corrupt-20260101T000000Z")
    assert aside.read_bytes() == damage


async def test_missing_file_loses_nothing(config: ManagerConfig) -> None:
    write(config, CheckpointData((entry("p", "g1"),), {GOPHER: ()}))
    async with started(config):
        pass
    config.paths.checkpoint.unlink()
    async with started(config) as manager:
        assert holders(manager) == {"p": ("g1",)}
    assert pods(read(config)) == ["p"]


async def test_file_that_cannot_be_read_stops_the_start(config: ManagerConfig) -> None:
    """It may be a kubelet's, whose pods run."""
    config.paths.checkpoint.parent.mkdir(parents=True)
    config.paths.checkpoint.symlink_to(config.paths.checkpoint)
    with pytest.raises(PathUnusable, match="cannot be read: Too many levels of symbolic links"):
        async with started(config):
            pytest.fail("it started")


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "link"])
async def test_what_is_not_a_file_is_moved_away(
    config: ManagerConfig, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = config.paths.checkpoint
    write(config, CheckpointData((entry("p", "g1"),), {GOPHER: ()}))
    async with started(config):
        pass
    path.unlink()
    match kind:
        case "directory":
            (path / "inside").mkdir(parents=True)
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
                listening.bind(str(path))
        case "link":
            path.symlink_to(path.parent)
    async with started(config) as manager:
        assert holders(manager) == {"p": ("g1",)}
    assert pods(read(config)) == ["p"]
    (aside,) = config.store.parent.glob("kubelet_internal_checkpoint.corrupt-*")
    assert f"{path} is not a file; it was moved to {aside}, and the store's state counts" in caplog.messages


async def test_older_view_of_ours_does_not_undo_later_admissions(config: ManagerConfig) -> None:
    """A crash after a commit leaves the view of before; one after its checksum was noted, too."""
    write(config, CheckpointData((entry("p", "g1"),), {GOPHER: ()}))
    async with started(config):
        pass
    later = HeldDevices(PodUid("q"), ContainerName("app"), GOPHER, {-1: (DeviceId("g2"),)}, b"")
    async with open_store(config.store) as store:
        known = store.load().view_checksums
        await store.commit([SaveAssignments((later,)), SaveViewChecksums(known | {1})])
    assert pods(read(config)) == ["p"]
    async with started(config) as manager:
        assert holders(manager) == {"p": ("g1",), "q": ("g2",)}
    assert pods(read(config)) == ["p", "q"]


# --- crashes --------------------------------------------------------------------------------------------------------

WRITE_VIEWS = """
import asyncio, sys
from pathlib import Path
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.checkpoint.rendering import Holdings
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import SaveAssignments
from plugbay.manager.store.store import open_store
from plugbay.manager.checkpoint.view import CheckpointView
from plugbay.ops.clock import SystemClock

async def main(root):
    paths = KubeletPaths(root)
    async with open_store(root / "state" / "manager.db") as store:
        held = []
        view = CheckpointView(
            paths.checkpoint,
            store=store,
            clock=SystemClock(),
            holdings=lambda: Holdings(held, {}),
            known=store.load().view_checksums,
        )
        while True:
            item = HeldDevices(f"pod-{len(held):05}", "app", "example.com/gopher", {-1: (f"g{len(held)}",)}, b"")
            await store.commit([SaveAssignments((item,))])
            held.append(item)
            assert await view.write()
            print(len(held), flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("after", [1, 2, 5, 17])
async def test_kill_while_views_are_written_leaves_a_whole_one_of_ours(config: ManagerConfig, after: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITE_VIEWS, str(config.paths.root), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            confirmed = [int(await process.stdout.readline()) for _ in range(after)][-1]
    finally:
        process.send_signal(signal.SIGKILL)
        await process.communicate()
    view = read(config)
    assert len(view.pod_device_entries or ()) >= confirmed
    refusing = replace(config, on_foreign_checkpoint=ForeignCheckpoint.REFUSE)
    async with started(refusing) as manager:  # whatever the moment, the file is known to be ours
        assert set(pods(view)) <= manager.assigned_pods()
    assert set(pods(read(config))) == manager.assigned_pods()


async def test_what_a_killed_writer_left_goes_at_the_next_start(config: ManagerConfig) -> None:
    left = [directory / ".x.0123456789ab.tmp" for directory in (config.paths.checkpoint.parent, config.store.parent)]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    async with started(config):
        assert not any(path.exists() for path in left)


def test_half_a_file_of_ours_is_corrupt(config: ManagerConfig) -> None:
    content = encode(CheckpointData((entry("p", "g1"),), {}))
    for size in range(len(content)):
        with pytest.raises(CorruptCheckpoint):
            load(content[:size], source="half")


async def test_what_a_refused_pod_was_given_meanwhile_leaves_the_view(config: ManagerConfig) -> None:
    """Its second container's Allocate is refused: whoever writes views is told to write another."""
    entered, refusing = asyncio.Event(), asyncio.Event()
    async with managed(config) as (manager, plugin), asyncio.TaskGroup() as tasks:
        give = plugin.allocate_answer

        async def allocate(devices: Sequence[DeviceId]) -> ContainerEdits | None:
            if len(plugin.allocated) == 1:
                return await give(devices)
            entered.set()
            await refusing.wait()
            raise RpcFailed(RpcCode.INTERNAL, "broken")

        async def refused() -> None:
            with pytest.raises(AllocateFailed):
                await manager.admit(two_containers)

        plugin.allocate_answer = allocate
        [first] = pod("p").containers
        two_containers = replace(pod("p"), containers=(first, replace(first, name=ContainerName("second"))))
        refusal = tasks.create_task(refused())
        await entered.wait()
        assert [each.pod for each in manager.holdings().assignments] == ["p"]
        changes = manager.changes()
        await anext(changes)  # one comes at once
        refusing.set()
        await refusal
        assert list(manager.holdings().assignments) == []
        async with asyncio.timeout(10):
            await anext(changes)
