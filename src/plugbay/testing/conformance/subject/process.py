"""The plugin under test as a process: started, watched, signalled, ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity, kill_session, read_stat, signal_group, wait_end
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.output import OutputEnd
from plugbay.testing.conformance.subject.usage import ResourceUsage, listening_ports, tree_usage

_PROC: Final = Path("/proc")
_END_S: Final = 5.0
"""The time that a plugin has after SIGTERM, when no rule looks at that, before it is killed."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGHUP)
_OUTPUT_S: Final = 1.0
"""The time for the last output of a plugin that has ended; a process that it left behind may keep the pipe open."""


class Subject:
    """One process of the plugin; used through `start_subject`.

    Attributes:
        pid: its process, which leads a session and a group of its own.
        ended: set when it has ended.
        was_asked_to_end: whether a signal of ours may be why.
        output: the end of what it printed.
    """

    def __init__(self, process: asyncio.subprocess.Process, leader: ProcessIdentity) -> None:
        self._process = process
        self._leader = leader
        self.pid = process.pid
        self.ended = asyncio.Event()
        self.was_asked_to_end = False
        self.output = OutputEnd()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal as in `subprocess`; None while it runs."""
        return self._process.returncode

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, as a kubelet's container runtime does."""
        self.was_asked_to_end |= number in _ENDING
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def until_ended(self, timeout_s: float) -> bool:
        """Whether it ended in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()
        return self.ended.is_set()

    async def usage(self) -> ResourceUsage:
        """The usage of it and of all processes below it, now."""
        return await asyncio.to_thread(tree_usage, self.pid, proc_root=_PROC)

    async def ports(self) -> list[int]:
        """The TCP ports on which it listens."""
        return await asyncio.to_thread(listening_ports, self.pid, proc_root=_PROC)

    async def end(self) -> None:
        """End it and all processes that it started: with SIGTERM, and soon with SIGKILL."""
        if self.is_running:
            self.was_asked_to_end = True
            signal_group(self._leader, signal.SIGTERM, proc_root=_PROC)
            signal_group(self._leader, signal.SIGCONT, proc_root=_PROC)  # a stopped one would not hear it
            await self.until_ended(_END_S)
        await self.kill()

    async def kill(self) -> None:
        """Kill it and all processes that it started."""
        self.was_asked_to_end |= self.is_running
        for left in await asyncio.to_thread(kill_session, self._leader, proc_root=_PROC):
            if left.pid != self.pid:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_S):
                        await wait_end(left, proc_root=_PROC)
        await self.ended.wait()

    async def follow(self, output: int) -> None:
        """Read what it prints to the pipe ``output``, until it has ended; for `start_subject`."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self.output.follow(output), name="output")
            await self._process.wait()
            await asyncio.wait([reading], timeout=_OUTPUT_S)
            reading.cancel()
        self.ended.set()


@asynccontextmanager
async def start_subject(command: PluginCommand, root: Path, environ: Mapping[str, str]) -> AsyncIterator[Subject]:
    """Start the plugin, with ``root`` as its kubelet's root; at the end of the block it is ended.

    Raises:
        CannotJudge: the program is not there, or cannot be run.
    """
    variables = {**environ, **command.environment_for(str(root))}
    words = command.words_for(str(root))
    try:
        output, process = await _started(words, variables)
    except OSError as error:
        raise CannotJudge(f"{words[0]} cannot be run: {error.strerror or error}") from error
    async with asyncio.TaskGroup() as tasks:
        subject = Subject(process, _identity(process.pid))
        following = tasks.create_task(subject.follow(output))
        try:
            yield subject
        finally:
            await asyncio.shield(subject.end())
            await following


async def _started(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, asyncio.subprocess.Process]:
    """The process, and the pipe that it prints to. asyncio would wait for a pipe of its own as for the process."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            env=variables,
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading, process


def _identity(pid: int) -> ProcessIdentity:
    """The identity of a child, which exists at least as a zombie until it is waited for."""
    stat = read_stat(pid, proc_root=_PROC)
    return stat.identity if stat is not None else ProcessIdentity(pid, start_ticks=os.sysconf("SC_CLK_TCK"))
