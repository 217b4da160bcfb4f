"""An engine on an event loop that stands still between the rules of a state machine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from plugbay.pods.engine import PodEngine
from plugbay.testing.fake_node import FakeNode

QUIET_TURNS = 30
"""Of the event loop; the longest way from a cause to something one can see is about half as long."""

Node = TypeVar("Node", bound=FakeNode)


class EngineMachine(RuleBasedStateMachine, Generic[Node]):
    """Starts and stops the engine of a node, and lets it work."""

    def __init__(self, make: Callable[[Path], Node]) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._directory = tempfile.TemporaryDirectory()
        self._node = make(Path(self._directory.name))
        self._loop.set_default_executor(_InTurn())
        self._life: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._engine: PodEngine | None = None

    async def _start(self) -> None:
        self._stop = asyncio.Event()
        started = asyncio.Event()
        self._life = asyncio.get_running_loop().create_task(self._live(started, self._stop))
        await started.wait()

    async def _live(self, started: asyncio.Event, stop: asyncio.Event) -> None:
        async with self._node.engine() as self._engine:
            started.set()
            await stop.wait()

    async def _end(self) -> None:
        self._stop.set()
        assert self._life is not None
        await self._life

    @property
    def _running(self) -> PodEngine:
        assert self._engine is not None, "it is started first"
        return self._engine

    def _run(self, work: Coroutine[Any, Any, object] | None = None, *, turns: int | None = None) -> None:
        """``work``, and all that follows from it without time passing; with ``turns`` only so much of it."""
        self._loop.run_until_complete(self._settle(work) if turns is None else self._turn(work, turns))

    async def _turn(self, work: Coroutine[Any, Any, object] | None, turns: int) -> None:
        if work is not None:
            await work
        for _ in range(turns):
            await asyncio.sleep(0)

    async def _settle(self, work: Coroutine[Any, Any, object] | None) -> None:
        """Until nothing moves for a while of turns."""
        if work is not None:
            await work
        quiet, before = 0, None
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            runtime, clock = self._node.runtime, self._node.clock
            now = (self._node.pods.version, len(clock.naps), len(runtime.stopped), len(runtime.instances))
            quiet, before = (quiet + 1 if now == before else 0), now

    def _close(self) -> None:
        if self._life is not None:
            self._run(self._end())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._directory.cleanup()


class _InTurn(ThreadPoolExecutor):
    """Runs what is meant for a thread at once, so that nothing goes on unseen."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done
