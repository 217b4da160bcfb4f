"""Parts of volumes, with pods that exchange them for symbolic links at the worst moment."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import PathUnusable, VolumeUnusable
from plugbay.kernel.mounts import bind, unmount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, EmptyDir, HostPath, Pod, PodSpec, Volume, VolumeMount
from plugbay.model.requests import ContainerKind
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes

UID = PodUid("u")
RENAME_EXCHANGE = 2
AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
BOTH = [pytest.param(SubPathMeans.BOUND, marks=[pytest.mark.root, needs_root]), SubPathMeans.OPEN]


def container(name: str, sub_path: str = "", *, read_only: bool = False, kind: Any = ContainerKind.APP) -> Container:
    mount = VolumeMount("v", "/in", read_only, sub_path)
    return Container(ContainerName(name), volume_mounts=(mount,), kind=kind)


def pod(*containers: Container, host_path: Path | None = None) -> Pod:
    source = EmptyDir() if host_path is None else HostPath(str(host_path))
    init = tuple(each for each in containers if each.kind is not ContainerKind.APP)
    apps = tuple(each for each in containers if each.kind is ContainerKind.APP)
    return Pod("p", PodSpec(apps, init_containers=init, volumes=(Volume("v", source),)), uid=UID)


class World:
    """A pod's volume, a directory of the host beside it, and what containers are given."""

    def __init__(self, root: Path, means: SubPathMeans) -> None:
        self.pods = root / "pods"
        self.volumes = Volumes(self.pods, means)
        self.inside = self.volumes.prepare(pod(container("c")))["v"]
        self.host = root / "host"
        self.host.mkdir()
        (self.host / "secret").touch()

    def place(self, sub_path: str, given: Pod | None = None) -> Path:
        given = given or pod(container("c", sub_path))
        (mount,) = self.volumes.mounts(given, given.spec.containers[-1], {"v": self.inside})
        return Path(mount.host_path)

    def mounted(self) -> list[str]:
        return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.pods) in line]


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, getattr(request, "param", SubPathMeans.BOUND))
    yield made
    made.volumes.remove(UID)
    assert made.mounted() == []
    assert list(made.pods.iterdir()) == []
    assert (made.host / "secret").exists(), "nothing of the host is deleted with a pod"


def exchange(one: Path, other: Path) -> None:
    arguments = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    assert _libc.renameat2(*arguments) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def exchanging(one: Path, other: Path) -> Iterator[Callable[[], int]]:
    """Exchange two entries of a directory as fast as possible; the block can ask how often that was done."""
    ended, turns = threading.Event(), [0]

    def run() -> None:
        while not ended.is_set():
            exchange(one, other)
            turns[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: turns[0]
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("world", BOTH, indirect=True)
def test_missing_part_is_made_with_the_mode_of_its_volume(world: World) -> None:
    before = os.umask(0o077)
    try:
        place = world.place("x/y")
    finally:
        os.umask(before)
    assert os.path.samefile(place, world.inside / "x/y")
    assert [each.stat().st_mode & 0o777 for each in (world.inside / "x", place)] == [0o777, 0o777]


@pytest.mark.parametrize("world", BOTH, indirect=True)
def test_part_may_be_a_file(world: World) -> None:
    (world.inside / "file").write_text("content")
    assert world.place("file").read_text() == "content"


@pytest.mark.parametrize("world", BOTH, indirect=True)
def test_link_that_stays_in_the_volume_counts(world: World) -> None:
    (world.inside / "real").mkdir()
    (world.inside / "link").symlink_to("real")
    assert os.path.samefile(world.place("link/x"), world.inside / "real/x")


@pytest.mark.parametrize("world", BOTH, indirect=True)
@pytest.mark.parametrize("target", ["../../../../../host", "{host}"], ids=["relative", "absolute"])
def test_link_may_not_lead_out(world: World, target: str) -> None:
    (world.inside / "link").symlink_to(target.format(host=world.host))
    with pytest.raises(VolumeUnusable, match="subPath link/x leads out of the volume"):
        world.place("link/x")
    assert not (world.host / "x").exists()


@pytest.mark.parametrize("world", BOTH, indirect=True)
@pytest.mark.parametrize("sub_path", ["sub", "sub/made"])
def test_part_that_becomes_a_link_once_it_was_looked_at_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, sub_path: str
) -> None:
    (world.inside / "sub").mkdir()
    (world.inside / "evil").symlink_to(world.host)
    look = os.path.realpath

    def look_and_exchange(path: Path) -> str:
        found = look(path)
        if "sub" in str(path):
            exchange(world.inside / "sub", world.inside / "evil")
        return found

    monkeypatch.setattr("plugbay.pods.running.sub_paths.os.path.realpath", look_and_exchange)
    with pytest.raises(VolumeUnusable, match="symbolic link"):
        world.place(sub_path)
    assert [each.name for each in world.host.iterdir()] == ["secret"]


@pytest.mark.root
@needs_root
def test_what_is_handed_on_stays_what_was_found(world: World) -> None:
    (world.inside / "sub").mkdir()
    (world.inside / "evil").symlink_to(world.host)
    place = world.place("sub")
    exchange(world.inside / "sub", world.inside / "evil")
    assert not place.is_relative_to(world.inside), "containers cannot rename anything on the way to it"
    assert os.path.samefile(place, world.inside / "evil")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("world", BOTH, indirect=True)
