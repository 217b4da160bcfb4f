"""Logs of the process runtime: bounded, and read as one although they are several files."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from plugbay.runtimes.logs.files import LogLimits
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.process.unconfined import process_runtime
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.contract.rigs.process import DEADLINE_S, clock, runtime_on, sh, spec, state_dir, whole_log

__all__ = ["spec", "state_dir"]


def limited(state_dir: Path, *, max_bytes: int, max_files: int) -> SupervisedRuntime:
    return process_runtime(state_dir, environ=os.environ, clock=clock, logs=LogLimits(max_bytes, max_files))


def numbers(text: bytes) -> list[int]:
    return [int(word) for word in text.split()]


@pytest.mark.parametrize("writes", ["seq 5000", "for n in $(seq 1 5000); do echo $n; done"], ids=["blocks", "lines"])
async def test_a_log_is_bounded_and_its_end_is_kept_whole(state_dir: Path, spec: ContainerSpec, writes: str) -> None:
    async with runtime_on(state_dir, limited(state_dir, max_bytes=1000, max_files=3)) as runtime:
        state = await runtime.start(sh(spec, f"{writes}; printf end"))
        await runtime.wait(state.id)
        files = sorted((state_dir / state.id).glob("log*"))
        assert len(files) == 3
        assert all(each.stat().st_size <= 1000 for each in files)
        log = await whole_log(runtime, state.id)
        assert log.endswith(b"\nend")
        kept = numbers(log.removesuffix(b"end"))
        assert kept == list(range(kept[0], 5001)), "no line is missing or cut"
        assert len(kept) > 2 * 1000 // (len("2006-01-02T15:04:05.000000000Z stdout F ") + 5) - 2
        assert await whole_log(runtime, state.id, tail=30) == b"\n".join(log.split(b"\n")[-30:])


async def test_a_line_longer_than_a_file_is_kept_as_far_as_it_fits(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir, limited(state_dir, max_bytes=1000, max_files=3)) as runtime:
        state = await runtime.start(sh(spec, "head -c 10500 /dev/zero | tr '\\0' x; echo"))
        await runtime.wait(state.id)
        log = await whole_log(runtime, state.id)
        assert log.removesuffix(b"\n").strip(b"x") == b""
        assert len(log) > 1000
        assert all(each.stat().st_size <= 1000 for each in (state_dir / state.id).glob("log*"))


async def test_following_loses_nothing_when_a_log_is_rotated(
    state_dir: Path, spec: ContainerSpec, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    script = f"seq 1 1000; read line < {tmp_path}/fifo; for n in $(seq 1001 3000); do echo $n; done; seq 3001 9000"
    async with runtime_on(state_dir, limited(state_dir, max_bytes=500, max_files=1000)) as runtime:
        state = await runtime.start(sh(spec, script))
        seen = b""
        async with aclosing(runtime.log(state.id, follow=True)) as chunks:
            async for chunk in chunks:
                seen += chunk
                if seen.endswith(b"\n1000\n"):
                    await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
        assert numbers(seen) == list(range(1, 9001))


async def test_reading_while_a_log_is_rotated_finds_an_end_without_gaps(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir, limited(state_dir, max_bytes=2000, max_files=4)) as runtime:
        state = await runtime.start(sh(spec, "n=1000000; while :; do echo $n; n=$((n+1)); done"))
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(50):
                lines = (await whole_log(runtime, state.id)).split(b"\n")[:-1]
                kept = [int(line) for line in lines]
                assert kept == list(range(kept[0], kept[0] + len(kept))) if kept else True
