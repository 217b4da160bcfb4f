"""Hierarchies as mountinfo tells of them, and cgroups removed with what is below them, on plain directories."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.kernel.capabilities import held_capabilities
from plugbay.kernel.cgroups import (
    accounts_swap,
    clear_cgroup,
    end_processes,
    hierarchies,
    kill_processes,
    oom_kills,
    remove_cgroup,
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    for name in ("devices", "two words"):
        (tmp_path / name).mkdir()
    lines = [
        f"30 20 0:10 / {tmp_path}/devices rw,nosuid shared:9 - cgroup cgroup rw,devices",
        f"31 20 0:11 / {tmp_path}/two\\040words rw - cgroup2 cgroup2 rw",
        f"32 20 0:12 / {tmp_path} rw - tmpfs cgroup rw",
    ]
    (tmp_path / "proc" / "self" / "mountinfo").write_text("\n".join(lines) + "\n")
    return tmp_path / "proc"


def test_hierarchies_of_both_versions_are_found(proc: Path, tmp_path: Path) -> None:
    assert hierarchies(proc_root=proc) == [tmp_path / "devices", tmp_path / "two words"]


def test_cgroup_goes_with_what_is_below_it_wherever_it_is(proc: Path, tmp_path: Path) -> None:
    (tmp_path / "devices" / "pod" / "container").mkdir(parents=True)
    (tmp_path / "devices" / "other").mkdir()
    assert remove_cgroup("pod", proc_root=proc) == []
    assert [each.name for each in (tmp_path / "devices").iterdir()] == ["other"]
    assert remove_cgroup("pod", proc_root=proc) == [], "it is gone already"
    for each in ("one", "other"):
        (tmp_path / "devices" / "pod" / each / "deep").mkdir(parents=True)
    assert remove_cgroup("pod/one", proc_root=proc) == []
    assert [each.name for each in (tmp_path / "devices" / "pod").iterdir()] == ["other"]


def test_what_cannot_go_is_told(proc: Path, tmp_path: Path) -> None:
    busy = tmp_path / "devices" / "pod"
    (busy / "container").mkdir(parents=True)
    (busy / "held").touch()
    assert remove_cgroup("pod", proc_root=proc) == [busy]
    assert not (busy / "container").exists()


@pytest.mark.parametrize(
    ("place", "file", "text"),
    [
        ("devices", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ("two words", "memory.events", "low 0\nhigh 0\nmax 41\noom 7\noom_kill 3\noom_group_kill 0\n"),
    ],
    ids=["version 1", "version 2"],
)
def test_processes_killed_for_want_of_memory_are_counted(
    proc: Path, tmp_path: Path, place: str, file: str, text: str
) -> None:
    assert oom_kills("/pod/c", proc_root=proc) == 0, "there is no such cgroup"
    for each in ("devices", "two words"):
        (tmp_path / each / "pod" / "c").mkdir(parents=True)
    assert oom_kills("/pod/c", proc_root=proc) == 0
    (tmp_path / place / "pod" / "c" / file).write_text(text)
    assert oom_kills("/pod/c", proc_root=proc) == 3


@pytest.mark.parametrize(
    "file", ["devices/memory.memsw.limit_in_bytes", "two words/memory.swap.max", "two words/a.slice/memory.swap.max"]
)
def test_swap_is_accounted_where_its_files_are(proc: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "two words" / "a.slice").mkdir()
    assert not accounts_swap(proc_root=proc)
    (tmp_path / file).touch()
    assert accounts_swap(proc_root=proc)


def test_processes_of_a_cgroup_are_killed_and_no_others(proc: Path, tmp_path: Path) -> None:
    kill_processes("/pod/c", proc_root=proc)
    (tmp_path / "devices" / "pod" / "c" / "deeper").mkdir(parents=True)
    with running(proc, 3) as victims:
        for place, victim in zip(("c", "c/deeper", "."), victims, strict=True):
            (tmp_path / "devices" / "pod" / place / "cgroup.procs").write_text(f"{victim.pid}\n")
        killed = kill_processes("/pod/c", proc_root=proc)
        assert {each.pid for each in killed} == {each.pid for each in victims[:2]}
        assert [each.wait(timeout=30) for each in victims[:2]] == [-signal.SIGKILL] * 2
        assert victims[2].poll() is None


KILLS = """
import sys
from pathlib import Path
from plugbay.kernel.cgroups import kill_processes

