"""Listens to a wrapper: its words about a start, their meaning, and how to continue a wrapper that was stopped."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
from collections.abc import Coroutine
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, TypeVar

from plugbay.kernel.processes import ProcessIdentity, is_stopped, send_signal
from plugbay.runtimes.supervised.traces import is_starting

_PROC: Final = Path("/proc")
_CONTINUED_S: Final = 5.0
"""The pause between looks whether a wrapper that has work was stopped."""
_CONTINUED_TIMES: Final = 3
_GIVING_UP_S: Final = 60.0
"""The deadline for a wrapper whose node was killed while it started the container; it ends as soon as it sees that."""
_GIVING_UP_LOOK_S: Final = 0.02
_SHORTAGES: Final = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
        *(errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT),
    }
)
"""Errors that pass: of descriptors, memory, processes and room on the disk."""
_SHORT_OF: Final = re.compile("too many open files|resource temporarily unavailable", re.IGNORECASE)
"""The same in an engine's words; one that says that memory is short may mean the limit of the container."""

_Result = TypeVar("_Result")


async def keep_going(wrapper: ProcessIdentity, work: Coroutine[Any, Any, _Result] | asyncio.Task[_Result]) -> _Result:
    """The result of ``work``, for which the wrapper has to act; stopped, it is continued, and at last killed.

    One that is slow, on a machine that is drowning, has all the time it needs.
    """
    working, tries = asyncio.ensure_future(work), _CONTINUED_TIMES
    try:
        while not (await asyncio.wait({working}, timeout=_CONTINUED_S))[0]:
            if is_stopped(wrapper, proc_root=_PROC):
                tries -= 1
                send_signal(wrapper, signal.SIGCONT if tries > 0 else signal.SIGKILL, proc_root=_PROC)
        return working.result()
    finally:
        working.cancel()


async def until_given_up(wrapper: ProcessIdentity) -> None:
    """Wait until a wrapper whose node was killed has ended, or runs the command after all: it was told to in time."""

    async def given_up() -> None:
        while await asyncio.to_thread(is_starting, wrapper, proc_root=_PROC):  # noqa: ASYNC110  # of that no event tells
            await asyncio.sleep(_GIVING_UP_LOOK_S)

    with suppress(TimeoutError):
        async with asyncio.timeout(_GIVING_UP_S):
            await keep_going(wrapper, given_up())


def start_reason(number: int | None, otherwise: str = "RunContainerError", *, text: str = "") -> str:
    """The reason of a start that failed with this error: for want of room it is tried again, and is not a run.

    Args:
        text: the words of an engine that gives no number.
    """
    return "CreateContainerError" if number in _SHORTAGES or _SHORT_OF.search(text) else otherwise


def read_to_end(pipe: int) -> asyncio.Task[str]:
    """A task that reads all that is written to ``pipe``; it closes the pipe even if it is cancelled before it began."""
    file = os.fdopen(pipe, "rb", buffering=0)
    reading = asyncio.create_task(_read(file))
    reading.add_done_callback(lambda _: file.close())
    return reading


async def _read(file: FileIO) -> str:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        transport.close()