def test_race_never_gives_a_directory_of_the_host(world: World) -> None:
    """As in the attack: a container exchanges a directory and a link while others start."""
    (world.inside / "sub").mkdir()
    (world.inside / "evil").symlink_to(world.host)
    given = refused = 0
    with exchanging(world.inside / "sub", world.inside / "evil") as turns:
        while turns() < 200 or given + refused < 200:
            try:
                place = world.place("sub/made")
            except VolumeUnusable:
                refused += 1
                continue
            given += 1
            if place.is_relative_to(world.pods / UID / "volume-subpaths"):
                assert not (place / "secret").exists()
                assert not os.path.samefile(place, world.host)
    assert [each.name for each in world.host.iterdir()] == ["secret"], (given, refused)


@pytest.mark.root
@needs_root
def test_next_start_of_a_container_finds_the_part_anew(world: World) -> None:
    first = world.place("sub")
    (world.inside / "sub").rename(world.inside / "old")
    (world.inside / "sub").write_text("a file now")
    assert world.place("sub").read_text() == "a file now"
    assert world.place("old").is_dir()
    assert len(world.mounted()) == 1, first


@pytest.mark.root
@needs_root
def test_pod_that_is_removed_takes_nothing_of_the_host_along(world: World) -> None:
    """Also what a killed node has mounted: its successor knows the directory only."""
    given = pod(container("c", "deep"), host_path=world.host)
    (world.host / "deep").mkdir()
    (world.host / "deep/kept").touch()
    (mount,) = world.volumes.mounts(given, given.spec.containers[0], {"v": world.host})
    assert (Path(mount.host_path) / "kept").exists()
    Volumes(world.pods, SubPathMeans.BOUND).remove(UID)
    assert world.mounted() == []
    assert (world.host / "deep/kept").exists()


@pytest.mark.root
@needs_root
def test_nothing_is_deleted_while_a_part_stays_mounted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    given = pod(container("c", "."), host_path=world.host)
    world.volumes.mounts(given, given.spec.containers[0], {"v": world.host})
    with monkeypatch.context() as patch:
        patch.setattr("plugbay.pods.running.sub_paths.unmount", lambda place: None)
        with pytest.raises(PathUnusable, match="cannot unmount "):
            world.volumes.remove(UID)
    assert (world.host / "secret").exists()


# --- without root rights -------------------------------------------------------------------------------------------


@pytest.fixture
def named(tmp_path: Path) -> World:
    return World(tmp_path, SubPathMeans.NAMED)


@pytest.mark.parametrize("kind", [ContainerKind.APP, ContainerKind.SIDECAR])
def test_without_root_a_part_that_another_container_may_exchange_is_refused(named: World, kind: ContainerKind) -> None:
    given = pod(container("writer", kind=kind), container("c", "sub"))
    with pytest.raises(VolumeUnusable, match="container writer may write to this volume; mount it there with readOnly"):
        named.place("sub", given)
    assert not (named.inside / "sub").exists()


@pytest.mark.parametrize(
    "other", [container("reader", read_only=True), container("before", kind=ContainerKind.INIT)], ids=["reader", "init"]
)
def test_without_root_a_part_that_nothing_can_exchange_is_given(named: World, other: Container) -> None:
    assert named.place("sub", pod(other, container("c", "sub"))) == named.inside / "sub"


def test_without_root_a_part_of_a_host_path_is_refused(named: World) -> None:
    with pytest.raises(VolumeUnusable, match="give that directory of the host as a hostPath of its own"):
        named.place("sub", pod(container("c", "sub"), host_path=named.host))


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("times", [1, 2, 3])
def test_directory_that_cannot_be_listed_keeps_all_there_is(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a descriptor to look with, nothing is known of what is mounted: nothing of the host may be deleted."""
    host = tmp_path / "host"
    (host / "part/below").mkdir(parents=True)
    (host / "part/file").touch()
    volumes = Volumes(tmp_path / "pods", SubPathMeans.BOUND)
    given = pod(container("c", "part"), host_path=host)
    volumes.mounts(given, given.spec.containers[0], volumes.prepare(given))
    listing, left = Path.iterdir, times

    def iterdir(path: Path) -> Iterator[Path]:
        nonlocal left
        if "volume-subpaths" in str(path) and (left := left - 1) == 0:
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return listing(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", iterdir)
        with pytest.raises(PathUnusable, match="Too many open files"):
            volumes.remove(UID)
    assert sorted(each.name for each in (host / "part").iterdir()) == ["below", "file"]
    volumes.remove(UID)
    assert sorted(each.name for each in (host / "part").iterdir()) == ["below", "file"]
    assert not (tmp_path / "pods" / UID).exists()


@pytest.mark.root
@needs_root
def test_nothing_is_deleted_below_a_mount_that_is_not_ours(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "pods", SubPathMeans.BOUND)
    inside = volumes.prepare(pod(container("c")))["v"]
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").touch()
    (inside / "m").mkdir()
    descriptor = os.open(tmp_path / "host", os.O_PATH)
    try:
        bind(descriptor, inside / "m")
        with pytest.raises(PathUnusable, match="is mounted there; unmount it"):
            volumes.remove(UID)
    finally:
        os.close(descriptor)
        unmount(inside / "m")
    assert (tmp_path / "host/file").exists()
    volumes.remove(UID)
    assert not (tmp_path / "pods" / UID).exists()


def test_unmounting_what_is_not_mounted_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for each in ("file", "missing", "."):
        unmount(tmp_path / each)
