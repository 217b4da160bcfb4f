from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest

from plugbay.errors import InvalidResourceName, PathUnusable, UsageError
from plugbay.plugins.directory.plugin import DirectoryPlugin


def devices(path: Path) -> dict[str, object]:
    found = DirectoryPlugin("example.com/gopher", path, env="Gopher").discover()
    return {device.id: device.edits.env for device in found}


def test_regular_files_are_devices_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("g2", "g1", "g10"):
        (tmp_path / name).touch()
    assert list(devices(tmp_path).items()) == [(name, {"Gopher": name}) for name in ("g1", "g10", "g2")]


def test_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
    assert devices(tmp_path) == {}


def test_link_to_a_file_is_a_device(tmp_path: Path) -> None:
    (tmp_path / ".data").touch()
    (tmp_path / "g1").symlink_to(".data")
    assert list(devices(tmp_path)) == ["g1"]


def test_name_too_long_for_an_id_is_skipped_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ("x" * 64)).touch()
    (tmp_path / ("y" * 63)).touch()
    plugin = DirectoryPlugin("example.com/gopher", tmp_path, env="Gopher")
    for _ in range(2):
        assert [device.id for device in plugin.discover()] == ["y" * 63]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "has 64 bytes; the device plugin API allows 63" in warnings[0]


def test_a_name_with_a_newline_stays_within_its_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "g\n1").touch()
    assert devices(tmp_path) == {}
    problem = "device ID 'g\\n1' holds control characters"
    assert caplog.messages == [f"{tmp_path} holds a file that is not a device: {problem}"]


def test_a_path_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PathUnusable, match=f"{tmp_path}/file: cannot be listed: Not a directory"):
        devices(tmp_path / "file")


def test_missing_directory_is_for_the_caller_to_judge(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        devices(tmp_path / "absent")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidResourceName):
        DirectoryPlugin("gopher", Path("/x"), env="Gopher")
    with pytest.raises(UsageError, match="env: 'A=B'"):
        DirectoryPlugin("example.com/gopher", Path("/x"), env="A=B")
