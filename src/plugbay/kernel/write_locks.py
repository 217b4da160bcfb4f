"""Locks that only a process with the right to write a file can take: a mere reader cannot block others.

A ``flock(2)`` takes no more than an open file, which every user has of a file that is to be read by all.

Source: ``fcntl_locking(2)``, "Open file description locks".
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

_LOCK: Final = struct.Struct("hhqqi4x")
"""``struct flock``: type, whence, start, length, pid."""


def lock(descriptor: int) -> bool:
    """Lock a file that is open for writing, until all copies of ``descriptor`` are closed; False if it is locked."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):  # the two that the manual allows for "held by another"
        return False
    return True


def is_locked(descriptor: int) -> bool:
    """Whether a process that opened the file separately has locked it for writing."""
    # Asked as a reader: locks of other readers do not matter to it.
    found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_RDLCK))
    return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _lock(kind: int) -> bytes:
    return _LOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
