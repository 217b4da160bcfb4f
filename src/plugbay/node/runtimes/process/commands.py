"""Commands run beside a container: its environment and directory, a session of their own, output as it comes."""

from __future__ import annotations

import asyncio
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plugbay.errors import ExecFailed
from plugbay.kernel.processes import ProcessIdentity, kill_session, read_stat, watch_end
from plugbay.node.runtimes.exec_input import ExecInput
from plugbay.node.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream
from plugbay.node.runtimes.process.consoles import Pipe, Spawned, fed, spawn
from plugbay.node.runtimes.process.records import failure_text

_HIGH_WATER_BYTES: Final = 256 * 1024
"""So much may wait for the consumer before the command has to."""


@dataclass(frozen=True, slots=True)
class Command:
    """``given`` is what it reads while it runs; None is an empty standard input."""

    container: ContainerId
    argv: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str
    given: ExecInput | None = None


async def run_command(
    command: Command, *, container: ProcessIdentity, proc_root: Path
) -> AsyncGenerator[ExecOutput | ExecExit, None]:
    """Run a command while ``container`` runs; the last item is the exit, 128 + n for signal n.

    It ends when the command has ended and its output is closed. Then, when the consumer leaves, and when the container
    ends, whatever is left of the command's session is killed.

    Raises:
        ExecFailed: it cannot be run.
    """
    spawned = await _spawn_uncancelled(command)
    process = spawned.process
    stat = read_stat(process.pid, proc_root=proc_root)
    assert stat is not None, "our child stays in /proc until we have waited for it"
    output = _Output(spawned.outputs)
    try:
        async with AsyncExitStack() as stack:
            await output.connect(stack)
            await stack.enter_async_context(fed(spawned, command.given))
            stack.enter_context(watch_end(stat.identity, output.command_ended, proc_root=proc_root))
            stack.enter_context(watch_end(container, output.abandon, proc_root=proc_root))
            while items := await output.receive():
                for item in items:
                    yield item
    finally:
        code = await asyncio.to_thread(_finish, process, stat.identity, proc_root)
    yield ExecExit(128 - code if code < 0 else code)


class _Output:
    """What the command wrote and nobody has taken yet, and whether more can come."""

    def __init__(self, pipes: Mapping[ExecStream, Pipe]) -> None:
        self._pipes = pipes
        self._waiting: deque[ExecOutput] = deque()
        self._waiting_bytes = 0
        self._transports: list[asyncio.ReadTransport] = []
        self._open_ends = len(pipes) + 1
        """The streams, and the command itself."""
        self._changed = asyncio.Event()

    async def connect(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        for stream, pipe in self._pipes.items():
            transport, _ = await loop.connect_read_pipe(lambda stream=stream: _Pipe(self, stream), pipe)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            stack.callback(transport.close)
            self._transports.append(transport)

    def add(self, item: ExecOutput) -> None:
        self._waiting.append(item)
        self._waiting_bytes += len(item.chunk)
        if self._waiting_bytes > _HIGH_WATER_BYTES:
            for transport in self._transports:
                transport.pause_reading()
        self._changed.set()

    def end_closed(self) -> None:
        self._open_ends -= 1
        self._changed.set()

    command_ended = end_closed

    def abandon(self) -> None:
        """Expect nothing more."""
        self._open_ends = 0
        self._changed.set()

    async def receive(self) -> list[ExecOutput]:
        """Wait for output; nothing when there will be no more."""
        while not self._waiting and self._open_ends > 0:
            self._changed.clear()
            await self._changed.wait()
        items = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        for transport in self._transports:
            transport.resume_reading()
        return items


class _Pipe(asyncio.Protocol):
    def __init__(self, output: _Output, stream: ExecStream) -> None:
        self._output = output
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        self._output.add(ExecOutput(self._stream, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._output.end_closed()


async def _spawn_uncancelled(command: Command) -> Spawned:
    """Spawn in a thread: it waits until the program is loaded. Who is cancelled meanwhile leaves no process behind."""
    spawned = asyncio.get_running_loop().run_in_executor(None, _spawn, command)
    try:
        return await asyncio.shield(spawned)
    except asyncio.CancelledError:
        spawned.add_done_callback(_discard)
        raise


def _spawn(command: Command) -> Spawned:
    console = command.given.console if command.given is not None else None
    try:
        return spawn(command.argv, command.env, command.working_dir, console)
    except OSError as error:
        step = "chdir" if error.filename == command.working_dir else "exec"
        raise ExecFailed(command.container, failure_text(step, error, command.argv[0], command.working_dir)) from error
    except ValueError as error:
        raise ExecFailed(command.container, str(error)) from error


def _discard(spawned: asyncio.Future[Spawned]) -> None:
    if not spawned.cancelled() and spawned.exception() is None:
        spawned.result().discard()


def _finish(process: subprocess.Popen[bytes], leader: ProcessIdentity, proc_root: Path) -> int:
    kill_session(leader, proc_root=proc_root)
    return process.wait()
