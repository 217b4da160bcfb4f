"""The journal of one resource: which devices are in use, kept across the ends of the process.

A record is written before what it announces, so that a process killed at any point leaves one that says enough. It is
on the disk a moment later: only a crash of the whole machine can lose it, and what was in use then is in use no more.

Two processes of a plugin may overlap while one replaces the other. The one that came first keeps the journal: only it
releases anything. The other adds the uses it begins, and takes over once the first has ended. Each rings the other's
`bell` after it has written.

Source: ``flock(2)``, ``open(2)`` on O_APPEND.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plugbay.errors import LockHeld, PathUnusable
from plugbay.kernel.files import FileLock, remove_unfinished, write_durably
from plugbay.model.ids import ResourceName
from plugbay.sdk.release import records
from plugbay.sdk.release.records import Content, Header, Record

logger = logging.getLogger(__name__)

_COMPACT_BYTES: Final = 64 * 1024
"""Some 300 uses; then what is over is left out."""
_LONGEST_STEM: Final = 200
"""File systems take 255 bytes; temporary files' names are longer than the journal's."""


class Journal:
    """A file of records; use it as a context manager. Everything blocks for as long as the disk takes.

    Args:
        directory: made when it is missing.
        boot: names this boot of the machine.

    Attributes:
        is_ours: whether this process keeps it.
        boot: as given.

    Raises:
        PathUnusable: when it is entered.
    """

    def __init__(self, directory: Path, resource: ResourceName, boot: str) -> None:
        self.path = directory / f"{_stem(resource)}.journal"
        self.is_ours = False
        self._name = str(self.path)  # for every look for news
        self._lock = FileLock(self.path.with_suffix(".lock"))
        self._writing = self.path.with_suffix(".writing")
        self.boot = boot
        self._header = Header(boot, resource)
        self._descriptor = -1
        self._gate = -1
        self._size = 0
        self._file = (0, 0)
        self._is_torn = False  # the last line, by whoever died in it or found the disk full
        self._is_of_this_boot = True  # else whoever was to rewrite it could not, and what is added is of this one
        self._is_current = False  # its keeper may have rewritten it, and somebody removed it
        self._thread = threading.Lock()  # flock(2) keeps processes apart, not the threads of one

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._gate < 0:  # else it is entered once more, as what came after it failed
                self._gate = os.open(self._writing, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self.__exit__(None, None, None)
            raise PathUnusable(str(self.path), f"cannot keep which devices are in use: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._thread:  # a `rewrite` that nobody waits for any more would undo what the next keeper writes
            held, self._descriptor, self._gate = (self._descriptor, self._gate), -1, -1
            try:
                for descriptor in held:
                    if descriptor >= 0:
                        os.close(descriptor)
            finally:
                if self.is_ours:
                    self.is_ours = False
                    self._lock.__exit__(None, None, None)

    @property
    def is_open(self) -> bool:
        return self._gate >= 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes during the block, and nothing but this journal may be waited for in it.

        Raises:
            PathUnusable: for every OSError of the block.
        """
        try:
            with self._thread:
                if self._gate < 0:
                    raise PathUnusable(str(self.path), "which devices are in use is not kept")
                fcntl.flock(self._gate, fcntl.LOCK_EX)
                try:
                    yield
                finally:
                    fcntl.flock(self._gate, fcntl.LOCK_UN)
        except OSError as error:
            raise PathUnusable(str(self.path), f"cannot keep which devices are in use: {error.strerror}") from error

    @property
    def bell(self) -> Path:
        """What to watch to learn of other processes' records. Not the journal for its keeper, who writes it all day."""
        return self._lock.path if self.is_ours else self.path

    @property
    def has_news(self) -> bool:
        """Whether another process has written since we read or wrote last. A removed file has none."""
        try:
            there = os.stat(self._name)
        except OSError:
            self._is_current = False
            return False
        self._is_current = (there.st_dev, there.st_ino) == self._file
        return not self._is_current or there.st_size != self._size

    def try_to_own(self) -> bool:
        """Become the one who keeps it, if nobody else does."""
        with suppress(LockHeld):
            if not self.is_ours:
                self._lock.__enter__()
                self.is_ours = True
        return self.is_ours

    def wait_to_own(self) -> None:
        """Block until nobody else keeps it; it may be free again right after.

        Raises:
            PathUnusable: there is nothing to wait for.
        """
        try:
            descriptor = os.open(self._lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise PathUnusable(str(self._lock.path), f"cannot wait for its holder: {error.strerror}") from error

    def read(self) -> Content:
        """What it says now, other processes' records included. Bad lines are told in the log.

        Raises:
            PathUnusable: it is there and cannot be read.
        """
        try:
            lines = self.path.read_bytes()
        except FileNotFoundError:
            return Content(self._header, None, (), ())
        except OSError as error:
            raise PathUnusable(str(self.path), f"cannot read which devices are in use: {error.strerror}") from error
        self._size, self._is_torn = len(lines), bool(lines) and not lines.endswith(b"\n")
        content = records.read(lines)
        self._is_of_this_boot = content.header == self._header
        for number in content.bad_lines:
            logger.error("%s: line %d is damaged and skipped: a use of devices may be forgotten", self.path, number)
        return content

    def append(self, *written: Record) -> None:
        """Write records, `alone` and after a look for news; when it returns they survive this process."""
        if self._descriptor < 0 or not self._is_current:
            self._open()
        lines = b"".join(map(records.encode, written if self._is_of_this_boot else [self._header, *written]))
        self._write(b"\n" + lines if self._is_torn else lines)
        with suppress(OSError):  # it is written: nothing else counts
            os.utime(self._descriptor)
            if not self.is_ours:
                os.utime(self._lock.path)

    def sync(self) -> None:
        """Have what was appended on the disk."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.fdatasync(self._descriptor)

    @property
    def is_long(self) -> bool:
        """Whether it is time to `rewrite` it."""
        return self.is_ours and self._size > _COMPACT_BYTES

    def rewrite(self, kept: Callable[[Content], Iterable[Record]]) -> None:
        """Put what ``kept`` makes of the content in place of all, `alone`; for its keeper."""
        lines = b"".join(map(records.encode, [self._header, *kept(self.read())]))
        write_durably(self.path, lines)
        self._is_of_this_boot = True
        self._open()

    def remove_unfinished(self) -> None:
        """Remove what earlier keepers were rewriting when they were killed, `alone`; for its keeper."""
        remove_unfinished(self.path.parent, of=self.path)

    def _write(self, lines: bytes) -> None:
        view = memoryview(lines)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._size += len(lines)
        self._is_torn = False
        self._is_of_this_boot = True

    def _open(self) -> None:
        before, self._descriptor = self._descriptor, -1
        self._file = (0, 0)  # this and the number may be another file's as soon as it is closed
        if before >= 0:
            os.close(before)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        opened = os.fstat(self._descriptor)
        self._size = opened.st_size
        self._is_torn = bool(self._size) and os.pread(self._descriptor, 1, self._size - 1) != b"\n"
        if not self._size:
            self._write(records.encode(self._header))
        self._file, self._is_current = (opened.st_dev, opened.st_ino), True  # last: without a header it is none


def _stem(resource: ResourceName) -> str:
    """Of file names: the resource name, or its hash when that is too long for one (resource names have up to 308)."""
    stem = resource.replace("/", "_")
    return stem if len(stem) <= _LONGEST_STEM else hashlib.sha256(resource.encode()).hexdigest()
