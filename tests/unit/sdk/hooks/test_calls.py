from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

import pytest

from plugbay import Device, DevicePlugin
from plugbay.errors import InvalidDevice, InvalidDiscovery
from plugbay.sdk.discovery.run import discovered
from plugbay.sdk.hooks.calls import call, call_to_the_end, in_thread

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def test_plain_hook_runs_in_another_thread_with_our_context() -> None:
    WHO.set("us")
    thread, who = await call(lambda: (threading.current_thread(), WHO.get()))
    assert thread is not threading.main_thread()
    assert who == "us"


async def test_thread_is_used_again_but_not_while_its_hook_runs() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hook() -> threading.Thread:
        begun.set()
        assert may_end.wait(30)
        return threading.current_thread()

    first = await in_thread(threading.current_thread)
    assert await in_thread(threading.current_thread) is first
    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(in_thread(hook))
        assert await in_thread(begun.wait, 30)
        other = await in_thread(threading.current_thread)
        may_end.set()
        assert await calling is not other


async def test_call_that_is_cancelled_ends_after_its_hook() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def hook() -> None:
        begun.set()
        assert may_end.wait(30)
        ended.set()

    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(call_to_the_end(hook))
        assert await in_thread(begun.wait, 30)
        calling.cancel()
        assert not (await asyncio.wait([calling], timeout=0.05))[0]
        may_end.set()
        await asyncio.wait([calling])
    assert calling.cancelled()
    assert ended.is_set()


async def test_async_hook_runs_on_the_loop() -> None:
    async def hook(number: int) -> tuple[int, threading.Thread]:
        return number, threading.current_thread()

    assert await call(hook, 3) == (3, threading.current_thread())


async def test_plain_hook_may_return_something_to_await() -> None:
    async def answer() -> int:
        return 3

    assert await call(lambda: answer()) == 3


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), StopIteration("x")])
async def test_what_a_hook_raises_arrives(error: Exception) -> None:
    def hook() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError), match="x"):
        await call(hook)


async def test_exit_in_a_hook_is_an_error_of_the_hook() -> None:
    with pytest.raises(RuntimeError, match="SystemExit: bye"):
        await call(sys.exit, "bye")


async def test_hanging_hook_is_given_up_when_cancelled() -> None:
    release, done = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait()
        done.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await in_thread(hang)
    release.set()
    assert await in_thread(done.wait, 30)


class Odd(DevicePlugin):
    resource_name = "example.com/odd"

    def __init__(self, found: object) -> None:
        self.found = found

    def discover(self) -> object:  # type: ignore[override]  # authors return all kinds of things
        return self.found


async def async_devices() -> AsyncIterator[Device]:
    yield Device("a")


def lazy_devices(threads: list[threading.Thread]) -> Iterator[Device]:
    threads.append(threading.current_thread())
    yield Device("a")


@pytest.mark.parametrize("found", [[Device("a")], (Device("a"),), iter([Device("a")]), {"a": Device("a")}.values()])
async def test_every_kind_of_iterable_is_a_list(found: object) -> None:
    assert await discovered(Odd(found)) == [Device("a")]


async def test_async_generator_from_a_plain_function_is_a_list() -> None:
    assert await discovered(Odd(async_devices())) == [Device("a")]


async def test_nothing_is_not_an_empty_list() -> None:
    with pytest.raises(InvalidDiscovery, match="does it lack a `return`"):
        await discovered(Odd(None))


async def test_lazy_iterators_are_read_in_the_thread() -> None:
    threads: list[threading.Thread] = []
    assert await discovered(Odd(filter(None, lazy_devices(threads)))) == [Device("a")]
    assert threads != [threading.main_thread()]


@pytest.mark.parametrize("found", [["a"], "a", [None]])
async def test_what_is_no_device_is_refused(found: object) -> None:
    with pytest.raises(InvalidDevice, match=r"has to give plugbay\.Device values"):
        await discovered(Odd(found))
