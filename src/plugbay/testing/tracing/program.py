"""The program of a plugin, as the commands that watch it tell of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import PluginProgramFailed
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.process import Subject, signal_name, start_subject

LAST_LINES: Final = 12
"""The lines of its output that an error shows."""
_LONGEST_LINE: Final = 500
_SIGNALLED: Final = 128


@asynccontextmanager
async def running(command: PluginCommand, root: Path, environ: Mapping[str, str]) -> AsyncIterator[Subject]:
    """Run the program during the block, with ``root`` as its kubelet's root; at the end all its processes are ended.

    Raises:
        PluginProgramFailed: it is not there, or cannot be run.
    """
    starting = start_subject(command, root, environ)
    try:
        subject = await starting.__aenter__()
    except CannotJudge as error:
        raise PluginProgramFailed(command.words[0], f"was not started: {error}", "") from error
    try:
        yield subject
    finally:
        await starting.__aexit__(None, None, None)


def failure_of(command: PluginCommand, subject: Subject, problem: str) -> PluginProgramFailed:
    """The error that says what the program did, or did not do, with the end of its output."""
    lines = subject.output.text.splitlines()[-LAST_LINES:]
    return PluginProgramFailed(command.words[0], problem, "\n".join(line[-_LONGEST_LINE:] for line in lines))


def how_ended(subject: Subject) -> str:
    """The way in which it ended, as a clause."""
    code = subject.exit_code
    if code is None:
        return "runs on"
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def shell_code(subject: Subject) -> int:
    """Its exit code as a shell gives it."""
    code = subject.exit_code or 0
    return _SIGNALLED - code if code < 0 else code
