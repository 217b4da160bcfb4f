"""Commands run beside a container: its environment and directory, a session of their own, output as it comes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import ExecFailed
from plugbay.kernel.processes import kill_session, wait_end
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream
from plugbay.runtimes.supervised.consoles import Pipe, Streams, TerminalMaker, fed, open_streams
from plugbay.runtimes.supervised.exec_client import ExecConnection, StartFailure, invite
from plugbay.runtimes.supervised.instance import failure_text
from plugbay.values import dataclass

_HIGH_WATER_BYTES: Final = 256 * 1024
"""The most bytes that wait for the consumer; beyond that the command has to wait."""
_KILLED: Final = 128 + signal.SIGKILL
_NOT_TAKEN: Final = "its wrapper takes no commands: it has just ended, or plugbay was replaced since it was started"

_NOT_ATTACHED: Final = "an older plugbay started it, and lets no client attach; that is possible after its next start"
_CHUNK_BYTES: Final = 64 * 1024
_DRAINED_CHUNKS: Final = 64


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A command as it is run.

    Attributes:
        directory: the instance's.
        given: the input while it runs; None is an empty standard input.
        terminal_maker: makes the terminal, if it is given one.
    """

    container: ContainerId
    directory: Path
    argv: tuple[str, ...]
    working_dir: str
    given: ExecInput | None = None
    terminal_maker: TerminalMaker = TerminalMaker.NODE


async def run_command(command: ExecCommand, *, proc_root: Path) -> AsyncGenerator[ExecOutput | ExecExit, None]:
    """Run a command while the container runs; the last item is the exit, 128 + n for signal n.

    It ends when the command has ended and its output is closed. Then, when the consumer leaves or is killed, and when
    the container ends, whatever is left of the command's session is killed.

    Raises:
        ExecFailed: it cannot be run.
    """
    console = command.given.console if command.given is not None else None
    words = ((console or Console.PIPES).value, *command.argv)
    with _refusals(command.container):
        streams, connection = _invited(command.directory, words, console, command.terminal_maker)
    output = _Output()
    guest = ExecConnection(on_end=output.command_ended, on_gone=output.abandon)
    try:
        async with aclosing(_exchanged(streams, connection, output, guest, command.given)) as items:
            async for item in items:
                yield item
    finally:
        await guest.leave()
        await _end_orphans(guest, proc_root)
    if guest.failure is not None:
        raise _refusal(command, guest.failure)
    if guest.leader is None:
        raise ExecFailed(command.container, _NOT_TAKEN)
    yield ExecExit(_KILLED if guest.exit_code is None else guest.exit_code)


async def run_attachment(
    container: ContainerId, directory: Path, given: ExecInput, *, gives_input: bool
) -> AsyncGenerator[ExecOutput, None]:
    """Be a client of the container itself until it ends.

    Raises:
        ExecFailed: its wrapper does not let clients in.
    """
    with _refusals(container):
        words = ("attach", "stdin" if gives_input else "nothing")
        streams, connection = _invited(directory, words, Console.PIPES)
    output = _Output()
    guest = ExecConnection(on_end=output.command_ended, on_gone=output.abandon)
    try:
        async with aclosing(_exchanged(streams, connection, output, guest, given, resize=guest.resize)) as items:
            async for item in items:
                yield item
    finally:
        await guest.leave()
    if guest.is_dropped:
        raise ExecFailed(container, "it printed much, of which the client has read nothing for some seconds")
    if not guest.is_attached:
        raise ExecFailed(container, _NOT_ATTACHED if guest.failure is not None else _NOT_TAKEN)


async def _exchanged(
    streams: Streams,
    connection: socket.socket,
    output: _Output,
    guest: ExecConnection,
    given: ExecInput | None,
    *,
    resize: Callable[[TerminalSize], None] | None = None,
) -> AsyncGenerator[ExecOutput, None]:
    async with AsyncExitStack() as stack:
        stack.callback(streams.close_ours)
        await asyncio.get_running_loop().create_unix_connection(lambda: guest, sock=connection)
        streams = await streams.with_terminal()
        stack.callback(streams.close_ours)
        await output.connect(streams.outputs, stack)
        await stack.enter_async_context(fed(streams.input, given, resize))
        while items := await output.receive():
            for item in items:
                yield item


def _invited(
    directory: Path, words: Sequence[str], console: Console | None, maker: TerminalMaker = TerminalMaker.NODE
) -> tuple[Streams, socket.socket]:
    streams = open_streams(console, maker)
    try:
        return streams, invite(directory, words, streams.theirs)
    except BaseException:
        streams.close_ours()
        raise
    finally:
        streams.close_theirs()


@contextmanager
def _refusals(container: ContainerId) -> Iterator[None]:
    """Say why a wrapper cannot be asked."""
    try:
        yield
    except (BrokenPipeError, ConnectionRefusedError, ConnectionResetError) as error:
        raise ExecFailed(container, _NOT_TAKEN) from error
    except FileNotFoundError as error:
        raise ExecFailed(container, "an older plugbay started it, and runs no command beside it") from error
    except BlockingIOError as error:
        raise ExecFailed(container, "too many commands wait for being run beside it") from error
    except OSError as error:
        raise ExecFailed(container, f"cannot ask for it: {error.strerror or error}") from error
    except ValueError as error:
        raise ExecFailed(container, str(error)) from error


def _refusal(command: ExecCommand, failure: StartFailure) -> ExecFailed:
    error = OSError(failure.errno, os.strerror(failure.errno))
    return ExecFailed(command.container, failure_text(failure.step, error, command.argv[0], command.working_dir))


async def _end_orphans(guest: ExecConnection, proc_root: Path) -> None:
    """Kill a command whose wrapper did not tell its end: the wrapper itself may have been killed."""
    if guest.leader is None or guest.exit_code is not None:
        return
    for process in await asyncio.to_thread(kill_session, guest.leader, proc_root=proc_root):
        await wait_end(process, proc_root=proc_root)


class _Output:
    """The output of the command that was not taken yet, and whether more can come."""

    def __init__(self) -> None:
        self._waiting: deque[ExecOutput] = deque()
        self._waiting_bytes = 0
        self._transports: list[asyncio.ReadTransport] = []
        self._pipes: Sequence[tuple[ExecStream, Pipe]] = ()
        self._open_ends = 1
        """The command itself, and the streams."""
        self._is_abandoned = False
        self._changed = asyncio.Event()

    async def connect(self, pipes: Sequence[tuple[ExecStream, Pipe]], stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        self._pipes = pipes
        for stream, pipe in pipes:
            transport, _ = await loop.connect_read_pipe(lambda stream=stream: _Pipe(self, stream), pipe)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            stack.callback(transport.close)
            self._transports.append(transport)
        if self._is_abandoned:
            self._drain()
        else:
            self._open_ends += len(pipes)

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
        """Expect nothing but what is there to be read."""
        self._is_abandoned = True
        self._drain()
        self._open_ends = 0
        self._changed.set()

    def _drain(self) -> None:
        """Read what was written before all that could write was gone; it may still be on its way to the transports."""
        for stream, pipe in self._pipes:
            for _ in range(_DRAINED_CHUNKS):
                try:
                    chunk = None if pipe.closed else pipe.read(_CHUNK_BYTES)
                except OSError:
                    break  # a terminal without processes
                if not chunk:
                    break
                self.add(ExecOutput(stream, chunk))

    async def receive(self) -> list[ExecOutput]:
        """Wait for output; returns nothing when no more can come."""
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
