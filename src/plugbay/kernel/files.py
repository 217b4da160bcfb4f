"""Files that survive a crash whole, files that may be pipes, and locks that end with their holder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from plugbay.errors import LockHeld

if TYPE_CHECKING:
    from types import TracebackType

MAX_BYTES: Final = 64 * 2**20
"""The largest file that is read. Files that people, kubelets or engines write for us are much smaller."""
_UNFINISHED: Final = re.compile(r"(\..*\.)[0-9a-f]{12}\.tmp", re.DOTALL)
_PID_BYTES: Final = 32
_OTHERS: Final = 0o027
"""The rights that a private directory does not grant: any to other users, and writing to its group."""


def absolute(path: str) -> str:
    """``path``, if it leads to the same place whichever process asks.

    Raises:
        OSError: it is empty or relative, and so nowhere on the host; or no path can be so.
    """
    problem = errno.EINVAL if "\0" in path else errno.ENOENT if not path.startswith("/") else 0
    if problem:
        raise OSError(problem, os.strerror(problem), path)
    return path


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` so that after a crash it holds either the old or the new content, whole.

    Only its owner may read it, whatever the umask. On return the content is on the disk. A crash may leave a file
    behind, which `remove_unfinished` removes. Blocks for as long as the disk takes: from an event loop, call it through
    ``asyncio.to_thread``.

    Raises:
        OSError: nothing was changed.
    """
    temporary = write_beside(path, content)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(path.parent)


def write_beside(path: Path, content: bytes) -> Path:
    """Write what is to replace ``path`` to a file in its directory, and return that; it is on the disk.

    Blocks as `write_durably` does, and a crash leaves the same kind of file.

    Raises:
        OSError: nothing was left.
    """
    temporary = path.with_name(f"{_before_random(path)}{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _before_random(path: Path) -> str:
    """The beginning of a temporary file's name: 200 bytes of the name, so that the whole never exceeds NAME_MAX."""
    return f".{os.fsdecode(os.fsencode(path.name)[:200])}."


def remove_unfinished(directory: Path, *, of: Path | None = None) -> None:
    """Remove the files that `write_durably` left in ``directory`` when its process was killed.

    The caller has to be the only process that writes there: another one would lose its file. What cannot be removed
    is left; a directory that does not exist holds nothing.

    Args:
        of: remove only the leftovers of this file, which the caller alone writes.
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
    """Make directories that other users cannot enter, whatever the umask; existing ones are closed to other users.

    Raises:
        OSError: one cannot be made, or is not ours to change.
    """
    for directory in directories:
        make_directories(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        if (mode := stat.S_IMODE(directory.stat().st_mode)) & _OTHERS:
            directory.chmod(mode & ~_OTHERS)


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on the disk: files that were created, renamed or removed there stay so."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: str | os.PathLike[str], *, limit: int = MAX_BYTES) -> bytes:
    """Read all of a file, or of a FIFO such as a shell's ``<(command)``.

    A FIFO without a writer is refused: an ordinary open would wait for a writer without end.

    Args:
        limit: the most bytes that the file may hold: some files have no end.

    Raises:
        OSError: it cannot be read; ``strerror`` says why.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        early = _early(file.fileno(), path)
        os.set_blocking(file.fileno(), True)
        return early + read_all(file, limit=limit - len(early))


def read_regular(path: str | os.PathLike[str], *, limit: int = MAX_BYTES) -> tuple[bytes, os.stat_result]:
    """Read all of a regular file, and what the kernel knows of it; anything else is refused instead of waited for.

    Args:
        limit: the most bytes that the file may hold.

    Raises:
        OSError: it cannot be read, or is not a regular file; ``strerror`` says why.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        return read_all(file, limit=limit), found


def read_all(file: BinaryIO, *, limit: int = MAX_BYTES) -> bytes:
    """Read the rest of an open file.

    Raises:
        OSError: it cannot be read, or more than ``limit`` bytes are left.
    """
    content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {-(-limit // 2**20)} MiB")
    return content


def _early(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    """The first byte of a FIFO, if it is there: only a read tells whether the FIFO has a writer."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return b""
    try:
        early = os.read(descriptor, 1)
    except BlockingIOError:
        return b""  # it has a writer, which has written nothing yet
    if not early:
        raise OSError(errno.ENXIO, "it is a FIFO that no process writes to", os.fspath(path))
    return early


class FileLock:
    """A lock held by this process while the context is open; the kernel ends it when the process dies.

    The file is made when it is missing. Only a holder may remove it; what waits for it, or is about to lock it, then
    makes a new one. It contains the holder's pid, for operators and for `LockHeld`.

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
        if not os.fstat(descriptor).st_nlink:  # removed since it was opened: not the one that others lock
            os.close(descriptor)
            return self.__enter__()
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
