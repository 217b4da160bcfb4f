"""File systems in memory: mounted, taken away, and nothing else with them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from plugbay.kernel.tmpfs import mount_tmpfs, unmount_all

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def mount(directory: Path) -> None:
    try:
        mount_tmpfs(directory, mode=0o1777, size_bytes=2**20)
    except PermissionError as error:
        pytest.skip(str(error))


def test_memory_has_its_mode_and_size_and_goes_with_its_directory(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "shm"
    for _ in range(2):  # somebody may mount another one on top
        mount(directory)
    found = os.statvfs(directory)
    assert (found.f_blocks * found.f_frsize, directory.stat().st_mode & 0o7777) == (2**20, 0o1777)
    (directory / "file").write_text("gone soon")
    unmount_all(directory)
    assert not directory.exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    unmount_all(directory)


def test_files_of_the_disk_stay(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    (tmp_path / "shm" / "file").touch()
    with pytest.raises(OSError, match="not empty") as caught:
        unmount_all(tmp_path / "shm")
    assert caught.value.errno == errno.ENOTEMPTY
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(OSError, match="Not a directory"):
        unmount_all(tmp_path / "link")
