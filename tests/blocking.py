"""The event loop waits for no disk, lock or child: tests fail when plugbay makes it wait.

Calls that may take long are wrapped by Blockbuster for the whole session. A test may call a plain function of plugbay
that waits; a coroutine of plugbay may not.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from blockbuster import BlockBusterFunction

import plugbay

ALLOWED: Final = {
    ("sdk/release/ledger/journal.py", "alone"): "processes take turns for one short write each, and none syncs in it",
    ("sdk/release/ledger/journal.py", "replace"): "renames what `prepare` has synced in a thread",
    (
        "_pytest/assertion/rewrite.py",
        "_write_pyc",
    ): "keeps pytest's version of a module that a coroutine is the first to import",
    ("subprocess.py", "_execute_child"): "collects a child that ended because its program could not be executed",
}
"""Functions in which the loop may wait, and why that is not long."""
_SOURCE: Final = str(Path(plugbay.__file__).parent)
_TESTS: Final = str(Path(__file__).parent)
_OF_A_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_Check = Callable[..., bool]
"""Whether a call with these arguments returns at once."""


def _never(*_: Any, **__: Any) -> bool:
    return False


def _asks_only(_: int, operation: int) -> bool:
    return bool(operation & (fcntl.LOCK_NB | fcntl.LOCK_UN))


def _looks_only(_: int, options: int) -> bool:
    return bool(options & os.WNOHANG)


WAITS: Final[dict[str, _Check]] = {
    "time.sleep": _never,
    "os.fsync": _never,
    "os.fdatasync": _never,
    "os.rename": _never,
    "os.replace": _never,
    "os.waitpid": _looks_only,
    "fcntl.flock": _asks_only,
    "sqlite3.Connection.execute": _never,
    "sqlite3.Connection.executemany": _never,
    "sqlite3.Connection.commit": _never,
    "sqlite3.Cursor.execute": _never,
}


class LoopGuard:
    """Attributes: ``found``: the calls that made an event loop wait since the list was last emptied."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def armed(self) -> Iterator[None]:
        functions = [self._wrapped(name, returns_at_once) for name, returns_at_once in WAITS.items()]
        for function in functions:
            function.activate()
        try:
            yield
        finally:
            for function in functions:
                function.deactivate()

    def _wrapped(self, name: str, returns_at_once: _Check) -> BlockBusterFunction:
        def is_fine(*args: Any, **kwargs: Any) -> bool:
            if returns_at_once(*args[-2:], **kwargs) or not _blames_plugbay(sys._getframe(2)):
                return True
            self.found.append(f"the event loop waits in {name}:\n{''.join(traceback.format_stack(limit=12)[:-2])}")
            return False

        return BlockBusterFunction(None, name, scanned_modules=plugbay, can_block_predicate=is_fine)


def _blames_plugbay(frame: FrameType | None) -> bool:
    """Whether a coroutine of plugbay, or a callback of its, is what makes the loop wait."""
    is_ours = False
    while frame is not None:
        code = frame.f_code
        if any(code.co_filename.endswith(file) and code.co_name == name for file, name in ALLOWED):
            return False
        if code.co_filename.startswith(_SOURCE):
            is_ours = True
            if code.co_flags & _OF_A_COROUTINE:
                return True
        elif code.co_filename.startswith(_TESTS):
            return False
        elif code.co_filename == asyncio.events.__file__:
            return is_ours
        frame = frame.f_back
    return is_ours
