"""Who has a spec file when two processes of one plugin run side by side."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from plugbay.cdi.names import CdiKind
from plugbay.cdi.spec import Edits, Spec, SpecDevice
from plugbay.errors import PathUnusable
from plugbay.model.ids import ResourceName
from plugbay.sdk.cdi import spec_file as module
from plugbay.sdk.cdi.spec_file import PluginSpecFile, left_files, remove_unfinished
from plugbay.sdk.cdi.spec_turns import LOCK_NAME, SpecTurns

RESOURCE = ResourceName("example.com/gopher")


def spec(name: str) -> Spec:
    return Spec("0.3.0", "example.com/gopher", devices=(SpecDevice(name, edits=Edits(env=("A=1",))),))


def spec_file(directory: Path) -> PluginSpecFile:
    return PluginSpecFile(directory, CdiKind("example.com", "gopher"), RESOURCE)


def test_the_newer_process_keeps_what_it_took_over(tmp_path: Path) -> None:
    older, newer = spec_file(tmp_path), spec_file(tmp_path)
    assert older.write(spec("g1"))
    assert newer.write(spec("g2"))
    assert not older.write(spec("g3")), "it looked for devices again just then"
    assert newer.load() == spec("g2")
    assert not older.remove()
    assert not older.write(spec("g3")), "not having devices for a while makes it no newer"
    assert newer.load() == spec("g2")
    newer.close()


def test_the_older_process_takes_the_file_back_when_the_newer_has_ended(tmp_path: Path) -> None:
    older, newer = spec_file(tmp_path), spec_file(tmp_path)
    older.write(spec("g1"))
    newer.write(spec("g2"))
    newer.close()
    assert older.write(spec("g1"))
    assert older.load() == spec("g1")
    older.close()


@pytest.mark.parametrize("locked", ["the directory", "the file"])
def test_locks_that_every_user_can_take_stop_nothing(tmp_path: Path, locked: str) -> None:
    left = spec_file(tmp_path)
    left.write(spec("g1"))
    left.close()
    theirs = os.open({"the directory": tmp_path, "the file": left.path}[locked], os.O_RDONLY)
    try:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert list(left_files(tmp_path)) == [(left.path, RESOURCE)]
        file = spec_file(tmp_path)
        assert file.write(spec("g2"))
        assert not list(left_files(tmp_path))
        assert file.path.stat().st_mode & 0o777 == 0o644
        file.close()
    finally:
        os.close(theirs)


def test_nobody_else_can_open_the_lock(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        spec_file(tmp_path).write(spec("g1"))
    finally:
        os.umask(before)
    assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_cannot_be_opened_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []

    def locked(descriptor: int) -> bool:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        return True

    monkeypatch.setattr(module, "lock", locked)
    file = spec_file(tmp_path)
    file.write(spec("g1"))
    file.close()
    assert modes == [0o600]


def test_a_turn_is_waited_for_so_long_and_no_longer(tmp_path: Path) -> None:
    file = spec_file(tmp_path)
    with SpecTurns(tmp_path).turn():
        file.turns = SpecTurns(tmp_path, patience_s=0.1)
        problem = r"\.json: cannot be written: another process keeps \.plugbay\.lock in that directory locked"
        with pytest.raises(PathUnusable, match=problem):
            file.write(spec("g1"))
        file.turns = SpecTurns(tmp_path, patience_s=3600)
        threading.Timer(0.1, file.turns.give_up).start()
        with pytest.raises(PathUnusable, match=problem):
            file.write(spec("g1"))
    assert file.write(spec("g1"))
    file.close()


def test_a_turn_after_the_lock_was_removed_is_one_of_all_that_come_later(tmp_path: Path) -> None:
    has_turn, may_end = threading.Event(), threading.Event()

    def wait_for_a_turn() -> None:
        with SpecTurns(tmp_path, patience_s=60).turn():
            has_turn.set()
            may_end.wait(60)

    waiting = threading.Thread(target=wait_for_a_turn)
    with SpecTurns(tmp_path).turn():
        waiting.start()
        deadline = time.monotonic() + 30
        while times_open(tmp_path / LOCK_NAME) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        (tmp_path / LOCK_NAME).unlink()
    try:
        assert has_turn.wait(30)
        with pytest.raises(TimeoutError), SpecTurns(tmp_path, patience_s=0).turn():
            pytest.fail("two at once")
    finally:
        may_end.set()
        waiting.join()


def times_open(path: Path) -> int:
    """How often this process has a file open."""
    there, found = path.stat(), 0
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.path.samestat(os.fstat(int(entry)), there)
    return found


def test_two_that_ask_at_once_who_has_a_file_do_not_take_each_other_for_that(tmp_path: Path) -> None:
    dead = spec_file(tmp_path)
    dead.write(spec("g1"))
    dead.close()
    with dead.path.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert list(left_files(tmp_path)) == [(dead.path, RESOURCE)]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.sdk.cdi.test_spec_file import spec, spec_file

os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
spec_file(Path(sys.argv[1])).write(spec("g2"))
"""


def test_killed_before_its_file_has_its_name_it_leaves_the_old_one_whole(tmp_path: Path) -> None:
    before = spec_file(tmp_path)
    before.write(spec("g1"))
    before.close()
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=Path(__file__).parents[4], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert before.load() == spec("g1")
    foreign = tmp_path / "spec.123.tmp"
    foreign.touch()
    assert len(list(tmp_path.iterdir())) == 4
    remove_unfinished(tmp_path, SpecTurns(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted([before.path, foreign, tmp_path / LOCK_NAME])


def test_there_may_be_no_directory_to_tidy(tmp_path: Path) -> None:
    remove_unfinished(tmp_path / "cdi", SpecTurns(tmp_path / "cdi"))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PathUnusable, match="file: cannot be tidied: Not a directory"):
        remove_unfinished(file, SpecTurns(file))


def test_file_that_cannot_be_removed_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, as whom tests may run, is refused nothing, so the refusal is made up."""

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    file = spec_file(tmp_path)
    file.write(spec("g1"))
    with monkeypatch.context() as refused:
        refused.setattr(Path, "unlink", refuse)
        with pytest.raises(PathUnusable, match=r"cannot be removed: Permission denied"):
            file.remove()
    assert file.is_intact()
    assert file.remove()
    assert not file.path.exists()
