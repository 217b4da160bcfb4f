"""Turns to change a directory of specs: one process of ours has it at a time. All of it blocks."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.kernel.write_locks import lock

LOCK_NAME: Final = ".plugbay.lock"
"""The lock lies in the directory itself, which may be all that two pods of a plugin share. No other user may open it:
every user may read the directory, and could lock that."""
PATIENCE_S: Final = 3.0
_AGAIN_S: Final = 0.02
"""The time between tries: a turn takes a few milliseconds, and a wait in the kernel could not be given up."""


class SpecTurns:
    """Turns in ``directory``, which has to exist when a turn begins.

    Args:
        patience_s: so long to wait for a turn.
    """

    def __init__(self, directory: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._directory = directory
        self._patience_s = patience_s
        self._given_up = threading.Event()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn at the files, and keep it until the block ends.

        Raises:
            OSError: there is no such directory, or another process has the turn for too long.
        """
        descriptor = self._locked(time.monotonic() + self._patience_s)
        try:
            yield
        finally:
            os.close(descriptor)

    def give_up(self) -> None:
        """Wait for no other process from now on; from any thread."""
        self._given_up.set()

    def begin_anew(self) -> None:
        self._given_up.clear()

    def _locked(self, deadline: float) -> int:
        """The lock, open and held; a file that was removed meanwhile is not the one that others lock."""
        while True:
            path = self._directory / LOCK_NAME
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                self._wait(descriptor, deadline)
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _wait(self, descriptor: int, deadline: float) -> None:
        while not lock(descriptor):
            if self._given_up.wait(_AGAIN_S) or time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process keeps {LOCK_NAME} in that directory locked")
