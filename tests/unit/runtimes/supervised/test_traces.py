"""Which processes are believed to be wrappers of ours, on a ``/proc`` of files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from plugbay.runtimes.supervised.traces import find_wrappers

BOOT = "b6a1"
NAME = "6f1c_gopher_3"
OUR_PIDS, OTHER_PIDS = "pid:[4026531836]", "pid:[4026532000]"
PROGRAM = "runtimes/supervised/wrapper.py"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    proc = tmp_path / "proc"
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").symlink_to(OUR_PIDS)
    return proc


def add_wrapper(
    proc: Path, pid: int, directory: Path, *, pids: str = OUR_PIDS, program: str = f"/opt/plugbay/{PROGRAM}"
) -> Path:
    process = proc / str(pid)
    (process / "ns").mkdir(parents=True)
    (process / "fd").mkdir()
    (process / "ns" / "pid").symlink_to(pids)
    words = ("python", "-I", "-S", program, os.fspath(directory), BOOT, "")
    (process / "cmdline").write_bytes("\0".join(words).encode())
    add_stat(process, parent=1, session=pid)
    if directory.is_dir():
        (process / "fd" / "4").symlink_to(directory)
    return process


def add_stat(process: Path, *, parent: int, session: int) -> None:
    process.mkdir(exist_ok=True)
    fields = ["S", parent, session, session, *[0] * 15, 1000 + int(process.name), 0]
    (process / "stat").write_text(f"{process.name} (python) {' '.join(map(str, fields))}\n")


def found(tmp_path: Path) -> dict[str, tuple[int, int]]:
    """Pids of the wrapper and the container's process, by container."""
    records = find_wrappers(tmp_path / "containers", boot_id=BOOT, proc_root=tmp_path / "proc")
    return {name: (record.wrapper.pid, record.process.pid) for name, record in records.items()}


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_wrapper_is_found_with_its_containers_process(tmp_path: Path, proc: Path, is_removed: bool) -> None:
    directory = tmp_path / "containers" / NAME
    if not is_removed:
        directory.mkdir(parents=True)
    add_wrapper(proc, 40, directory)
    add_stat(proc / "41", parent=40, session=41)
    assert found(tmp_path) == {NAME: (40, 41)}


def test_a_wrapper_of_an_earlier_plugbay_is_found(tmp_path: Path, proc: Path) -> None:
    add_wrapper(proc, 40, tmp_path / "containers" / NAME, program="/opt/plugbay/runtimes/supervised/wrapper.py")
    assert found(tmp_path) == {NAME: (40, 40)}


def test_another_users_process_is_not_a_wrapper(tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_wrapper(proc, 40, tmp_path / "containers" / NAME)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert found(tmp_path) == {}


def test_a_process_in_a_container_with_pids_of_its_own_is_not_a_wrapper(tmp_path: Path, proc: Path) -> None:
    add_wrapper(proc, 40, tmp_path / "containers" / NAME, pids=OTHER_PIDS)
    assert found(tmp_path) == {}


@pytest.mark.parametrize("name", ["..", "gopher", "6f1c_gopher", "6f1c_gopher_x"])
def test_what_is_not_called_like_a_container_is_not_a_wrapper(tmp_path: Path, proc: Path, name: str) -> None:
    add_wrapper(proc, 40, tmp_path / "containers" / name)
    assert found(tmp_path) == {}


@pytest.mark.parametrize("gone", ["fd", "ns", "stat", "cmdline"])
def test_a_wrapper_that_ends_meanwhile_is_left_out(tmp_path: Path, proc: Path, gone: str) -> None:
    directory = tmp_path / "containers" / NAME
    directory.mkdir(parents=True)
    add_wrapper(proc, 39, directory.with_name("6f1c_other_0"))
    process = add_wrapper(proc, 40, directory)
    (process / gone).rename(tmp_path / "gone")
    assert found(tmp_path) == {"6f1c_other_0": (39, 39)}


@pytest.mark.parametrize("hidden", ["cmdline", "fd", "stat", "ns"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_what_the_system_hides_from_us_is_not_ours(
    tmp_path: Path, proc: Path, hidden: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "containers" / NAME
    directory.mkdir(parents=True)
    add_wrapper(proc, 40, directory)
    add_wrapper(proc, 39, directory.with_name("6f1c_other_0"))
    refuse(proc / "40" / hidden, number, monkeypatch)
    assert found(tmp_path) == {"6f1c_other_0": (39, 39)}


@pytest.mark.parametrize("hidden", ["cmdline", "fd"])
def test_a_shortage_does_not_pass_for_the_end_of_a_wrapper(
    tmp_path: Path, proc: Path, hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "containers" / NAME
    directory.mkdir(parents=True)
    add_wrapper(proc, 40, directory)
    refuse(proc / "40" / hidden, errno.ENFILE, monkeypatch)
    with pytest.raises(OSError, match="Too many open files in system"):
        found(tmp_path)


def refuse(refused: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the system refuse what is at a path or below it."""
    for module, name in [(os, "open"), (os, "listdir"), (os, "scandir"), (os, "readlink"), (Path, "open")]:
        real = getattr(module, name)

        def refusing(path: str | Path, *args: object, _real: object = real, **kwargs: object) -> object:
            if os.fspath(path).startswith(os.fspath(refused)):
                raise OSError(number, os.strerror(number), os.fspath(path))
            return _real(path, *args, **kwargs)  # type: ignore[operator]  # the function that was replaced

        monkeypatch.setattr(module, name, refusing)
