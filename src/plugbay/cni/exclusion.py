"""Locks for work on a container's networks: one at a time, over all processes that share a cache.

The locks are ranges of bytes of one file, which the kernel frees when their holder dies; nothing else is left behind.

Source: CNI specification 1.1.0 section 3 ("Lifecycle & Ordering"); ``fcntl(2)``, open file description locks.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final

from plugbay.errors import NetworkBusy, PathUnusable

_FILE: Final = "plugbay.lock"
_CONTAINERS: Final = 1 << 32
"""Networks lock a byte below this one, containers a byte above. Two with the same hash wait for each other."""


class _Mode(IntEnum):
    SHARED = fcntl.F_RDLCK
    EXCLUSIVE = fcntl.F_WRLCK


class Exclusion:
    """Args: ``timeout_s`` is how long to wait for another one."""

    def __init__(self, directory: Path, *, timeout_s: float) -> None:
        self._path = directory / _FILE
        self._timeout_s = timeout_s

    @asynccontextmanager
    async def of_container(self, network: str, container_id: str) -> AsyncIterator[None]:
        """Keep other calls from the container, and garbage collection from the network, while the block runs.

        Raises:
            NetworkBusy: another call did for too long.
            PathUnusable: the lock file cannot be made.
        """
        # In this order everywhere, so that no two wait for each other.
        async with (
            self._locked(_hash(network), _Mode.SHARED, network),
            self._locked(_CONTAINERS + _hash(container_id), _Mode.EXCLUSIVE, container_id),
        ):
            yield

    @asynccontextmanager
    async def of_network(self, network: str) -> AsyncIterator[None]:
        """Keep other calls from all containers of the network while the block runs.

        Raises:
            NetworkBusy: another call did for too long.
            PathUnusable: the lock file cannot be made.
        """
        async with self._locked(_hash(network), _Mode.EXCLUSIVE, network):
            yield

    @asynccontextmanager
    async def _locked(self, byte: int, mode: _Mode, name: str) -> AsyncIterator[None]:
        descriptor = self._open()
        try:
            async with asyncio.timeout(self._timeout_s):
                await _lock(descriptor, byte, mode)
        except TimeoutError:
            raise NetworkBusy(name) from None
        try:
            yield
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise PathUnusable(str(self._path), f"cannot be opened: {error.strerror}") from error


async def _lock(descriptor: int, byte: int, mode: _Mode) -> None:
    """Lock one byte; a cancelled call leaves the descriptor to the waiting thread, which closes it."""
    # struct flock: type, whence, start, length, pid.
    wanted = struct.pack("hhqqi4x", mode, os.SEEK_SET, byte, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
        return
    except (BlockingIOError, PermissionError):  # the two that the manual allows for "held by another"
        pass
    except BaseException:
        os.close(descriptor)
        raise
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if locked.cancelled():
            os.close(descriptor)
        else:
            locked.set_result(None)

    def wait() -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, wanted)
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed
            os.close(descriptor)

    # A thread of its own, and a daemon: nothing can interrupt the call, and the exit must not wait for it.
    threading.Thread(target=wait, name="cni-lock", daemon=True).start()
    try:
        await locked
    except asyncio.CancelledError:
        if not locked.cancelled():  # we had just got it
            os.close(descriptor)
        raise


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
