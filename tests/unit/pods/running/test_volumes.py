from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable, VolumeUnusable
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import (
    Container,
    EmptyDir,
    HostPath,
    HostPathType,
    Pod,
    PodSpec,
    Volume,
)
from plugbay.model.projections import ConfigKind, KeyFiles, Projection, ProjectionKind
from plugbay.model.security import Security
from plugbay.pods.running.projecting import ProjectedFile, VolumeFiles
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes

UID = PodUid("u")


def pod(source: HostPath | EmptyDir | Projection) -> Pod:
    return Pod("p", PodSpec((Container(ContainerName("c")),), volumes=(Volume("v", source),)), uid=UID)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_other_users_reach_no_volume_under_any_umask(tmp_path: Path, umask: int) -> None:
    pods = tmp_path / "pods"
    volumes = Volumes(pods, SubPathMeans.OPEN)
    path = volumes.prepare(pod(EmptyDir()))["v"]
    assert path.stat().st_mode & 0o7777 == 0o777, "any user of a container may write there"
    assert [each.stat().st_mode & 0o027 for each in (pods, pods / UID)] == [0, 0]


def test_a_directory_of_pods_that_was_open_is_closed(tmp_path: Path) -> None:
    pods = tmp_path / "pods"
    pods.mkdir(mode=0o755)
    Volumes(pods, SubPathMeans.OPEN).prepare(pod(EmptyDir()))
    assert pods.stat().st_mode & 0o777 == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's directory")
def test_a_volume_that_cannot_be_deleted_is_told(sockets: Path) -> None:
    volumes = Volumes(sockets, SubPathMeans.OPEN)
    (volumes.prepare(pod(EmptyDir()))["v"] / "file").touch()
    for each in (sockets, sockets / UID):
        each.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(PathUnusable, match=f"^{sockets / UID}: cannot be deleted: .*: Operation not permitted"):
            volumes.remove(UID)
    finally:
        os.seteuid(0)
    volumes.remove(UID)
    assert list(sockets.iterdir()) == []


def test_an_empty_dir_keeps_its_content_until_it_is_removed(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path, SubPathMeans.OPEN)
    path = volumes.prepare(pod(EmptyDir()))["v"]
    (path / "file").write_text("kept")
    assert (volumes.prepare(pod(EmptyDir()))["v"] / "file").read_text() == "kept"
    volumes.remove(UID)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "source",
    [
        EmptyDir(),
        pytest.param(
            EmptyDir(in_memory=True),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts"),
            id="memory",
        ),
    ],
)
def test_an_empty_dir_that_a_container_has_closed_stays_closed(tmp_path: Path, source: EmptyDir) -> None:
    """A database refuses a directory that others may enter."""
    volumes = Volumes(tmp_path, SubPathMeans.OPEN)
    spec = PodSpec((), volumes=(Volume("v", source),), security=Security(fs_group=os.getgid()))
    given = Pod("p", spec, uid=UID)
    path = volumes.prepare(given)["v"]
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (0o2777, os.getgid())
    path.chmod(0o700)
    assert volumes.prepare(given) == {"v": path}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    volumes.remove(UID)


def test_files_are_renewed_whatever_became_of_other_volumes(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    files_of = Projection(ProjectionKind.CONFIG_MAP, (KeyFiles(ConfigKind.CONFIG_MAP, "m"),))
    both = (Volume("h", HostPath(str(host), HostPathType.DIRECTORY)), Volume("v", files_of))
    given = Pod("p", PodSpec((), volumes=both), uid=UID)
    volumes = Volumes(tmp_path / "pods", SubPathMeans.NAMED)

    def files(content: bytes) -> VolumeFiles:
        return VolumeFiles({"v": {"k": ProjectedFile(content, 0o644)}}, datetime.now(UTC))

    path = volumes.prepare(given, files(b"old"))["v"]
    host.rmdir()
    volumes.renew(given, files(b"new"))
    assert (path / "k").read_text() == "new"


@pytest.mark.parametrize(
    ("kind", "noun"),
    [
        (HostPathType.DIRECTORY, "directory"),
        (HostPathType.FILE, "file"),
        (HostPathType.SOCKET, "socket file"),
        (HostPathType.CHAR_DEVICE, "character device"),
        (HostPathType.BLOCK_DEVICE, "block device"),
    ],
)
def test_a_host_path_must_be_what_it_is_said_to_be(tmp_path: Path, kind: HostPathType, noun: str) -> None:
    path = tmp_path / "missing"
    with pytest.raises(VolumeUnusable, match=f"hostPath type check failed: {path} is not a {noun}"):
        Volumes(tmp_path, SubPathMeans.OPEN).prepare(pod(HostPath(str(path), kind)))


@pytest.mark.parametrize(
    ("kind", "is_file"),
    [
        (HostPathType.DIRECTORY, True),
        (HostPathType.DIRECTORY_OR_CREATE, True),
        (HostPathType.FILE, False),
        (HostPathType.FILE_OR_CREATE, False),
        (HostPathType.SOCKET, True),
        (HostPathType.CHAR_DEVICE, True),
        (HostPathType.BLOCK_DEVICE, True),
    ],
)
def test_a_host_path_of_another_kind_is_refused(tmp_path: Path, kind: HostPathType, is_file: bool) -> None:
    path = tmp_path / "there"
    if is_file:
        path.touch()
    else:
        path.mkdir()
    with pytest.raises(VolumeUnusable, match="hostPath type check failed"):
        Volumes(tmp_path, SubPathMeans.OPEN).prepare(pod(HostPath(str(path), kind)))


def test_host_paths_of_every_kind_are_found(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "file").touch()
        for path, kind in (
            (tmp_path / "socket", HostPathType.SOCKET),
            (tmp_path / "file", HostPathType.FILE),
            (tmp_path, HostPathType.DIRECTORY),
            (Path("/dev/null"), HostPathType.CHAR_DEVICE),
            (tmp_path / "nothing", HostPathType.UNCHECKED),
        ):
            assert Volumes(tmp_path, SubPathMeans.OPEN).prepare(pod(HostPath(str(path), kind))) == {"v": path}


def test_or_create_makes_what_is_missing(tmp_path: Path) -> None:
    Volumes(tmp_path, SubPathMeans.OPEN).prepare(pod(HostPath(str(tmp_path / "a/b"), HostPathType.DIRECTORY_OR_CREATE)))
    Volumes(tmp_path, SubPathMeans.OPEN).prepare(pod(HostPath(str(tmp_path / "a/f"), HostPathType.FILE_OR_CREATE)))
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "a/f").is_file()


def test_a_secret_lies_in_a_closed_directory_where_containers_would_not_see_a_mount(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "pods", SubPathMeans.NAMED)
    source = Projection(ProjectionKind.SECRET, (KeyFiles(ConfigKind.SECRET, "key"),))
    files = VolumeFiles({"v": {"k": ProjectedFile(b"s3cret", 0o400)}}, datetime.now(UTC))
    path = volumes.prepare(pod(source), files)["v"]
    assert (path / "k").read_text() == "s3cret"
    assert not path.is_mount()
    assert [each.stat().st_mode & 0o027 for each in (tmp_path / "pods", tmp_path / "pods" / UID)] == [0, 0]
    volumes.remove(UID)
    assert list((tmp_path / "pods").iterdir()) == []


def test_memory_is_refused_where_containers_would_not_see_it(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "pods", SubPathMeans.NAMED)
    with pytest.raises(
        VolumeUnusable, match="needs a node with root rights, and an engine that sees the node's mounts"
    ):
        volumes.prepare(pod(EmptyDir(in_memory=True)))
