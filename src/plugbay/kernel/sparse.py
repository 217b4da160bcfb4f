"""Files with holes: find their data, and remove it for good. All of it blocks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PUNCH_HOLE: Final = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE, which wants FALLOC_FL_KEEP_SIZE
_CHUNK_BYTES: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK_BYTES)
_TOO_LONG: Final = frozenset({errno.EFBIG, errno.EINVAL})
_CANNOT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})


def can_hold(directory: Path, size: int) -> bool:
    """Whether a file in ``directory`` may have ``size`` bytes, all of them a hole.

    It is tried with a file that has no name. Where no such file can be made, the answer is yes.
    """
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return True
    try:
        os.ftruncate(descriptor, size)
    except OSError as error:
        return error.errno not in _TOO_LONG
    finally:
        os.close(descriptor)
    return True


def is_zero(path: Path, offset: int, size: int) -> bool:
    """Whether that part of the file reads as zeros. Holes are not read.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        return all(_is_zero(file.fileno(), *extent) for extent in _data(file.fileno(), offset, offset + size))


def clear(path: Path, offset: int, size: int) -> None:
    """Make that part of the file read as zeros, on the disk too: as a hole, or where that cannot be, by writing them.

    Raises:
        OSError: it cannot be done; a part may have been cleared.
    """
    with open(path, "rb+", buffering=0) as file:
        descriptor = file.fileno()
        try:
            _punch(descriptor, offset, size)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            _overwrite(descriptor, offset, size)
        os.fsync(descriptor)


def _data(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges between ``start`` and ``end`` that are not holes."""
    while start < end:
        try:
            data = os.lseek(descriptor, start, os.SEEK_DATA)
            hole = os.lseek(descriptor, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is a hole
                return
            if error.errno != errno.EINVAL:
                raise
            data, hole = start, end  # a file system that cannot tell
        if data < end:
            yield data, min(hole, end)
        start = hole


def _is_zero(descriptor: int, start: int, end: int) -> bool:
    while start < end:
        chunk = os.pread(descriptor, min(_CHUNK_BYTES, end - start), start)
        if not chunk:
            return True  # past the end of the file there is nothing
        if chunk != _ZEROS[: len(chunk)]:
            return False
        start += len(chunk)
    return True


def _overwrite(descriptor: int, offset: int, size: int) -> None:
    end = offset + size
    while offset < end:
        offset += os.pwrite(descriptor, _ZEROS[: min(_CHUNK_BYTES, end - offset)], offset)


def _punch(descriptor: int, offset: int, size: int) -> None:
    # Imported here: ctypes costs memory, and few processes punch holes.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, _PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(size)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
