"""System calls that the standard library lacks, by their C names.

``os.unshare`` and ``os.setns`` come with Python 3.12; ``mount`` and ``umount2`` with none.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)


def system_call(name: str, *args: int | bytes | None) -> None:
    """Call the C function ``name``, one of those that return 0 when all went well.

    Raises:
        OSError: it failed.
    """
    if _libc[name](*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
