"""A tied program ends with all that descends from it, however that came to be, and is seen to end as it did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from plugbay.kernel import tied
from tests.leftovers import still_running

DEADLINE_S: Final = 60.0
LEAVES: Final = """
import os, signal, subprocess, sys
for how in ({}, {"start_new_session": True}):
    print(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, **how).pid)
sys.stdout.flush()
if os.fork() == 0:  # a daemon as they are made: neither its parent nor its session is left
    os.setsid()
    if (daemon := os.fork()) == 0:
        signal.pause()
    print(daemon, flush=True)  # here, as the program waits for this process, and not for the daemon
    os._exit(0)
os.wait()
THEN
"""
TRACED: Final = """
import ctypes, os, signal
PTRACE_SEIZE, PTRACE_O_TRACEEXIT, PR_SET_PTRACER = 0x4206, 0x40, 0x59616D61
libc, program = ctypes.CDLL(None), os.getpid()
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
begin, let_begin = os.pipe()
tracer = os.fork()
if tracer == 0:
    os.read(begin, 1)
    print(os.getpid(), libc.ptrace(PTRACE_SEIZE, program, None, PTRACE_O_TRACEEXIT), flush=True)
    signal.pause()
libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)  # where the kernel asks for that
os.write(let_begin, b"1")
signal.pause()
"""
"""A program whose child traces it, as `strace -D` does: it ends when the child lets it, or has ended itself."""


def words(*program: str) -> list[str]:
    return [sys.executable, "-I", "-S", tied.__file__, str(os.getpid()), "-", *program]


def leaves(then: str) -> list[str]:
    return words(sys.executable, "-c", LEAVES.replace("THEN", then))


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", -9), ("kill -SEGV $$", -11), ("kill -TERM $$", -15)],
)
def test_its_end_is_the_programs(script: str, code: int) -> None:
    assert subprocess.run(words("sh", "-c", script), timeout=DEADLINE_S, check=False).returncode == code


@pytest.mark.parametrize(("program", "code"), [("/no/such", 127), ("/etc/passwd", 126)])
def test_program_that_cannot_be_run_is_told_as_a_shell_tells_it(program: str, code: int) -> None:
    done = subprocess.run(words(program), timeout=DEADLINE_S, check=False, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.startswith(f"{program}: ")) == (code, True)


def test_nothing_is_left_of_a_program_that_has_ended() -> None:
    done = subprocess.run(leaves("sys.exit(5)"), timeout=DEADLINE_S, check=False, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 5
    left = [int(each) for each in done.stdout.split()]
    assert (len(left), still_running(left, within_s=0)) == (3, set())


def test_nothing_is_left_of_a_program_that_is_ended() -> None:
    with subprocess.Popen(leaves("signal.pause()"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = [int(process.stdout.readline()) for _ in range(3)]
        process.terminate()
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert still_running(left, within_s=0) == set()


def test_program_that_its_child_traces_is_ended() -> None:
    with subprocess.Popen(words(sys.executable, "-c", TRACED), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        tracer, failure = map(int, process.stdout.readline().split())
        process.terminate()
        try:
            assert process.wait(DEADLINE_S) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            os.kill(tracer, signal.SIGKILL)
            raise
        assert failure == 0


def test_nothing_is_left_when_its_parent_is_killed() -> None:
    parent = f"import os, subprocess, sys; subprocess.run([*{words()[:4]!r}, str(os.getpid()), '-', *sys.argv[1:]])"
    program = leaves("signal.pause()")[6:]
    with subprocess.Popen([sys.executable, "-c", parent, *program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
    assert still_running(left, within_s=DEADLINE_S) == set()


def test_its_process_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with told.open("wb") as file:
        program = [*words()[:5], str(file.fileno()), "sh", "-c", "echo $$"]
        pids = subprocess.check_output(program, pass_fds=[file.fileno()], timeout=DEADLINE_S, text=True)
    assert told.read_text().split()[0] == pids.strip()
