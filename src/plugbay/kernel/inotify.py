"""The kernel's inotify as an async iterator: one nonblocking descriptor on the event loop, no threads.

Source: Linux ``inotify(7)``, ``include/uapi/linux/inotify.h``.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from plugbay.values import dataclass

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Iterator
    from types import TracebackType

_HEADER: Final = struct.Struct("iIII")
_READ_BYTES: Final = 16 * 1024
"""Room for some hundred events a read; the kernel wants room for one with the longest name (272 bytes)."""


class Mask(enum.IntFlag):
    """Events to watch for, and events that happened: the kernel's ``IN_*`` without the prefix."""

    ACCESS = 0x1
    MODIFY = 0x2
    ATTRIB = 0x4
    CLOSE_WRITE = 0x8
    CLOSE_NOWRITE = 0x10
    OPEN = 0x20
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800

    # Events have these, whether asked for or not.
    UNMOUNT = 0x2000
    Q_OVERFLOW = 0x4000
    IGNORED = 0x8000
    ISDIR = 0x4000_0000

    # These only belong into a call that adds a watch.
    ONLYDIR = 0x100_0000
    DONT_FOLLOW = 0x200_0000
    EXCL_UNLINK = 0x400_0000
    MASK_CREATE = 0x1000_0000
    MASK_ADD = 0x2000_0000
    ONESHOT = 0x8000_0000


@dataclass(frozen=True, slots=True)
class InotifyEvent:
    """One event.

    Attributes:
        wd: the watch it belongs to; -1 with ``Mask.Q_OVERFLOW``, when events were lost.
        name: the entry inside the watched directory, empty when the event is about the watched path itself.
    """

    wd: int
    mask: Mask
    name: str


class Inotify:
    """An inotify instance, open inside ``async with``, with one consumer at a time.

    Events stay in the kernel until asked for, where equal neighbours are merged. The iteration ends when the
    instance is closed.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._libc: ctypes.CDLL
        self._read: deque[InotifyEvent] = deque()
        self._readable: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the descriptor.

        Raises:
            OSError: ENOSYS without inotify, EMFILE when the user has too many instances.
        """
        self._libc = _libc()
        self._fd = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, release: Callable[[int], object] = os.close) -> None:
        """Close the descriptor and end the iteration; a second call does nothing.

        Args:
            release: closes the descriptor, for which the kernel takes some 5 ms.
        """
        if self._fd < 0:
            return
        if self._readable is not None:
            self._readable.get_loop().remove_reader(self._fd)
            if not self._readable.done():
                self._readable.set_result(None)
        descriptor, self._fd = self._fd, -1
        release(descriptor)

    def add(self, path: str | os.PathLike[str], mask: Mask) -> int:
        """Watch ``path`` and return the watch descriptor; the same inode watched again keeps its descriptor.

        Raises:
            OSError: ENOENT, ENOTDIR, EACCES, ELOOP about the path; ENOSPC when the user has too many watches.
        """
        return _checked(self._libc.inotify_add_watch(self._fd, os.fsencode(path), int(mask)), path)

    def remove(self, wd: int) -> None:
        """Forget a watch; nothing happens when the kernel has dropped it already."""
        try:
            _checked(self._libc.inotify_rm_watch(self._fd, wd))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    def receive_nowait(self) -> list[InotifyEvent]:
        """The events that wait in the kernel, oldest first; the list may be empty."""
        events = list(self._read)
        self._read.clear()
        if self._fd < 0:
            return events
        try:
            events.extend(_parse(os.read(self._fd, _READ_BYTES)))
        except BlockingIOError:
            pass
        return events

    async def receive(self) -> list[InotifyEvent]:
        """Wait for events; an empty list when the instance has been closed."""
        while not (events := self.receive_nowait()) and self._fd >= 0:
            await self._wait_readable()
        return events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InotifyEvent:
        if not self._read:
            self._read.extend(await self.receive())
        if not self._read:
            raise StopAsyncIteration
        return self._read.popleft()

    async def _wait_readable(self) -> None:
        if self._readable is not None:
            raise RuntimeError("two tasks wait for the same inotify instance")
        loop = asyncio.get_running_loop()
        self._readable = loop.create_future()
        loop.add_reader(self._fd, _finish, self._readable)
        try:
            await self._readable
        finally:
            self._readable = None
            if self._fd >= 0:
                loop.remove_reader(self._fd)


def close_later(descriptor: int) -> None:
    """Close a descriptor in a thread, and do not wait: what stops, or starts anew, has more to do meanwhile."""
    asyncio.get_running_loop().run_in_executor(None, os.close, descriptor)


def _finish(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _parse(buffer: bytes) -> Iterator[InotifyEvent]:
    offset = 0
    while offset < len(buffer):
        wd, mask, _cookie, size = _HEADER.unpack_from(buffer, offset)
        offset += _HEADER.size
        yield InotifyEvent(wd, Mask(mask), os.fsdecode(buffer[offset : offset + size].rstrip(b"\0")))
        offset += size


def _libc() -> ctypes.CDLL:
    # Imported here: ctypes costs memory, and a process that watches nothing should not pay for it.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError(errno.ENOSYS, "this C library has no inotify")
    return libc


def _checked(result: int, path: str | os.PathLike[str] | None = None) -> int:
    import ctypes

    if result >= 0:
        return result
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), None if path is None else os.fspath(path))
