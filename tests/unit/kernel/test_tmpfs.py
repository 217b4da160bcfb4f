"""File systems in memory: mounted, taken away, and nothing else with them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
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


UNMOUNTS = """
import sys
from pathlib import Path
from plugbay.kernel.tmpfs import unmount_all

unmount_all(Path(sys.argv[1]))
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_mounted_takes_no_rights(tmp_path: Path, *, is_there: bool) -> None:
    directory = tmp_path / "shm"
    if is_there:
        directory.mkdir()
    without = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    if subprocess.run([*without, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("no rights can be given up here")
    said = subprocess.run([*without, sys.executable, "-c", UNMOUNTS, directory], stderr=subprocess.PIPE, check=False)
    assert (said.returncode, said.stderr) == (0, b"")
    assert not directory.exists()
