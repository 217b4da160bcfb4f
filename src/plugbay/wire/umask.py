"""A umask for one call, which no other thread notices.

Source: Linux ``unshare(2)``, ``CLONE_FS``.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Final

_CLONE_FS: Final = 0x200


def with_umask(mask: int, function: Callable[[], object]) -> None:
    """Call ``function`` in a thread whose umask is ``mask``; where a thread cannot have its own, the process has it.

    Raises:
        Exception: whatever ``function`` raises.
    """
    failure: list[BaseException] = []

    def run() -> None:
        has_own = ctypes.CDLL(None).unshare(_CLONE_FS) == 0  # refused by some seccomp profiles of containers
        before = os.umask(mask)
        try:
            function()
        except BaseException as error:
            failure.append(error)
        finally:
            if not has_own:
                os.umask(before)

    thread = threading.Thread(target=run, name="umask")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
