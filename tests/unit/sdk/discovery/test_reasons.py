from __future__ import annotations

import asyncio
import contextlib

import pytest

from plugbay.sdk.discovery import reasons as reasons_module
from plugbay.sdk.discovery.reasons import Reasons

DEADLINE_S = 30


async def test_reasons_that_come_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons_module, "LATEST_S", DEADLINE_S)
    reasons = Reasons()

    async def give() -> None:
        for number in range(5):
            reasons.add(f"r{number}")
            await asyncio.sleep(0)

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(give())
        await reasons.wait()
        await reasons.settle()
        assert reasons.take() == "r0, r1, r2 and 2 more"
    assert reasons.take() == ""


async def test_equal_reasons_are_told_once() -> None:
    reasons = Reasons()
    reasons.add("interval")
    reasons.add("interval")
    assert reasons.take() == "interval"


async def test_a_storm_does_not_put_the_look_off_for_ever() -> None:
    reasons = Reasons()

    async def storm() -> None:
        while True:
            reasons.add("watch of /dev")
            await asyncio.sleep(0)

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        storming = tasks.create_task(storm())
        await reasons.settle()
        assert not storming.done()
        storming.cancel()


async def test_what_comes_after_taking_is_for_the_next_look() -> None:
    reasons = Reasons()
    reasons.add("first")
    reasons.take()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await reasons.wait()
            raise AssertionError("there is none")
    reasons.add("second")
    async with asyncio.timeout(DEADLINE_S):
        await reasons.wait()
    assert reasons.take() == "second"
