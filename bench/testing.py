"""A kubelet in a test suite: what a test with the fixture pays for it, and how long a conformance run takes."""

from __future__ import annotations

import asyncio
import compileall
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import plugbay
from bench.conforming import conformance_s
from bench.figures import Figure, Pace
from plugbay import Device, plugin
from plugbay.testing import Kubelet

CARD: Final = "example.com/card"
TESTS: Final = {Pace.FULL: 100, Pace.QUICK: 10}
COMMANDS: Final = {Pace.FULL: 20, Pace.QUICK: 3}
PROGRAM: Final = f"""
from plugbay import Device, plugin

@plugin("{CARD}")
def cards():
    return [Device("card0", env={{"CARD": "0"}})]
"""


@plugin(CARD)
def cards() -> list[Device]:
    return [Device("card0", env={"CARD": "0"})]


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    compileall.compile_dir(Path(plugbay.__file__).parent, quiet=1)  # as installed
    logging.getLogger("plugbay").setLevel(logging.ERROR)  # plugins end in tests: that is no warning
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        program = Path(directory) / "cards.py"
        program.write_text(PROGRAM)
        command = [sys.executable, "-m", "plugbay", "serve", "--root", "{root}", str(program)]
        # A kubelet of its own thread, as in a test that is not async.
        in_process = await asyncio.to_thread(lambda: [test_ms(cards) for _ in range(TESTS[pace])])
        yield Figure("fixture_in_process_ms", statistics.median(in_process), "ms", 40)
        restarts = await asyncio.to_thread(restarts_ms, TESTS[pace])
        yield Figure("fixture_restart_ms", statistics.median(restarts), "ms", 25)
        with_command = await asyncio.to_thread(lambda: [test_ms(command) for _ in range(COMMANDS[pace])])
        yield Figure("fixture_command_ms", statistics.median(with_command), "ms", 350)
    yield Figure("conformance_run_s", await conformance_s(), "s", 25)


def test_ms(what: object) -> float:
    """A whole test: start, register, admit, stop."""
    began = time.perf_counter()
    with Kubelet() as kubelet:
        kubelet.plugin(what)
        assert kubelet.admit({CARD: 1})["app"].env == {"CARD": "0"}
    return (time.perf_counter() - began) * 1000


def restarts_ms(count: int) -> list[float]:
    """From the stop of a kubelet to the next one with the plugin back."""
    taken = []
    with Kubelet() as kubelet:
        kubelet.plugin(cards)
        for _ in range(count):
            began = time.perf_counter()
            kubelet.restart()
            taken.append((time.perf_counter() - began) * 1000)
    return taken
