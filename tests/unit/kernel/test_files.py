from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from plugbay.errors import LockHeld
from plugbay.kernel.files import FileLock, read_bytes, remove_unfinished, sync_directory, write_durably

HOLD_LOCK = """
import sys
from pathlib import Path
from plugbay.kernel.files import FileLock
with FileLock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_content_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old and longer")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["checkpoint"]


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from plugbay.kernel import files
files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files.write_durably(Path(sys.argv[1]), b"unfinished")
"""


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kubelet_internal_checkpoint"
    write_durably(path, b"whole")
    kept = {path.name, ".hidden", ".x.tmp", ".x.0123456789ab.tmp.more", "x.0123456789ab.tmp"}
    for name in kept - {path.name}:
        (tmp_path / name).touch()
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=False)
    assert len(os.listdir(tmp_path)) == len(kept) + 2
    remove_unfinished(tmp_path)
    assert set(os.listdir(tmp_path)) == kept
    assert path.read_bytes() == b"whole"
    remove_unfinished(tmp_path / "absent")


def test_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        write_durably(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o600


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_durably(path, b"new")
        assert reader.read() == b"old"


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_durably(path, b"content")
    assert path.read_bytes() == b"content"


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durably(tmp_path / "taken", b"content")
    assert os.listdir(tmp_path) == ["taken"]


def test_directory_that_cannot_be_read_is_closed(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)
    assert str(tmp_path) not in open_files()


def test_what_has_no_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is larger than 1 MiB"):
        read_bytes("/dev/zero", limit=2**20)
    (tmp_path / "just").write_bytes(b"x" * 10)
    assert read_bytes(tmp_path / "just", limit=10) == b"x" * 10
    with pytest.raises(OSError, match="larger"):
        read_bytes(tmp_path / "just", limit=9)


def test_content_and_name_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        if steps[-1] == "content":
            assert os.fstat(descriptor).st_size == len(b"content"), "synced before everything was written"
        fsync(descriptor)

    def recorded_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        assert source.name.startswith(".")
        assert source.parent == target.parent
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    write_durably(tmp_path / "file", b"content")
    assert steps == ["content", "rename", "directory"]


def test_syncing_a_file_as_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")


def test_a_lock_is_held_once_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        with pytest.raises(LockHeld) as caught, FileLock(path):
            pytest.fail("locked twice")
        assert caught.value.pid == os.getpid()
        assert str(caught.value) == f"{path} is locked by process {os.getpid()}"
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert mode_of(path) == 0o600


def test_a_lock_that_is_removed_while_it_is_taken_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flock = tmp_path / "lock", fcntl.flock

    def remove_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(LockHeld), FileLock(path):
            pytest.fail("locked twice")
    assert not [each for each in open_files() if each.startswith(str(path))]


def test_a_refused_lock_leaves_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        with pytest.raises(LockHeld), FileLock(path):
            pytest.fail("locked twice")
        assert open_files().count(str(path)) == 1


def open_files() -> list[str]:
    """Of this process, in which others may open and close some at any time."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry))
    return found


def test_a_lock_ends_on_a_disk_that_has_become_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As disks do after an error; none of a test's does, so the refusal is made up."""

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    lock = FileLock(tmp_path / "lock")
    lock.__enter__()
    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="Read-only file system"):
            lock.__exit__(None, None, None)
    with FileLock(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_an_unwritten_pid_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        path.write_text("")
        with pytest.raises(LockHeld, match="is locked by another process"), FileLock(path):
            pytest.fail("locked twice")


def test_a_lock_ends_with_a_killed_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"locked\n"
            with pytest.raises(LockHeld) as caught, FileLock(path):
                pytest.fail("locked twice")
            assert caught.value.pid == holder.pid
        finally:
            holder.kill()
            holder.wait(30)
    with FileLock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), FileLock(tmp_path / "lock"):
        pytest.fail("locked through a link")
    assert not (tmp_path / "elsewhere").exists()
