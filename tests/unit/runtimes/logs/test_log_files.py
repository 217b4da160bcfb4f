from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugbay.runtimes.logs.files import LogFiles, follow_log, read_log, tail_offset

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
    written = RotatedLog(tmp_path / "log", kept=4)
    written.rotate(4)
    rotate_at(call, written, times=rotations, patch=monkeypatch)
    lines = numbers([chunk async for chunk in read_log(tmp_path / "log", tail=None)])
    assert lines
    assert lines == list(range(lines[0], lines[0] + len(lines)))


@pytest.mark.parametrize("rotations", [1, 2])
@pytest.mark.parametrize("call", range(20))
async def test_no_line_is_missing_or_twice_when_a_log_is_rotated_while_it_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, rotations: int
) -> None:
    written = RotatedLog(tmp_path / "log", kept=4)
    written.rotate(1)
    ended = asyncio.get_running_loop().create_future()
    chunks = []
    async with aclosing(follow_log(tmp_path / "log", tail=None, ended=ended)) as following:
        chunks += [await anext(following), await anext(following)]
        written.rotate(1)
        rotate_at(call, written, times=rotations, patch=monkeypatch)
        ended.set_result(None)
        chunks += [chunk async for chunk in following]
    lines = numbers(chunks)
    assert lines == list(range(len(lines)))
    assert len(lines) >= 3


async def test_a_reader_far_behind_opens_each_file_of_a_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = RotatedLog(tmp_path / "log", kept=1000)
    ended = asyncio.get_running_loop().create_future()
    async with aclosing(follow_log(tmp_path / "log", tail=None, ended=ended)) as following:
        chunks = [await anext(following)]
        written.rotate(100)
        calls = on_each_call(lambda: None, patch=monkeypatch)
        ended.set_result(None)
        chunks += [chunk async for chunk in following]
    assert numbers(chunks) == list(range(101))
    assert next(calls) < 4 * 100


def rotate_at(call: int, written: RotatedLog, *, times: int, patch: pytest.MonkeyPatch) -> None:
    """Rotate when the file system is asked for the ``call``th time."""

    def rotate() -> None:
        if next(rotations) == call:
            written.rotate(times)

    rotations = itertools.count()
    on_each_call(rotate, patch=patch)


def on_each_call(act: Callable[[], None], *, patch: pytest.MonkeyPatch) -> Iterator[int]:
    """``act`` before each call that opens, lists or looks at files; gives how many there were."""
    calls = itertools.count()

    def acting(operation: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            next(calls)
            act()
            return operation(*args, **kwargs)

        return call

    for name in ("open", "scandir", "stat"):
        patch.setattr(os, name, acting(getattr(os, name)))
    return calls


def numbers(chunks: Iterable[bytes]) -> list[int]:
    return [int(line) for line in b"".join(chunks).splitlines()]


class RotatedLog:
    """A log of ``kept`` files with a line in each, numbered on."""

    def __init__(self, path: Path, *, kept: int) -> None:
        self._path = path
        self._kept = kept
        self._number = 0
        path.write_text("0\n")

    def rotate(self, times: int) -> None:
        for _ in range(times):
            self._number += 1
            next_one = self._path.with_name("log.next")
            next_one.write_text(f"{self._number}\n")
            os.link(self._path, f"{self._path}.{self._number}")
            next_one.rename(self._path)
            self._path.with_name(f"log.{self._number - self._kept + 1}").unlink(missing_ok=True)
