"""The C library's heaps, of which a process with many short-lived threads gets more than it needs."""

from __future__ import annotations

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
"""``malloc.h``."""


def share_one_heap() -> None:
    """Let all threads started from here on allocate from one heap.

    glibc gives each thread one of its own, up to eight for each CPU, and these keep what they once held: a plugin
    process is some MB larger after each storm of calls. Other C libraries have no such heaps.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
