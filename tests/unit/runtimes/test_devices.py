"""Host paths of devices: the words of an engine, and directories of any size."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import DeviceNode
from plugbay.runtimes.devices import FoundDevice, find_devices

NULL = os.stat("/dev/null").st_rdev


def found(*nodes: DeviceNode) -> list[FoundDevice]:
    return find_devices(nodes, is_given_up=lambda: False)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("", "no such file or directory", id="empty"),
        pytest.param("null", "no such file or directory", id="relative"),
        pytest.param(".", "no such file or directory", id="the-directory-that-the-node-is-in"),
        pytest.param("/dev/nu\0ll", "invalid argument", id="nul"),
    ],
)
def test_path_that_is_nowhere_on_the_host_is_refused(path: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/dev")
    with pytest.raises(ContainerStartError) as caught:
        found(DeviceNode(path, container_path="/dev/x"))
    assert caught.value.reason == "CreateContainerError"
    assert str(caught.value) == f"failed to generate container spec: lstat {path}: {problem}"


def test_device_without_a_path_in_the_container_keeps_the_hosts(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    (device,) = found(DeviceNode(tmp_path / "link", container_path=""))
    assert (device.path, device.host_path, os.makedev(device.major, device.minor)) == ("/dev/null", "/dev/null", NULL)


@pytest.mark.parametrize(("place", "inside"), [("/dev/all/", "/dev/all"), ("", None)])
def test_directory_stands_for_the_devices_below_it(tmp_path: Path, place: str, inside: str | None) -> None:
    for name in ("b/x", "b/console", "a", "pts/0", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        make_null(tmp_path / name)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "fifo")
    expected = [f"{tmp_path if inside is None else inside}/{name}" for name in ("a", "b/x", "c")]
    assert [each.path for each in found(DeviceNode(tmp_path, container_path=place))] == expected


def make_null(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, NULL)
    except PermissionError:
        pytest.skip("needs root")


def test_directories_may_be_deeper_than_calls(tmp_path: Path) -> None:
    Path(f"{tmp_path}{'/d' * 150}").mkdir(parents=True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert found(DeviceNode(tmp_path)) == []
    finally:
        sys.setrecursionlimit(limit)


def test_search_ends_when_it_is_given_up(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    asked: Iterator[int] = count()
    with pytest.raises(ContainerStartError):
        find_devices([DeviceNode(tmp_path)], is_given_up=lambda: next(asked) == 3)
    assert next(asked) == 4
