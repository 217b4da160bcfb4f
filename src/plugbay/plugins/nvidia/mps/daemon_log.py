"""The words of an MPS daemon, brought into our log.

In the foreground the daemon writes to its standard output; it keeps a file as well, which has what it said in the
background. A line that comes both ways is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from plugbay.model.ids import ResourceName

logger = logging.getLogger(__name__)

LOG_FILE: Final = "control.log"
_TAIL_S: Final = 1.0
_REST_S: Final = 1.0
_CHUNK_BYTES: Final = 1 << 14
_REMEMBERED: Final = 256
"""Lines; each begins with a time, so that two that are equal are one."""


class DaemonLog:
    """The lines of one daemon.

    Args:
        directory: that of its file.
    """

    def __init__(self, resource: ResourceName, directory: Path) -> None:
        self._resource = resource
        self._path = directory / LOG_FILE
        self._told: deque[str] = deque(maxlen=_REMEMBERED)
        self._begun = b""

    async def follow(self, output: asyncio.StreamReader) -> None:
        """Tell each line of the daemon's standard output as it comes, until that is closed."""
        while chunk := await output.read(_CHUNK_BYTES):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            self._tell(lines)

    async def rest(self, output: asyncio.StreamReader) -> None:
        """Tell what is left after the daemon's end; not for long, as something else may hold its output open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REST_S):
                await self.follow(output)
        self._tell([self._begun])

    async def follow_file(self) -> None:
        """Tell what comes to the file, until cancelled."""
        position = 0
        while True:
            lines, position = await asyncio.to_thread(_read_from, self._path, position)
            self._tell(lines)
            await asyncio.sleep(_TAIL_S)

    def _tell(self, lines: Iterable[bytes]) -> None:
        for raw in lines:
            line = raw.decode(errors="replace").rstrip()
            if line and line not in self._told:
                self._told.append(line)
                logger.info("%s: %s", self._resource, line)


def _read_from(path: Path, position: int) -> tuple[list[bytes], int]:
    """The whole lines of a file from a position on, and the position behind them; from the start if it is shorter."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(position if position <= file.tell() else 0)
            start = file.tell()
            whole, newline, _ = file.read().rpartition(b"\n")
    except OSError:
        return [], position
    return whole.split(b"\n"), start + len(whole) + len(newline)
