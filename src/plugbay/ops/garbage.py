"""Python's search for garbage, where there is next to none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_to_collect() -> Iterator[None]:
    """Look for no garbage during the block, and never again among what is there at its end.

    For the imports of a process that lasts: they make many objects that stay, and to look through these again and again
    takes a tenth of its start. What they leave behind is kept, some hundred KiB.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def collecting_later() -> Iterator[None]:
    """Look for no garbage during the block.

    For what makes many values that stay, and whose result is waited for: Python would look through all of them several
    times before it is there. After the block it looks through them once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
