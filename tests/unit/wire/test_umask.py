from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from plugbay.wire.umask import with_umask


def own_umask() -> int:
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line)[6:], 8)


def test_other_threads_keep_their_umask_meanwhile(tmp_path: Path) -> None:
    before = own_umask()
    within, over = threading.Event(), threading.Event()

    def make() -> None:
        (tmp_path / "private").touch(mode=0o666)
        within.set()
        assert over.wait(30)

    making = threading.Thread(target=lambda: with_umask(0o177, make))
    making.start()
    assert within.wait(30)
    assert own_umask() == before
    over.set()
    making.join()
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_where_a_thread_has_no_umask_of_its_own_that_of_the_process_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        @staticmethod
        def unshare(flags: int) -> int:
            return -1

    before = own_umask()

    def make() -> None:
        (tmp_path / "private").touch(mode=0o666)
        raise ZeroDivisionError

    monkeypatch.setattr("plugbay.wire.umask.ctypes.CDLL", lambda name: Refusing)
    with pytest.raises(ZeroDivisionError):
        with_umask(0o177, make)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert own_umask() == before == os.umask(before)
