"""Bounding the logs that an engine writes: each is moved away when it is full, and the engine told to begin another.

Source: kubelet 1.36 ``logs/container_log_manager.go``; only its compression of older files is not done.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.ops.clock import Clock
from plugbay.runtimes.logs.files import LogLimits, rotated
from plugbay.runtimes.port import ContainerId
from plugbay.wire.cri import CriClient

logger = logging.getLogger(__name__)

LOOK_S: Final = 10.0
"""The interval between looks at a log, as in a kubelet; in between a log may grow past its limit."""


class LogRotation:
    """The logs of the containers that run."""

    def __init__(self, client: CriClient, clock: Clock, limits: LogLimits) -> None:
        self._client = client
        self._clock = clock
        self._limits = limits
        self._logs: dict[ContainerId, Path] = {}
        self._is_wanted = asyncio.Event()

    def begin(self, container: ContainerId, log: Path) -> None:
        """Look after the log of a container that runs."""
        self._logs[container] = log
        self._is_wanted.set()

    def end(self, container: ContainerId) -> None:
        """The container runs no more; its log stays as it is."""
        self._logs.pop(container, None)
        if not self._logs:
            self._is_wanted.clear()

    async def run(self) -> None:
        """Rotate what is full, until cancelled. Nothing happens as long as nothing runs."""
        while True:
            await self._is_wanted.wait()
            await self._clock.sleep(LOOK_S)
            for container, log in list(self._logs.items()):
                try:
                    await self._look_at(container, log)
                except (OSError, RpcFailed) as error:
                    if isinstance(error, RpcFailed) and error.code is RpcCode.NOT_FOUND:
                        self.end(container)  # it was removed by hand: nothing writes there any more
                    else:
                        logger.warning("cannot rotate the log %s, so it grows; trying again: %s", log, error)

    async def _look_at(self, container: ContainerId, log: Path) -> None:
        try:
            size = (await asyncio.to_thread(log.stat)).st_size
        except FileNotFoundError:  # an earlier node was killed between the two steps
            await self._client.reopen_log(container)
            return
        if size < self._limits.max_bytes:
            return
        older = log.with_name(f"{log.name}.{self._clock.now():%Y%m%d-%H%M%S}")
        await asyncio.to_thread(os.rename, log, older)
        try:
            await self._client.reopen_log(container)
        except RpcFailed:
            await asyncio.to_thread(_move_back, older, log)
            raise
        await asyncio.to_thread(remove_older, log, kept=self._limits.max_files - 1)


def _move_back(older: Path, log: Path) -> None:
    """Unless the engine did what it was told, and could not say so."""
    if not log.exists():
        os.rename(older, log)


def remove_older(log: Path, *, kept: int = 0) -> None:
    """Remove all older files of a log but the ``kept`` newest. Waits for the disk."""
    with suppress(FileNotFoundError):
        files = rotated(log)
        for each in files[: len(files) - kept]:
            each.unlink(missing_ok=True)
