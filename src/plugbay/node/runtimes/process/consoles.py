"""The standard streams of a command: pipes, or a terminal of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from plugbay.node.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.node.runtimes.port import ExecStream

_LAUNCHER: Final = Path(__file__).with_name("terminal_launcher.py")
_END_OF_INPUT: Final = b"\x04"
"""What Ctrl-D sends: a terminal has no other end."""

Pipe = IO[bytes]


@dataclass(frozen=True, slots=True)
class Spawned:
    """A command that runs.

    Attributes:
        outputs: what it prints; closed by whoever reads them.
        input: what it reads, if it was to be given something.
    """

    process: subprocess.Popen[bytes]
    outputs: Mapping[ExecStream, Pipe]
    input: Pipe | None = None

    def discard(self) -> None:
        """Nobody wants it any more."""
        for pipe in (*self.outputs.values(), self.input):
            if pipe is not None:
                pipe.close()
        os.killpg(self.process.pid, 9)
        self.process.wait()


def spawn(argv: tuple[str, ...], env: Mapping[str, str], working_dir: str, console: Console | None) -> Spawned:
    """Run a command in a session of its own; waits until the program is loaded.

    Raises:
        OSError, ValueError: it cannot be run. On a terminal, a missing program is told there.
    """
    if console is Console.TERMINAL:
        return _spawn_on_terminal(argv, env, working_dir)
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=working_dir,
        stdin=subprocess.PIPE if console else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    return Spawned(process, {ExecStream.STDOUT: process.stdout, ExecStream.STDERR: process.stderr}, process.stdin)


def _spawn_on_terminal(argv: tuple[str, ...], env: Mapping[str, str], working_dir: str) -> Spawned:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", os.fspath(_LAUNCHER), *argv],
            env={"TERM": "xterm", **env},
            cwd=working_dir,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    # Two files, as each is closed by its own reader or writer.
    return Spawned(
        process,
        {ExecStream.STDOUT: os.fdopen(ours, "rb", buffering=0)},
        os.fdopen(os.dup(ours), "wb", buffering=0),
    )


@asynccontextmanager
async def fed(spawned: Spawned, given: ExecInput | None) -> AsyncIterator[None]:
    """While the block runs, the command gets what it is ``given``."""
    if given is None or spawned.input is None:
        yield
        return
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: _Flow(given), spawned.input)
    given.connect(_Sink(transport, spawned.input, given.console))
    try:
        yield
    finally:
        given.disconnect()
        # After its end was written a transport closes by itself; to abort it once more breaks asyncio.
        if not transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()


class _Flow(asyncio.BaseProtocol):
    """Tells whether the command takes more; one that has closed its input takes everything, and it is lost."""

    def __init__(self, given: ExecInput) -> None:
        self._given = given

    def pause_writing(self) -> None:
        self._given.pause()

    def resume_writing(self) -> None:
        self._given.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._given.disconnect()


class _Sink:
    def __init__(self, transport: asyncio.WriteTransport, pipe: Pipe, console: Console) -> None:
        self._transport = transport
        self._pipe = pipe
        self._console = console

    def write(self, chunk: bytes) -> None:
        self._transport.write(chunk)

    def end(self) -> None:
        if self._console is Console.TERMINAL:
            self._transport.write(_END_OF_INPUT)
        else:
            self._transport.write_eof()

    def resize(self, size: TerminalSize) -> None:
        if self._console is Console.TERMINAL:
            with contextlib.suppress(OSError):  # the command has just gone
                fcntl.ioctl(self._pipe.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
