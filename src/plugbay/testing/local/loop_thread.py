"""An event loop in a thread of its own, for code that is not async."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # see `_close_at_exit`
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from plugbay.errors import UsageError

Value = TypeVar("Value")
Result = TypeVar("Result")
_OPENING_S: Final = 30.0
_open: WeakSet[LoopThread[Any]] = WeakSet()


@cache
def _close_at_exit() -> None:
    """Have all that are open closed when Python exits, before executors refuse work, which closing needs.

    `atexit` comes too late for that. What `concurrent.futures` itself uses is called in reverse order, so its module
    has to be imported before this one registers.
    """
    register: Callable[[Callable[[], object]], object] = getattr(threading, "_register_atexit", atexit.register)
    register(_close_all)


def _close_all() -> None:
    for each in tuple(_open):
        each.close()


class LoopThread(Generic[Value]):
    """Keeps an async context manager open in a thread, and does work in its loop, until `close`.

    Args:
        manager: makes the context manager; called in the thread.

    Attributes:
        value: what the context manager gave.
    """

    def __init__(self, manager: Callable[[], AbstractAsyncContextManager[Value]], *, name: str) -> None:
        self._opened: Future[tuple[Value, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(manager)), name=name, daemon=True)
        try:
            self._thread.start()
            _close_at_exit()
            _open.add(self)
            self.value, self._loop, self._closing = self._opened.result()
        except BaseException:
            _open.discard(self)
            self._end_opening()
            raise

    @property
    def is_closed(self) -> bool:
        return not self._thread.is_alive()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the thread."""
        return threading.current_thread() is self._thread

    def do(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of a coroutine, which runs in the thread; it is cancelled when the caller is interrupted."""
        __tracebackhide__ = True
        if self.is_closed:
            raise UsageError("this kubelet is closed")
        if self.is_here:
            raise UsageError("a condition may look at the kubelet, but not make it do something")
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def look(self, work: Callable[[], Result]) -> Result:
        """The result of a function that does not wait; it runs in the thread."""
        __tracebackhide__ = True
        if self.is_here:
            return work()

        async def looked() -> Result:
            return work()

        return self.do(looked)

    def close(self) -> None:
        """Leave the context manager and end the thread. Harmless twice."""
        _open.discard(self)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def _end_opening(self) -> None:
        """Wait until nothing is open: after Ctrl-C, which may come while the thread starts, it may open yet."""
        self._opened.add_done_callback(_close_opened)
        concurrent.futures.wait([self._opened], timeout=_OPENING_S)
        if self._thread.ident is not None:
            self._thread.join()

    async def _live(self, manager: Callable[[], AbstractAsyncContextManager[Value]]) -> None:
        closing = asyncio.Event()
        try:
            async with manager() as value:
                self._opened.set_result((value, asyncio.get_running_loop(), closing))
                await closing.wait()
        except BaseException as error:  # told to the thread that waits for the opening
            if self._opened.done():
                raise
            self._opened.set_exception(_only(error))


def _close_opened(opened: Future[tuple[Any, asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    if opened.exception() is None:
        _, loop, closing = opened.result()
        loop.call_soon_threadsafe(closing.set)


def _only(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
