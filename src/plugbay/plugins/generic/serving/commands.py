"""Run an operator's command: in a session of its own, with a deadline, and killed as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plugbay.errors.wording import on_one_line
from plugbay.kernel.tying import end_tied, start_tied
from plugbay.values import dataclass

_KEPT_BYTES: Final = 1024
"""The part of a command's output that is read; the rest is thrown away."""
_READ_BYTES: Final = 4096
_CANNOT_RUN: Final = 126
_NOT_FOUND: Final = 127


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The end of a command.

    Attributes:
        problem: why it does not count as a success, as the end of a sentence; empty for exit code 0.
        said: the first line of its output that is not empty, of both streams.
        is_late: whether it was killed at its deadline.
    """

    problem: str = ""
    said: str = ""
    is_late: bool = False

    @property
    def word(self) -> str:
        """The outcome in a word, for counts."""
        if self.is_late:
            return "late"
        return "failed" if self.problem else "ok"


async def run_command(words: Sequence[str], *, environ: Mapping[str, str], timeout_s: float) -> CommandOutcome:
    """Run a command to its end, in ``/`` and without input.

    It is killed at the deadline, when this is cancelled, and with this process. All that descends from it is killed
    then, and when it ends.

    Args:
        words: the program, by its path or looked for in ``PATH`` of ``environ``, and its arguments.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    output = _CommandOutput(reading)
    try:
        os.set_blocking(writing, True)  # of the writing end only: they are two open files
        with _closing(writing):
            process = await start_tied(words, environ=environ, output=writing, directory="/")
        is_late = False
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            is_late = True
        finally:
            end_tied(process)
            await process.wait()
        output.read()
    finally:
        output.close()
    said = output.first_line()
    if is_late:
        return CommandOutcome(f"did not end within {timeout_s:g} s and was killed", said, is_late=True)
    return CommandOutcome(_problem(process.returncode or 0), said)


def _problem(code: int) -> str:
    if code == 0:
        return ""
    if code < 0:
        return f"was ended by signal {-code}"
    if code in (_NOT_FOUND, _CANNOT_RUN):
        return "cannot be run" if code == _CANNOT_RUN else "was not found"
    return f"ended with exit code {code}"


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


class _CommandOutput:
    """Reads a pipe as it fills, so that a command that says much does not wait; keeps the beginning."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reading, self.read)

    def read(self) -> None:
        """Read what is there."""
        with contextlib.suppress(BlockingIOError):
            while read := os.read(self._reading, _READ_BYTES):
                self._kept = (self._kept + read)[:_KEPT_BYTES]
            self._loop.remove_reader(self._reading)  # nothing has the other end any more

    def first_line(self) -> str:
        lines = self._kept.decode(errors="replace").splitlines()
        return on_one_line(next((each.strip() for each in lines if each.strip()), ""))

    def close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
