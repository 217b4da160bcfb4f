"""What descends from a wrapper is stopped before any of it is killed: else the rest sees it end, and may start more."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from plugbay.kernel import descendants

KILLS_A_TREE = """
import os, signal, sys, time
from plugbay.kernel import descendants

descendants.keep_orphans()
ready, started = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        os.write(started, b".")
        signal.pause()
for _ in range(6):
    os.read(ready, 1)
before, send = set(), descendants.signal_child

def signal_child(pid, ticks, number, **how):
    if number == signal.SIGKILL and not before:
        every = descendants.stats()
        before.update(every[each][0] for each in descendants.living_descendants(os.getpid(), every))
    return send(pid, ticks, number, **how)

descendants.signal_child = signal_child
descendants.kill_descendants()
print(before, descendants.living_descendants(os.getpid(), descendants.stats()))
"""


def test_all_are_stopped_before_the_first_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLS_A_TREE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "{'T'} set()\n"), done.stderr


def test_a_process_that_cannot_be_opened_does_not_count_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        descendants.signal_child(os.getpid(), 0, signal.SIGKILL)


def test_a_number_that_is_another_processs_by_now_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            ticks = descendants.start_ticks(process.pid)
            assert descendants.signal_child(process.pid, ticks + 1, signal.SIGKILL)
            assert process.poll() is None
            assert descendants.signal_child(process.pid, ticks, signal.SIGKILL, until_ended=True)
            assert process.wait(timeout=30) == -signal.SIGKILL
        finally:
            process.kill()
