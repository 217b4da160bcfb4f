"""The C library's heaps: limit their number, and give back memory that they no longer need.

Only glibc can do that; with other libraries nothing happens.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
"""The constant of ``malloc.h``."""


def share_one_heap() -> None:
    """Let all threads that are started later allocate from one heap.

    glibc gives each thread one of its own, up to eight for each CPU, and these keep what they once held: a plugin
    process is some MB larger after each storm of calls.
    """
    _call("mallopt", _M_ARENA_MAX, 1)


def give_back() -> None:
    """Return free memory to the kernel, gaps between used blocks included; takes a millisecond or less."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