print(kill_processes("/pod", proc_root=Path(sys.argv[1])))
"""


def test_processes_of_other_pid_namespaces_do_not_make_us_kill_ourselves(proc: Path, tmp_path: Path) -> None:
    (tmp_path / "devices" / "pod").mkdir()
    (tmp_path / "devices" / "pod" / "cgroup.procs").write_text("0\n")
    killer = subprocess.run(
        [sys.executable, "-c", KILLS, str(proc)], capture_output=True, text=True, start_new_session=True, check=False
    )
    assert (killer.returncode, killer.stdout) == (0, "frozenset()\n"), killer.stderr


async def test_cgroup_goes_when_its_processes_have_left_it(proc: Path, tmp_path: Path) -> None:
    """Which may be later than they end: here the directory is not empty until somebody has tried."""
    cgroup = tmp_path / "devices" / "pod"
    cgroup.mkdir()
    held = cgroup / "cgroup.procs"
    with running(proc, 1) as (victim,):
        held.write_text(f"{victim.pid}\n")
        await end_processes("pod", proc_root=proc, within_s=30)
        assert victim.wait(timeout=30) == -signal.SIGKILL
        held.write_text("")
        with pytest.raises(TimeoutError):
            await clear_cgroup("pod", proc_root=proc, within_s=0.1)
        asyncio.get_running_loop().call_later(0.1, held.unlink)
        await clear_cgroup("pod", proc_root=proc, within_s=30)
    assert not cgroup.exists()


def none_left(path: Path) -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))


@pytest.mark.parametrize("refused", ["mountinfo", "memory.events", "cgroup.procs", "stat"])
def test_what_cannot_be_looked_at_does_not_count_as_empty(
    proc: Path, tmp_path: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two words" / "pod").mkdir()
    with running(proc, 1) as (process,):
        (tmp_path / "two words" / "pod" / "cgroup.procs").write_text(f"{process.pid}\n")
        read, path_open = os.open, Path.open

        def open_path(path: Path, *args: Any, **kwargs: Any) -> Any:
            if path.name == refused:
                raise none_left(path)
            return path_open(path, *args, **kwargs)

        def open_file(path: Any, *args: Any, **kwargs: Any) -> int:
            if Path(path).name == refused:
                raise none_left(path)
            return read(path, *args, **kwargs)

        monkeypatch.setattr(Path, "open", open_path)
        monkeypatch.setattr(os, "open", open_file)
        with pytest.raises(OSError, match="Too many open files"):
            oom_kills("/pod", proc_root=proc) if refused == "memory.events" else kill_processes("/pod", proc_root=proc)
        assert process.poll() is None


@pytest.mark.parametrize("work", [kill_processes, remove_cgroup])
def test_a_cgroup_that_cannot_be_listed_does_not_count_as_gone(
    proc: Path, tmp_path: Path, work: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two words" / "pod" / "deep").mkdir(parents=True)
    scandir = os.scandir

    def list_directory(path: Any) -> Any:
        if str(path).endswith("/pod"):
            raise none_left(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", list_directory)
    with pytest.raises(OSError, match="Too many open files"):
        work("pod", proc_root=proc)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EOPNOTSUPP])
def test_a_cgroup_that_goes_while_it_is_read_or_is_threaded_counts_as_empty(
    proc: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two words" / "pod").mkdir()
    read_text = Path.read_text

    def read(path: Path, *args: Any, **kwargs: Any) -> str:
        if path.name == "cgroup.procs":
            raise OSError(number, os.strerror(number))
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read)
    assert kill_processes("/pod", proc_root=proc) == frozenset()


@contextmanager
def running(proc: Path, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that ``proc`` shows."""
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
    try:
        for each in started:
            (proc / str(each.pid)).symlink_to(f"/proc/{each.pid}")
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait()


@pytest.mark.parametrize("name", ["", ".", "..", "a/", "/a", "a/../b"])
def test_only_what_is_below_the_root_is_removed(proc: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a cgroup"):
        remove_cgroup(name, proc_root=proc)


@pytest.mark.parametrize("path", ["", "/", "//", "/../x", "a/.."])
def test_nobody_kills_all_processes(proc: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a cgroup"):
        kill_processes(path, proc_root=proc)


def test_capabilities_are_named_by_number(proc: Path) -> None:
    (proc / "self" / "status").write_text("Name:\tx\nCapInh:\t0\nCapPrm:\t0000000000200001\n")
    assert held_capabilities(proc_root=proc) == ("CHOWN", "SYS_ADMIN")
