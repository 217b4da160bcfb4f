"""The journal of one resource: which devices are in use, kept across the ends of the process.

A record is written before what it announces, so that a process killed at any point leaves one that says enough. It is
on the disk a moment later: only a crash of the whole machine can lose it, and what was in use then is in use no more.

Two processes of a plugin may overlap while one replaces the other. The one that came first keeps the journal: only it
releases anything. The other adds the uses it begins, and takes over once the first has ended. Each rings the other's
`bell` after it has written.

An event loop writes records, so nothing that it does here waits for a disk, or for a process that does. A record goes
to the page cache. The lock is held for as long as that takes, never across a sync. What replaces the file is written
and synced beside it, without the lock (`prepare`); the records that came meanwhile are added under it (`replace`).

Why not SQLite, measured in a plugin process (Linux 6, Python 3.11; medians): to import it and open a database in WAL
mode takes 1,350 KiB of the process's own memory, on every node and for every plugin process, and this 380. The two
writes of an Allocate take 43 µs there and 46 here. Its checkpoints would sync on the event loop, so it would need a
thread as well, and with each record a switch to it and back while a kubelet waits.

Source: ``flock(2)``, ``open(2)`` on O_APPEND.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plugbay.errors import LockHeld, PathUnusable
from plugbay.kernel.files import FileLock, remove_unfinished, sync_directory, write_beside
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.ledger import lines
from plugbay.sdk.release.ledger.lines import Content, Header, Record
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_COMPACT_BYTES: Final = 64 * 1024
"""The size of some 300 uses, after which uses that are over are left out."""
_LONGEST_STEM: Final = 200
"""File systems take 255 bytes; temporary files' names are longer than the journal's."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A journal written anew, beside the old one; `discard` it if it is not put in its place.

    Attributes:
        file: the old journal, by device and inode.
        read: the number of the old journal's bytes that it stands for.
    """

    path: Path
    file: tuple[int, int]
    read: int

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)


class Journal:
    """A file of records; use it as a context manager. Only `prepare` and `sync` wait for the disk.

    Args:
        directory: made when it is missing.
        boot: names this boot of the machine.

    Attributes:
        is_ours: whether this process keeps it.
        is_newer: whether it was found to be in a later format; then nothing may be written to it.
        boot: as given.

    Raises:
        PathUnusable: when it is entered.
    """

    def __init__(self, directory: Path, resource: ResourceName, boot: str) -> None:
        self.path = directory / f"{_stem(resource)}.journal"
        self.is_ours = False
        self.is_newer = False
        self._name = str(self.path)  # for every look for news
        self._lock = FileLock(self.path.with_suffix(".lock"))
        self._writing = self.path.with_suffix(".writing")
        self.boot = boot
        self._header = Header(boot, resource)
        self._descriptor = -1
        self._gate = -1
        self._size = 0
        self._file = (0, 0)
        self._is_torn = False  # the last line, of a process that died in it or found the disk full
        self._is_of_this_boot = True  # else it could not be rewritten, and what is added is of this one
        self._was_replaced = False  # and the directory is not synced yet
        self._is_current = False  # its keeper may have rewritten it, or it was removed
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
        with self._thread:
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
        """Keep other processes from writing in the block, which must not wait for anything: others wait for its end.

        Raises:
            PathUnusable: for every OSError of the block.
        """
        with _told(self.path), self._thread:
            if self._gate < 0:
                raise PathUnusable(str(self.path), "which devices are in use is not kept")
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    @property
    def bell(self) -> Path:
        """The file to watch for other processes' records; not the journal for its keeper, which writes it all day."""
        return self._lock.path if self.is_ours else self.path

    @property
    def has_news(self) -> bool:
        """Whether another process has written since we read or wrote last; a removed file has no news."""
        try:
            there = os.stat(self._name)
        except OSError:
            self._is_current = False
            return False
        self._is_current = (there.st_dev, there.st_ino) == self._file
        return not self._is_current or there.st_size != self._size

    def try_to_own(self) -> bool:
        """Become the process that keeps it, if no other does."""
        with suppress(LockHeld):
            if not self.is_ours:
                self._lock.__enter__()
                self.is_ours = True
        return self.is_ours

    def wait_to_own(self) -> None:
        """Block until no other process keeps it; it may be taken again right after.

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
        """Read it, other processes' records included. The log tells of bad lines.

        Raises:
            PathUnusable: it is there and cannot be read, or `is_newer`.
        """
        try:
            with open(self.path, "rb") as file:
                opened, written = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            self._is_current = False
            return Content(self._header, None, (), ())
        except OSError as error:
            raise PathUnusable(str(self.path), f"cannot read which devices are in use: {error.strerror}") from error
        self._is_current = (opened.st_dev, opened.st_ino) == self._file
        self._size, self._is_torn = len(written), bool(written) and not written.endswith(b"\n")
        content = lines.read(written)
        if content.newer:
            self.is_newer = True
            raise PathUnusable(
                str(self.path),
                f"was written by a newer plugbay (format {content.newer}, this one reads up to {lines.FORMAT}), and "
                "is left as it is: run that version again, or move the file away once no container has the devices",
            )
        self._is_of_this_boot = content.header == self._header
        for number in content.bad_lines:
            logger.error("%s: line %d is damaged and skipped: a use of devices may be forgotten", self.path, number)
        return content

    def append(self, *written: Record) -> None:
        """Write records, `alone` and after a look for news; when it returns they survive this process."""
        if self._descriptor < 0 or not self._is_current:
            self._open()
        text = b"".join(map(lines.encode, written if self._is_of_this_boot else [self._header, *written]))
        self._write(b"\n" + text if self._is_torn else text)
        with suppress(OSError):  # it is written: nothing else counts
            os.utime(self._descriptor)
            if not self.is_ours:
                os.utime(self._lock.path)

    def sync(self) -> None:
        """Make sure that appended or replaced lines are on the disk."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.fdatasync(self._descriptor)
                if self._was_replaced:
                    sync_directory(self.path.parent)
                    self._was_replaced = False

    @property
    def is_long(self) -> bool:
        """Whether it is time to write the journal anew, without uses that are over."""
        return self.is_ours and self._size > _COMPACT_BYTES

    def prepare(self, kept: Callable[[Content], Iterable[Record]]) -> Rewritten:
        """Write what ``kept`` makes of the content to a file beside it; for its keeper, in any thread, without `alone`.

        Raises:
            PathUnusable: it cannot be read or written.
        """
        with _told(self.path):
            try:
                with open(self.path, "rb") as file:
                    opened, written = os.fstat(file.fileno()), file.read()
            except FileNotFoundError:
                with self.alone():
                    self._open()
                return self.prepare(kept)
            whole = written[: written.rfind(b"\n") + 1]  # the last line may be under way
            fresh = b"".join(map(lines.encode, [self._header, *kept(lines.read(whole))]))
            return Rewritten(write_beside(self.path, fresh), (opened.st_dev, opened.st_ino), len(whole))

    def replace(self, rewritten: Rewritten) -> bool:
        """Put it in the journal's place, with what was written meanwhile; `alone` and after a look for news.

        Returns:
            False when the journal, or what is to replace it, was removed meanwhile.
        """
        try:
            with open(self.path, "rb") as file:
                opened = os.fstat(file.fileno())
                if (opened.st_dev, opened.st_ino) != rewritten.file:
                    return False
                file.seek(rewritten.read)
                since = file.read()
            since = since[: since.rfind(b"\n") + 1]  # `alone`, a line without an end is torn
            if since:
                with open(rewritten.path, "r+b") as fresh:  # not made anew, should it be gone
                    fresh.seek(0, os.SEEK_END)
                    fresh.write(since)
            os.replace(rewritten.path, self.path)
        except FileNotFoundError:
            return False
        finally:
            rewritten.discard()  # unless it is in place
        self._was_replaced = True
        self._is_of_this_boot = True
        self._open()
        return True

    def remove_unfinished(self) -> None:
        """Remove what earlier keepers were rewriting when they were killed, `alone`; for its keeper."""
        remove_unfinished(self.path.parent, of=self.path)

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._size += len(text)
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
            self._write(lines.encode(self._header))
        self._file, self._is_current = (opened.st_dev, opened.st_ino), True  # last: a journal begins with its header


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say what an OSError of the block means."""
    try:
        yield
    except OSError as error:
        raise PathUnusable(str(path), f"cannot keep which devices are in use: {error.strerror}") from error


def _stem(resource: ResourceName) -> str:
    """The start of file names: the resource name, or its hash if the name, of up to 308 characters, is too long."""
    stem = resource.replace("/", "_")
    if len(stem) <= _LONGEST_STEM:
        return stem
    from hashlib import sha256  # brings OpenSSL, and few names are so long

    return sha256(resource.encode()).hexdigest()
