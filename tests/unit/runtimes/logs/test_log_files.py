from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugbay.runtimes.logs.files import LogFiles, read_log, tail_offset

LOG = st.lists(st.sampled_from([b"", b"a", b"line", b"x" * 50_000]), max_size=8).map(b"\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(log=LOG, ended=st.booleans(), lines=st.integers(0, 10))
def test_tail_is_the_last_lines(tmp_path: Path, *, log: bytes, ended: bool, lines: int) -> None:
    content = log + b"\n" * ended
    last = content.splitlines(keepends=True)[-lines:] if lines else []
    assert _tail(tmp_path / "log", content, lines=lines) == b"".join(last)


@pytest.mark.parametrize("lines", [None, 100])
def test_all_of_it(tmp_path: Path, lines: int | None) -> None:
    assert _tail(tmp_path / "log", b"a\nb\n", lines=lines) == b"a\nb\n"


@pytest.mark.parametrize("steps", range(8))
async def test_a_reader_that_goes_while_its_log_is_opened_leaves_nothing_open(tmp_path: Path, steps: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a\n")
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # what comes later finds it done
    await asyncio.to_thread(os.getpid)
    gc.collect()  # what other tests have left open
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(50):
        async with aclosing(read_log(log, tail=None)) as chunks:
            reading = asyncio.ensure_future(anext(chunks))
            for _ in range(steps):
                await asyncio.sleep(0)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
    for _ in range(2):  # the second one begins when all is told of what was opened
        await asyncio.to_thread(os.getpid)
    assert set(os.listdir("/proc/self/fd")) == before


def _tail(path: Path, content: bytes, *, lines: int | None) -> bytes:
    path.write_bytes(content)
    log = LogFiles([os.open(path, os.O_RDONLY)])
    try:
        return content[tail_offset(log, end=len(content), lines=lines) :]
    finally:
        log.close()


@pytest.mark.parametrize("rotations", [1, 2, 6])
@pytest.mark.parametrize("call", range(9))
async def test_no_line_is_missing_between_two_when_a_log_is_rotated_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, rotations: int
) -> None:
    log = tmp_path / "log"
    written = RotatedLog(log)
    written.rotate(4)
    calls = itertools.count()

    def rotates(operation: Callable[..., object]) -> Callable[..., object]:
        def rotating(*args: object, **kwargs: object) -> object:
            if next(calls) == call:
                written.rotate(rotations)
            return operation(*args, **kwargs)

        return rotating

    with monkeypatch.context() as patch:
        for name in ("open", "scandir", "stat"):
            patch.setattr(os, name, rotates(getattr(os, name)))
        text = b"".join([chunk async for chunk in read_log(log, tail=None)])
    lines = [int(line) for line in text.splitlines()]
    assert lines
    assert lines == list(range(lines[0], lines[0] + len(lines)))


class RotatedLog:
    """A log of four files with a line in each, numbered on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        path.write_text("0\n")

    def rotate(self, times: int) -> None:
        for _ in range(times):
            self._number += 1
            next_one = self._path.with_name("log.next")
            next_one.write_text(f"{self._number}\n")
            os.link(self._path, f"{self._path}.{self._number}")
            next_one.rename(self._path)
            self._path.with_name(f"log.{self._number - 3}").unlink(missing_ok=True)
