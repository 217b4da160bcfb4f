from __future__ import annotations

import asyncio
import errno
import os

import pytest

from plugbay.runtimes.supervised.wrapper_words import read_to_end, start_reason


@pytest.mark.parametrize(
    ("number", "text", "reason"),
    [
        pytest.param(errno.EMFILE, "", "CreateContainerError", id="descriptors"),
        pytest.param(errno.EAGAIN, "", "CreateContainerError", id="processes"),
        pytest.param(errno.ENOENT, "", "StartError", id="no-program"),
        pytest.param(0, "pipe2: Too many open files in system", "CreateContainerError", id="an-engines-descriptors"),
        pytest.param(0, "clone: Resource temporarily unavailable", "CreateContainerError", id="an-engines-processes"),
        pytest.param(0, "cannot allocate memory", "StartError", id="the-containers-own-limit"),
        pytest.param(None, "", "StartError", id="nothing-known"),
    ],
)
def test_what_passes_is_no_run(number: int | None, text: str, reason: str) -> None:
    assert start_reason(number, "StartError", text=text) == reason


@pytest.mark.parametrize("turns", range(4))
async def test_a_report_that_nobody_waits_for_any_more_is_closed(turns: int) -> None:
    report, reported = os.pipe()
    reading = read_to_end(report)
    for _ in range(turns):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await asyncio.sleep(0)
    with pytest.raises(BrokenPipeError):
        os.write(reported, b"nobody hears this")
    os.close(reported)


async def test_a_report_is_read_to_its_end_and_closed() -> None:
    report, reported = os.pipe()
    reading = read_to_end(report)
    os.write(reported, b"recorded\n")
    os.close(reported)
    assert await reading == "recorded\n"
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(report)
