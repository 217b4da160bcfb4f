from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.kernel.boot import read_boot_id
from plugbay.kernel.processes import (
    ProcessIdentity,
    ProcessStat,
    is_running,
    kill_session,
    parse_stat,
    read_stat,
    session_members,
    signal_group,
    wait_end,
    watch_end,
    with_variable,
)

PROC = Path("/proc")
DEADLINE_S = 30
WAITS_FOR_STDIN = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
"""Ends when its stdin is closed, so that no test leaves it behind."""


@contextmanager
def leader(argv: list[str] = WAITS_FOR_STDIN) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def identity(pid: int) -> ProcessIdentity:
    stat = read_stat(pid, proc_root=PROC)
    assert stat is not None
    return stat.identity


@given(st.text(max_size=15))
def test_a_command_cannot_forge_the_fields_behind_it(command: str) -> None:
    fields = " ".join(["S", "1", "20", "30", *["0"] * 15, "777", *["0"] * 30])
    assert parse_stat(f"42 ({command}) {fields}\n") == ProcessStat(ProcessIdentity(42, 777), "S", 1, 20, 30)


def test_boot_id_is_one_word_and_stays() -> None:
    assert read_boot_id(PROC) == read_boot_id(PROC)
    assert len(read_boot_id(PROC).split()) == 1


def test_own_process_is_running_and_another_start_time_is_not_it() -> None:
    me = identity(os.getpid())
    assert is_running(me, proc_root=PROC)
    assert not is_running(replace(me, start_ticks=me.start_ticks + 1), proc_root=PROC)


def test_a_missing_process_has_no_stat(tmp_path: Path) -> None:
    assert read_stat(1, proc_root=tmp_path) is None


async def test_a_zombie_has_ended() -> None:
    with leader() as process:
        child = identity(process.pid)
        process.kill()
        async with asyncio.timeout(DEADLINE_S):
            await wait_end(child, proc_root=PROC)
        stat = read_stat(process.pid, proc_root=PROC)
        assert stat is not None
        assert stat.has_ended
        assert not is_running(child, proc_root=PROC)


async def test_waiting_ends_with_a_process_that_is_not_our_child() -> None:
    spawn = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
    with leader([sys.executable, "-I", "-S", "-c", spawn, *WAITS_FOR_STDIN]) as process:
        assert process.stdout is not None
        grandchild = identity(int(process.stdout.readline()))
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(wait_end(grandchild, proc_root=PROC))
            await asyncio.sleep(0)
            assert not waiting.done()
            os.kill(grandchild.pid, signal.SIGKILL)


async def test_waiting_for_a_reused_pid_ends_at_once() -> None:
    me = identity(os.getpid())
    async with asyncio.timeout(DEADLINE_S):
        await wait_end(replace(me, start_ticks=me.start_ticks + 1), proc_root=PROC)


async def test_nothing_is_called_after_the_watch() -> None:
    called: list[str] = []
    me = identity(os.getpid())
    with watch_end(replace(me, start_ticks=1), lambda: called.append("ended"), proc_root=PROC):
        pass
    await asyncio.sleep(0)
    assert called == []


def test_a_signal_to_a_reused_pid_is_not_sent() -> None:
    with leader() as process:
        wrong = replace(identity(process.pid), start_ticks=1)
        signal_group(wrong, signal.SIGKILL, proc_root=PROC)
        assert kill_session(wrong, proc_root=PROC) == []
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_signal_reaches_the_group() -> None:
    with leader() as process:
        signal_group(identity(process.pid), signal.SIGTERM, proc_root=PROC)
        assert process.wait(DEADLINE_S) == -signal.SIGTERM


def test_a_signal_reaches_who_has_yet_to_become_the_leader() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        signal_group(identity(process.pid), signal.SIGKILL, proc_root=PROC)
        try:
            assert process.wait(DEADLINE_S) == -signal.SIGKILL
        finally:
            process.kill()


async def test_a_session_is_killed_after_its_leader_has_ended() -> None:
    spawn = (
        "import subprocess, sys; "
        "print(subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, process_group=0).pid, flush=True); "
        "sys.stdin.read()"
    )
    with leader([sys.executable, "-I", "-S", "-c", spawn, "sleep", "600"]) as process:
        first = identity(process.pid)
        assert process.stdout is not None
        left = identity(int(process.stdout.readline()))
        process.kill()
        process.wait(DEADLINE_S)
        assert [member.identity for member in session_members(first, proc_root=PROC)] == [left]
        assert kill_session(first, proc_root=PROC) == [left]
        async with asyncio.timeout(DEADLINE_S):
            await wait_end(left, proc_root=PROC)


def test_no_proc_has_no_boot_id(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_boot_id(tmp_path)


@pytest.mark.parametrize(
    ("number", "refused"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.EACCES, False), (errno.ESRCH, False)]
)
def test_an_environment_that_cannot_be_read_is_anothers_or_unknown(
    number: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    if refused:
        with pytest.raises(OSError, match=os.strerror(number)):
            with_variable("A=B", since_ticks=0, proc_root=PROC)
    else:
        assert with_variable("A=B", since_ticks=0, proc_root=PROC) == []
