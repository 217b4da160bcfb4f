"""A function in a process of its own, which may hang, crash or be killed without harm to ours.

The process is `worker_main`, lean and started anew rather than forked: ours has threads and gRPC in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from plugbay.errors import CannotIsolate
from plugbay.ops.worker_process import WorkerProcess
from plugbay.values import dataclass

_PROGRAM: Final = Path(__file__).with_name("worker_main.py")
_LENGTH_BYTES: Final = 4
START_S: Final = 30.0
"""Vendor libraries take their time to load."""


@dataclass(frozen=True, slots=True)
class Returned:
    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised; ``problem`` is the type and the text of its exception."""

    problem: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer in time; the process was killed."""


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended during the call; ``how`` says ``was killed by SIGABRT`` or ``exited with code 3``."""

    how: str


Answer = Returned | Raised | TimedOut | Died


class Worker:
    """Calls ``function`` in a process of its own, one call at a time; open in ``async with``.

    The process starts with the first call, and again with the first one after it died or was killed. It has what the
    function is bound to as that was when the process started: later changes do not reach it.

    Raises:
        CannotIsolate: another process cannot get at ``function``: it has to be pickled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        _pickled_task(function)  # to fail here, if it fails
        self._function = function
        self._process: WorkerProcess | None = None
        self._is_ready = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._kill()

    @property
    def pid(self) -> int | None:
        """The process that would answer the next call; None when a new one would be started."""
        return self._process.pid if self._process is not None and self._is_ready else None

    @property
    def rss_bytes(self) -> int:
        """The memory that the process has to itself or shares; 0 when there is none."""
        return self._process.rss_bytes if self._process is not None and self._is_ready else 0

    async def recycle(self) -> None:
        """End the process; the next call starts a new one."""
        await self._kill()

    async def call(self, *arguments: object, timeout_s: float) -> Answer:
        """One call. The time that a new process takes to start does not count, but has a limit of its own."""
        import pickle  # here and below: most plugins have no worker, and it takes half a megabyte

        request = pickle.dumps(arguments)
        if not self._is_ready:
            problem = await self._start()
            if problem is not None:
                return problem
        return await self._exchange(request, timeout_s)

    async def _start(self) -> Answer | None:
        """Start a process and have it load the function; what went wrong, or None."""
        if self._process is not None and not await self._kill():
            return TimedOut()  # no second process beside one that hangs in the kernel
        try:
            task = _pickled_task(self._function)
        except CannotIsolate as error:  # for what it has got since
            return Raised(str(error))
        try:
            self._process = await WorkerProcess.start(_PROGRAM)
        except OSError as error:  # too many processes or files, or no memory: so at this moment
            return Raised(f"no process can be started for it: {error}")
        loaded = await self._exchange(task, START_S)
        if isinstance(loaded, Returned):
            self._is_ready = True
            return None
        await self._kill()
        return loaded

    async def _exchange(self, request: bytes, timeout_s: float) -> Answer:
        import pickle

        process = self._process
        assert process is not None
        is_answered = False
        try:
            async with asyncio.timeout(timeout_s):
                process.requests.write(len(request).to_bytes(_LENGTH_BYTES, "big") + request)
                await process.requests.drain()
                size = int.from_bytes(await process.answers.readexactly(_LENGTH_BYTES), "big")
                outcome, value = pickle.loads(await process.answers.readexactly(size))
            is_answered = True
        except TimeoutError:
            return TimedOut()
        except (ConnectionError, asyncio.IncompleteReadError):
            return Died(await process.how_it_ended())
        except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError, TypeError) as error:
            return Raised(f"its answer cannot be read: {error}")
        finally:
            if not is_answered:  # cancelled too: what comes now answers no call
                self._is_ready = False
                await self._kill()
        return Returned(value) if outcome == "returned" else Raised(str(value))

    async def _kill(self) -> bool:
        """End the process and what it started; returns whether it has ended."""
        self._is_ready = False
        if self._process is not None and not await self._process.kill():
            return False
        self._process = None
        return True


def _pickled_task(function: Callable[..., Any]) -> bytes:
    """Pickle ``function`` for the worker, with the search path of modules and the module to load."""
    import pickle

    subject = getattr(function, "__self__", function)
    name: str = subject.__module__ if hasattr(subject, "__module__") else function.__module__
    try:
        pickled = pickle.dumps(function)
    except Exception as error:  # what is bound to the function may raise anything
        raise CannotIsolate(getattr(function, "__qualname__", repr(function)), str(error)) from error
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    file = getattr(module, "__file__", None)
    if name == "__main__" and spec is None and file is None:
        raise CannotIsolate(getattr(function, "__qualname__", repr(function)), "it is in no file")
    search_path = [os.path.abspath(entry) for entry in sys.path]
    return pickle.dumps((search_path, (name, spec.name if spec is not None else None, file), pickled))
