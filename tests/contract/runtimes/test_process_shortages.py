"""Containers on a machine that has no descriptors or no disk left: they wait, or end as they did."""

from __future__ import annotations

import asyncio
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.kernel.tmpfs import mount_tmpfs, unmount_all
from plugbay.runtimes.port import ContainerSpec, ContainerState, RunState
from tests.container_specs import changed
from tests.contract.rigs.process import first_line, runtime_on, sh, spec, state_dir, whole_log

__all__ = ["spec", "state_dir"]

DISK_BYTES = 2**20


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """No number above the highest that is in use can be given to a file, but ``count`` more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", range(10))
async def test_a_start_without_descriptors_waits_and_is_tried_again(
    state_dir: Path, spec: ContainerSpec, count: int
) -> None:
    again = changed(spec, attempt=1)
    async with runtime_on(state_dir) as runtime:
        first = await runtime.start(spec)
        with descriptors_left(count):
            (outcome,) = await asyncio.gather(runtime.start(again), return_exceptions=True)
        if isinstance(outcome, ContainerState):
            second = outcome
        else:
            assert isinstance(outcome, ContainerStartError)
            assert outcome.reason == "CreateContainerError"
            second = await runtime.start(again)
        assert {each.id for each in await runtime.list()} == {first.id, second.id}


@pytest.fixture
def small_disk(state_dir: Path) -> Iterator[Path]:
    mount_tmpfs(state_dir, mode=0o700, size_bytes=DISK_BYTES)
    yield state_dir
    unmount_all(state_dir)


def fill(disk: Path) -> Path:
    filler = disk / ".filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(descriptor, b"x" * 1024):
            pass
    os.close(descriptor)
    return filler


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("code", [0, 3])
async def test_an_end_on_a_full_disk_is_told_as_it_was(
    small_disk: Path, spec: ContainerSpec, tmp_path: Path, code: int
) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with runtime_on(small_disk) as runtime:
        state = await runtime.start(sh(spec, f"read line < {tmp_path}/fifo; exit {code}"))
        fill(small_disk)
        await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
        ended = await runtime.wait(state.id)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, code)


@pytest.mark.root
@needs_root
async def test_output_that_finds_no_room_holds_up_nobody_and_is_told(
    small_disk: Path, spec: ContainerSpec, tmp_path: Path
) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    for each in (full, empty):
        os.mkfifo(each)
    async with runtime_on(small_disk) as runtime:
        state = await runtime.start(
            sh(spec, f"echo first; read line < {full}; seq 100000; read line < {empty}; echo last")
        )
        assert await first_line(runtime, state.id) == "first"
        filler = fill(small_disk)
        await asyncio.to_thread(full.write_text, "\n")
        opened = await asyncio.to_thread(empty.open, "w")  # once all was written
        filler.unlink()
        with opened:
            opened.write("\n")
        await runtime.wait(state.id)
        log = (await whole_log(runtime, state.id)).decode()
        assert log.startswith("first\n1\n2\n")
        assert re.search(r"^plugbay: \d+ bytes of output are missing here: No space left on device$", log, re.MULTILINE)
        assert log.endswith("\nlast\n")
