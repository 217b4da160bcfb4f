"""An event loop with nothing outside: waiting costs nothing, and everything comes in the same order again."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class _Nobody(selectors.SelectSelector):
    """No file is ever ready; instead of waiting, time is moved on."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0
        self.jumps = 0
        self.stop_before: int | None = None
        self.stop: Callable[[], None] = lambda: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (timeout > 0 and self.jumps == self.stop_before):
            assert self.stop_before is not None, "everybody waits for somebody else"
            self.stop()
        elif timeout > 0:
            self.jumps += 1
            self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Work for threads is done in the loop, one thing after the other.

    Attributes:
        troubles: errors that nobody took.
    """

    def __init__(self) -> None:
        self._nobody = _Nobody()
        self.troubles: list[BaseException] = []
        super().__init__(self._nobody)
        self._nobody.stop = self.stop
        self.set_exception_handler(self._trouble)

    def time(self) -> float:
        return self._nobody.now_s

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # typeshed has type variables here
        outcome = self.create_future()

        def work() -> None:
            if outcome.cancelled():
                return
            try:
                outcome.set_result(func(*args))
            except BaseException as error:
                outcome.set_exception(error)

        self.call_soon(work)
        return outcome

    def run_for(self, seconds: float) -> None:
        """Everything that happens within that time."""
        self.run_until_complete(asyncio.sleep(seconds))

    def run_moments(self, count: int) -> None:
        """All that can happen before time has moved on so many times."""
        self._nobody.stop_before = self._nobody.jumps + count
        self.run_forever()
        self._nobody.stop_before = None

    def run_steps(self, count: int) -> None:
        """So many times whatever is ready, without any time."""
        for _ in range(count):
            self.run_until_complete(asyncio.sleep(0))

    def end(self) -> None:
        """Cancel what is left and close."""
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.wait(left))
        self.close()

    def _trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (error := context.get("exception")) is not None:
            self.troubles.append(error)
