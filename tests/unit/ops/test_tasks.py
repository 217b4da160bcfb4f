from __future__ import annotations

import asyncio

import pytest

from plugbay.ops.tasks import first, to_the_end, ungrouped, uninterrupted


async def test_caller_gets_the_result_or_the_error() -> None:
    async def three() -> int:
        return 3

    async def fail() -> int:
        raise OSError("no")

    async with asyncio.TaskGroup() as tasks:
        assert await uninterrupted(tasks, three) == 3
        with pytest.raises(OSError, match="no"):
            await uninterrupted(tasks, fail)


async def test_cancelled_caller_returns_when_the_work_is_done() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    done = []

    async def work() -> None:
        began.set()
        await go_on.wait()
        done.append(True)

    async with asyncio.TaskGroup() as tasks:
        caller = asyncio.create_task(uninterrupted(tasks, work))
        await began.wait()
        caller.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert done


async def test_caller_does_not_wait_for_work_that_the_group_has_cancelled() -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            callers.append(asyncio.create_task(uninterrupted(tasks, work)))
            await began.wait()
            raise OSError("the group ends")

    callers: list[asyncio.Task[None]] = []
    with pytest.raises(ExceptionGroup):
        await group()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await callers[0]


async def test_caller_does_not_wait_for_work_that_was_cancelled_before_it_began() -> None:
    async def fail() -> None:
        raise OSError("in the turn of the loop in which the work is asked for")

    async def work() -> None:
        raise AssertionError("never begun")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            callers.append(asyncio.create_task(uninterrupted(tasks, work)))
            await asyncio.Event().wait()

    callers: list[asyncio.Task[None]] = []
    with pytest.raises(ExceptionGroup):
        await group()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await callers[0]


async def test_first_end_cancels_the_others_and_waits_for_them() -> None:
    ended = []

    async def long(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    assert await first(asyncio.sleep(0), long("a"), long("b"))
    assert sorted(ended) == ["a", "b"]


async def test_a_limit_cancels_all() -> None:
    assert not await first(asyncio.Event().wait(), asyncio.Event().wait(), timeout_s=0)


async def test_failure_of_the_first_is_the_callers() -> None:
    async def fail() -> None:
        raise OSError("no")

    with pytest.raises(ExceptionGroup):
        await first(fail(), asyncio.Event().wait())


async def test_cancelled_wait_for_an_end_hurries_the_work_and_is_cancelled_after_it() -> None:
    began, hurried = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        await hurried.wait()

    caller = asyncio.create_task(to_the_end(work(), cancelled=hurried.set))
    await began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


def test_only_error_of_nested_groups_is_raised_as_itself() -> None:
    with pytest.raises(OSError, match="no"), ungrouped():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [OSError("no")])])


def test_cause_of_the_only_error_is_kept() -> None:
    cause = KeyError("why")
    error = OSError("no")
    error.__cause__ = cause
    with pytest.raises(OSError, match="no") as caught, ungrouped():
        raise ExceptionGroup("outer", [error])
    assert caught.value.__cause__ is cause


def test_several_errors_stay_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught, ungrouped():
        raise ExceptionGroup("outer", [OSError("a"), OSError("b")])
    assert len(caught.value.exceptions) == 2


def test_error_without_a_group_passes() -> None:
    with pytest.raises(OSError, match="no"), ungrouped():
        raise OSError("no")
