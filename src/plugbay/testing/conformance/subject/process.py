"""The plugin under test as a process: started, watched, signalled, ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity, read_stat, send_signal, signal_group
from plugbay.kernel.tying import end_tied, start_tied
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.subject.command import SubjectCommand, SubjectLaunch
from plugbay.testing.conformance.subject.output import OutputEnd
from plugbay.testing.conformance.subject.usage import ResourceUsage, listening_ports, tree_usage

_PROC: Final = Path("/proc")
_END_S: Final = 5.0
"""The time that a plugin has after SIGTERM, when no rule looks at that, before it is killed."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGHUP)
_CONTAINER_S: Final = 30.0
"""The time that an engine has to start a container, on a machine that is busy."""
_LOOK_S: Final = 0.01
_BY_SIGNAL: Final = 128
_OUTPUT_S: Final = 1.0
"""The time for the last output of a plugin that has ended; what could not be killed may keep the pipe open."""


class Subject:
    """One process of the plugin; used through `start_subject`.

    Attributes:
        pid: its process; unless it runs in a container, that leads a session and a group of its own.
        ended: set when it has ended.
        was_asked_to_end: whether a signal of ours may be why.
        output: the end of what it printed.
    """

    def __init__(self, above: asyncio.subprocess.Process, leader: ProcessIdentity, plugin: ProcessIdentity) -> None:
        self._above = above
        self._leader = leader
        self._plugin = plugin
        self.pid = plugin.pid
        self.ended = asyncio.Event()
        self.was_asked_to_end = False
        self.output = OutputEnd()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal as in `subprocess`; None while it runs."""
        code = self._above.returncode
        if code is None or self._is_leader or code <= _BY_SIGNAL:
            return code
        return _BY_SIGNAL - code  # an engine tells of a signal as a shell does

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, as a kubelet's container runtime does."""
        self.was_asked_to_end |= number in _ENDING
        send_signal(self._plugin, number, proc_root=_PROC)

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
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped one would not hear the first
                self._signal_all(number)
            await self.until_ended(_END_S)
        await self.kill()

    async def kill(self) -> None:
        """Kill it and all processes that it started."""
        self.was_asked_to_end |= self.is_running
        if not self._is_leader:
            self.send(signal.SIGKILL)
            await self.until_ended(_END_S)
        end_tied(self._above)
        await self.ended.wait()

    @property
    def _is_leader(self) -> bool:
        return self._plugin == self._leader

    def _signal_all(self, number: signal.Signals) -> None:
        if self._is_leader:
            signal_group(self._leader, number, proc_root=_PROC)
        else:
            send_signal(self._plugin, number, proc_root=_PROC)

    async def follow(self, output: int) -> None:
        """Read what it prints to the pipe ``output``, until it has ended; for `start_subject`."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self.output.follow(output), name="output")
            await self._above.wait()
            await asyncio.wait([reading], timeout=_OUTPUT_S)
            reading.cancel()
        self.ended.set()


@asynccontextmanager
async def start_subject(command: SubjectCommand, root: Path, environ: Mapping[str, str]) -> AsyncIterator[Subject]:
    """Start the plugin, with ``root`` as its kubelet's root; at the end of the block it is ended.

    When it has ended, by itself or because this process was killed, all that descends from it is killed (`tied`).

    Raises:
        CannotJudge: the program is not there, or cannot be run.
    """
    launch = await asyncio.to_thread(command.launch, root)
    try:
        async with _started(launch.words, {**environ, **launch.environment}) as (above, leader, output):
            subject = Subject(above, leader, await _plugin_of(launch, above, leader))
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(subject.follow(output))
                try:
                    yield subject
                finally:
                    await asyncio.shield(subject.end())
                    await following
    finally:
        await asyncio.to_thread(launch.clean)


async def _plugin_of(
    launch: SubjectLaunch, above: asyncio.subprocess.Process, leader: ProcessIdentity
) -> ProcessIdentity:
    """The plugin's own process; the one that was started if no other comes."""
    if launch.pid_file is None:
        return leader
    with suppress(TimeoutError):
        async with asyncio.timeout(_CONTAINER_S):
            while above.returncode is None:
                if text := await asyncio.to_thread(_content, launch.pid_file):
                    stat = read_stat(int(text), proc_root=_PROC)
                    return leader if stat is None else stat.identity
                await asyncio.sleep(_LOOK_S)
    return leader


def _content(path: Path) -> str:
    return path.read_text(encoding="ascii").strip() if path.is_file() else ""


@asynccontextmanager
async def _started(
    words: Sequence[str], variables: Mapping[str, str]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, ProcessIdentity, int]]:
    """The process above the program, the program, and the pipe that it prints to; both have ended after the block.

    asyncio would wait for a pipe of its own as for the process.

    Raises:
        CannotJudge: the program cannot be run.
    """
    if shutil.which(words[0], path=variables.get("PATH")) is None:
        raise CannotJudge(f"{words[0]} cannot be run: there is no such program, or it is not executable")
    reading, writing = os.pipe2(os.O_CLOEXEC)
    told, telling = os.pipe2(os.O_CLOEXEC)
    try:
        above = await start_tied(words, environ=variables, output=writing, telling=telling)
    except BaseException:
        os.close(reading)
        os.close(told)
        raise
    finally:
        os.close(writing)
        os.close(telling)
    try:
        yield above, await asyncio.to_thread(_identity_told, told, words[0]), reading
    finally:
        end_tied(above)
        await above.wait()


def _identity_told(told: int, program: str) -> ProcessIdentity:
    with os.fdopen(told, "rb") as pipe:
        words = pipe.read().split()
    if not words:
        raise CannotJudge(f"{program} cannot be run: no process can be started")
    pid, start_ticks = map(int, words)
    return ProcessIdentity(pid, start_ticks)


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGSEGV; its number if it has none, as real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
