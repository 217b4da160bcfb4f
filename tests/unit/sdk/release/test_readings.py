"""Readings of a kubelet's checkpoint, from files that say more, less or other things than they should."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.errors import CheckpointUnread
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.evidence import readings
from plugbay.sdk.release.evidence.readings import Readings
from plugbay.sdk.release.uses import KubeletLife
from plugbay.sdk.watching import watching

GOPHER = ResourceName("example.com/gopher")
HELD = CheckpointData(
    [
        PodDevicesEntry("p", "app", GOPHER, {-1: ["a"], 0: ["b"]}, b""),
        PodDevicesEntry("p", "side", GOPHER, {0: ["b"]}, b""),
        PodDevicesEntry("q", "app", "example.com/other", {0: ["a"]}, b""),
        PodDevicesEntry("q", "none", GOPHER, None, None),
    ],
    {GOPHER: ["a", "b"]},
)
HOLDERS = {"a": {("p", "app")}, "b": {("p", "app"), ("p", "side")}}
NOBODYS = CheckpointData(None, {GOPHER: []})


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "DEADLINE_S", 20.0)


@pytest.fixture
def paths(tmp_path: Path) -> KubeletPaths:
    made = KubeletPaths(tmp_path)
    made.device_plugins.mkdir()
    made.registration_socket.touch()
    return made


def put(path: Path, content: bytes) -> None:
    """As a kubelet writes its checkpoint."""
    fresh = path.with_name(".fresh")
    fresh.write_bytes(content)
    fresh.rename(path)


@asynccontextmanager
async def reader(paths: KubeletPaths, answer: Callable[[], object]) -> AsyncIterator[Readings]:
    """Readings of a kubelet that answers a list so; it has been met."""

    def resend() -> int:
        answer()
        return 1

    async with watching() as watches:
        made = Readings(paths, GOPHER, watches, resend=resend)
        await made.meet(known_to=())
        yield made


async def test_who_holds_what(paths: KubeletPaths) -> None:
    async with reader(paths, lambda: put(paths.checkpoint, encode(HELD))) as reads:
        reading = await reads.read()
        assert reading.listed == HOLDERS
        assert reading.life is reads.life
        assert reads.life is not None
        found = reads.on_disk(at=1.0)
        assert found.listed == HOLDERS
        assert found.life.id == reads.life.id
        paths.registration_socket.unlink()
        assert reads.on_disk(at=1.0).life.id == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(encode(HELD).replace(b"side", b"sid3"), "is corrupted: checksum is", id="checksum"),
        pytest.param(b"", "empty", id="empty"),
        pytest.param(encode(HELD)[:-40], "is corrupted", id="torn"),
        pytest.param(b"{}" * 2, "is corrupted", id="more-than-one"),
        pytest.param(
            encode(CheckpointData(HELD.pod_device_entries, {"example.com/other": ["a"]})),
            "it does not name example.com/gopher, so another kubelet may have written it",
            id="of-others",
        ),
        pytest.param(encode(CheckpointData(None, None)), "it does not name example.com/gopher", id="null"),
    ],
)
async def test_file_that_tells_nothing(paths: KubeletPaths, content: bytes, problem: str) -> None:
    async with reader(paths, lambda: put(paths.checkpoint, content)) as reads:
        with pytest.raises(CheckpointUnread, match=problem):
            await reads.read()


async def test_checkpoint_that_is_a_directory(paths: KubeletPaths) -> None:
    async with reader(paths, paths.checkpoint.mkdir) as reads:
        with pytest.raises(CheckpointUnread, match="kubelet_internal_checkpoint: Is a directory"):
            await reads.read()
        assert reads.on_disk(at=1.0).listed == {}


async def test_only_a_file_that_came_after_the_question_counts(
    paths: KubeletPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "DEADLINE_S", 0.05)
    put(paths.checkpoint, encode(NOBODYS))
    async with reader(paths, lambda: None) as reads:
        with pytest.raises(CheckpointUnread, match=r"was not written within 0\.05 s of sending it our list"):
            await reads.read()
        assert reads.on_disk(at=1.0).listed == {}


async def test_checkpoint_that_is_removed_is_not_one_that_was_written(
    paths: KubeletPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "DEADLINE_S", 0.05)
    put(paths.checkpoint, encode(NOBODYS))
    async with reader(paths, paths.checkpoint.unlink) as reads:
        with pytest.raises(CheckpointUnread, match="was not written within"):
            await reads.read()


async def test_nobody_to_ask(paths: KubeletPaths) -> None:
    async with watching() as watches:
        reads = Readings(paths, GOPHER, watches, resend=lambda: 0)
        with pytest.raises(CheckpointUnread, match="has just restarted"):  # not met yet
            await reads.read()
        await reads.meet(known_to=())
        with pytest.raises(CheckpointUnread, match="no kubelet reads our list"):
            await reads.read()
        paths.registration_socket.unlink()
        with pytest.raises(CheckpointUnread, match=r"there is no .*kubelet\.sock"):
            await reads.meet(known_to=())
        with pytest.raises(CheckpointUnread, match=r"there is no .*kubelet\.sock"):
            await reads.read()


async def test_kubelet_that_restarts_during_a_reading(paths: KubeletPaths) -> None:
    def restart() -> None:
        restarted(paths)
        put(paths.checkpoint, encode(NOBODYS))

    async with reader(paths, restart) as reads:
        before = reads.life
        with pytest.raises(CheckpointUnread, match="the kubelet has just restarted"):
            await reads.read()
        life = await reads.meet(known_to=())
        assert before is not None
        assert life.id != before.id
        assert life.since >= before.since
        assert await reads.meet(known_to=[before.id]) is life


def restarted(paths: KubeletPaths) -> None:
    """A new kubelet has made its socket anew; the checkpoint's inode is not to be taken for the old socket's."""
    fresh = paths.registration_socket.with_name("fresh.sock")
    fresh.touch()
    fresh.rename(paths.registration_socket)


@pytest.mark.parametrize(
    ("content", "age_s", "known_to", "heir_of"),
    [
        pytest.param(encode(HELD), 60, {"2"}, {"2"}, id="from-before"),
        pytest.param(encode(HELD), 60, {"1", "2"}, {"1", "2"}, id="and-that-one-was-an-heir-too"),
        pytest.param(encode(HELD), 60, {"0"}, set(), id="nothing-known-to-these-lives"),
        pytest.param(encode(HELD), 60, set(), set(), id="nobody-to-be-sure-about"),
        pytest.param(encode(HELD), -60, {"2"}, set(), id="its-own"),
        pytest.param(encode(HELD)[:-9], 60, {"2"}, set(), id="corrupt"),
        pytest.param(None, 60, {"2"}, set(), id="lost"),
    ],
)
async def test_new_kubelet_has_read_the_file_of_the_one_before(
    paths: KubeletPaths, content: bytes | None, age_s: int, known_to: set[str], heir_of: set[str]
) -> None:
    """A file older than its socket: whatever this kubelet writes is newer."""
    if content is not None:
        put(paths.checkpoint, content)
        written_ns = paths.registration_socket.stat().st_ctime_ns - age_s * 10**9
        os.utime(paths.checkpoint, ns=(written_ns, written_ns))
    async with watching() as watches:
        reads = Readings(paths, GOPHER, watches, resend=lambda: 0)
        reads.life = KubeletLife("2", 0.0, frozenset({"1"}))
        life = await reads.meet(known_to=known_to)
        assert life.heir_of == heir_of


@pytest.mark.parametrize(
    ("there", "asked", "gone"),
    [
        pytest.param(["p", "q"], ["p", "q"], [], id="both-there"),
        pytest.param(["q"], ["p", "q"], ["p"], id="one-gone"),
        pytest.param([], ["p"], [], id="of-nobody-so-they-may-not-be-visible"),
        pytest.param(None, ["p"], [], id="no-directory"),
        pytest.param(["q"], ["../pods/x", ""], [], id="no-uid"),
    ],
)
async def test_pod_without_a_directory_is_gone(
    paths: KubeletPaths, there: list[str] | None, asked: list[str], gone: list[str]
) -> None:
    for uid in there or ():
        (paths.root / "pods" / uid).mkdir(parents=True)
    if there == []:
        (paths.root / "pods").mkdir()
    async with reader(paths, lambda: put(paths.checkpoint, encode(NOBODYS))) as reads:
        reading = await reads.read([PodUid(uid) for uid in asked])
        assert reading.gone == set(gone)


def test_holders_of_one_device_are_told_apart() -> None:
    assert readings.holders(HELD, GOPHER)[DeviceId("b")] == {
        (PodUid("p"), ContainerName("app")),
        (PodUid("p"), ContainerName("side")),
    }
