"""Starts programs that end, with all that descends from them, when this process does; see `tied`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from plugbay.kernel import tied


async def start_tied(
    words: Sequence[str],
    *,
    environ: Mapping[str, str],
    output: int,
    directory: str | None = None,
    telling: int | None = None,
) -> asyncio.subprocess.Process:
    """Start a program without input; returns the process above it, which ends as the program does.

    Args:
        words: the program and its arguments.
        output: the descriptor that it prints to, on both its streams.
        directory: its working directory; None for ours.
        telling: the descriptor to which the program's own process is told, as ``PID START_TICKS``.
    """
    told = "-" if telling is None else str(telling)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", tied.__file__, str(os.getpid()), told, *words),
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        pass_fds=() if telling is None else (telling,),
    )


def end_tied(process: asyncio.subprocess.Process) -> None:
    """Have the program killed, and all that descends from it; the process above it ends when that is done."""
    with suppress(ProcessLookupError):
        process.terminate()
