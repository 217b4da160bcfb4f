"""Files that survive a crash whole, files that may be pipes, and locks that end with their holder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from plugbay.errors import LockHeld

if TYPE_CHECKING:
    from types import TracebackType

MAX_BYTES: Final = 64 * 2**20
"""No file that people write, and none that a kubelet or an engine does for us to read, comes near."""
_UNFINISHED: Final = re.compile(r"(\..*\.)[0-9a-f]{12}\.tmp", re.DOTALL)
_PID_BYTES: Final = 32
_OTHERS: Final = 0o027
"""What a private directory does not grant: anything to other users, and changes to its group."""
_WRITER_S: Final = 2
"""So long a FIFO may take to get a writer."""


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` so that after a crash it holds either the old or the new content, whole.

    Only its owner may read it, whatever the umask. On return the content is on the disk. A crash may leave a file
    behind, which `remove_unfinished` removes. Blocks for as long as the disk takes: from an event loop, call it through
    ``asyncio.to_thread``.

    Raises:
        OSError: nothing was changed.
    """
    temporary = path.with_name(f"{_before_random(path)}{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


def _before_random(path: Path) -> str:
    """How the name of a temporary file begins: 200 bytes of the name, so that it never exceeds NAME_MAX."""
    return f".{os.fsdecode(os.fsencode(path.name)[:200])}."


def remove_unfinished(directory: Path, *, of: Path | None = None) -> None:
    """Remove the files that `write_durably` left in ``directory`` when its process was killed.

    The caller is the only process that writes there: what another one is writing would be lost. What cannot be removed
    is left; a directory that does not exist holds nothing.

    Args:
        of: only what became of this file, which the caller alone writes.
    """
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            found = _UNFINISHED.fullmatch(entry.name)
            if found is not None and (of is None or found[1] == _before_random(of)):
                with contextlib.suppress(OSError):
                    os.unlink(entry)


def make_directories(path: Path) -> None:
    """Make a directory with its parents, none of them open to other users' changes, whatever the umask.

    Raises:
        OSError: one cannot be made.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for directory in (*reversed(missing), path):
        directory.mkdir(mode=0o755, exist_ok=True)


def make_private(*directories: Path) -> None:
    """Make directories that other users cannot enter, whatever the umask; ones that are there are closed to them.

    Raises:
        OSError: one cannot be made, or is not ours to change.
    """
    for directory in directories:
        make_directories(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        if (mode := stat.S_IMODE(directory.stat().st_mode)) & _OTHERS:
            directory.chmod(mode & ~_OTHERS)


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on the disk: what was created, renamed or removed there stays so."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: str | os.PathLike[str], *, limit: int = MAX_BYTES) -> bytes:
    """All that a file holds, or a FIFO gets: one without a writer is refused, where an open would wait for one.

    Args:
        limit: so many bytes it may hold: some files have no end.

    Raises:
        OSError: it cannot be read; ``strerror`` says why.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        early = _early(file.fileno(), path)
        os.set_blocking(file.fileno(), True)
        return early + read_all(file, limit=limit - len(early))


def read_all(file: BinaryIO, *, limit: int = MAX_BYTES) -> bytes:
    """What is left of an open file.

    Raises:
        OSError: it cannot be read, or more than ``limit`` bytes are left.
    """
    content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {-(-limit // 2**20)} MiB")
    return content


def _early(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    """What a FIFO has had to say until now."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode) or select.select([descriptor], [], [], _WRITER_S)[0]:
        return b""
    try:
        early = os.read(descriptor, 1)
    except BlockingIOError:
        return b""  # there is a writer, which takes its time
    if not early:
        raise OSError(errno.ENXIO, "it is a FIFO that no process writes to", os.fspath(path))
    return early


class FileLock:
    """A lock held by this process while the context is open; the kernel ends it when the process dies.

    The file is made when it is missing and never removed: removing it would let two processes lock two files of the
    same name. It holds the holder's pid, for people and for `LockHeld`.

    Source: ``flock(2)``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Take the lock now or not at all.

        Raises:
            LockHeld: another holder has it, perhaps in this process.
            OSError: the file cannot be opened or made.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            pid = _read_pid(descriptor)
            os.close(descriptor)
            raise LockHeld(str(self.path), pid) from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        try:
            # Emptied first, or the next holder could be reported under our pid until it has written its own.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def _read_pid(descriptor: int) -> int | None:
    written = os.pread(descriptor, _PID_BYTES, 0).strip()
    return int(written) if written.isdigit() else None
