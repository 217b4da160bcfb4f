"""Calling what an author wrote, whether it is plain, async or a generator, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, Final

from plugbay.ops.tasks import to_the_end
from plugbay.sdk.hooks.blocking import Stepwise


async def call(hook: Callable[..., Any], *arguments: object) -> Any:
    """The result of a plain or async hook. Plain ones run in a thread."""
    if inspect.iscoroutinefunction(hook):
        return await Stepwise(hook(*arguments), hook)
    answer = await in_thread(hook, *arguments)
    return await Stepwise(answer, hook) if inspect.isawaitable(answer) else answer


async def call_to_the_end(hook: Callable[..., Any], *arguments: object) -> Any:
    """Call as `call`; when cancelled it returns only after a plain hook, which nothing can stop, has ended."""
    if inspect.iscoroutinefunction(hook):
        return await Stepwise(hook(*arguments), hook)
    answer = await to_the_end(_started(hook, *arguments))
    return await Stepwise(answer, hook) if inspect.isawaitable(answer) else answer


async def given(find: Callable[[], Any]) -> Any:
    """The result of ``find``: a list, an async iterator that is not begun, or something else.

    A plain one runs in a thread.
    """
    if inspect.iscoroutinefunction(find):
        return await Stepwise(find(), find)
    found = await in_thread(_collect, find)
    return await Stepwise(found, find) if inspect.isawaitable(found) else found


async def each_of(items: AsyncIterable[Any], find: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    """The items of an async iterable that ``find`` gave; it is closed with this."""
    iterator = aiter(items)
    try:
        while True:
            try:
                item = await Stepwise(anext(iterator), find)
            except StopAsyncIteration:
                return
            yield item
    finally:
        if hasattr(iterator, "aclose"):
            await Stepwise(iterator.aclose(), find)


async def in_thread(function: Callable[..., Any], *arguments: object) -> Any:
    """The result of ``function``, run in a thread of its own that is not waited for at the end.

    The loop's executor will not do: hooks that hang would use up its threads, and keep the process from ending.
    """
    return await _started(function, *arguments)


def _started(function: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def work() -> Callable[[], None]:
        settle: Callable[[asyncio.Future[Any], Any], None] = _set_exception
        value: Any
        try:
            value = context.run(function, *arguments)
            settle = _set_result
        except Exception as error:
            value = error
        except BaseException as error:  # sys.exit() in a hook ends the call, not every plugin of the process
            value = RuntimeError(f"{type(error).__name__}: {error}")

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
                loop.call_soon_threadsafe(settle, outcome, value)

        return tell

    _threads.hand(work)
    return outcome


def dismiss_threads() -> None:
    """End the thread that is kept for the next hook, if there is one, and wait until it has ended."""
    _threads.dismiss()


_Work = Callable[[], Callable[[], None]]
"""Gives what is to be called when the thread is free again."""


class _Threads:
    """Threads for hooks; one that has nothing to do is kept for the next hook.

    Kept because it is measured: a hook in the kept thread takes 23 µs, in a new one 83 µs, and an Allocate as a whole
    some 500 µs (``make bench``).
    """

    def __init__(self) -> None:
        self._idle: list[tuple[SimpleQueue[_Work | None], threading.Thread]] = []
        """The thread that waits for work, if there is one, with what it waits on."""
        self._lock = threading.Lock()
        """This lock is for threads that run out of work at the same time: one of them is kept."""

    def hand(self, work: _Work) -> None:
        try:
            inbox, _ = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._work_off, args=(inbox,), name="hooks", daemon=True).start()
        inbox.put(work)

    def dismiss(self) -> None:
        try:
            inbox, thread = self._idle.pop()
        except IndexError:
            return
        inbox.put(None)
        thread.join()

    def _work_off(self, inbox: SimpleQueue[_Work | None]) -> None:
        is_kept = True
        while is_kept and (work := inbox.get()) is not None:
            tell = work()
            del work
            with self._lock:
                if is_kept := not self._idle:
                    self._idle.append((inbox, threading.current_thread()))
            tell()
            del tell  # with the hook's result


_threads: Final = _Threads()


def _set_result(outcome: asyncio.Future[Any], value: Any) -> None:
    if not outcome.done():  # else cancelled
        outcome.set_result(value)


def _set_exception(outcome: asyncio.Future[Any], error: Exception) -> None:
    if isinstance(error, StopIteration):  # no future can hold it
        error = RuntimeError(f"StopIteration: {error}")
    if not outcome.done():
        outcome.set_exception(error)


def _collect(discover: Callable[[], Any]) -> Any:
    """Iterators may do their work while they are read, so they are read here, in the thread."""
    found = discover()
    if inspect.isawaitable(found) or hasattr(found, "__aiter__") or not isinstance(found, Iterable):
        return found
    return list(found)
