"""A sentence for a log about an error in an author's code, with the place in the author's file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from plugbay.errors import AllocationError, AuthorError, CannotRelease, HookFailed, PlugbayError

_CALLERS: Final = ("plugbay.sdk.", "asyncio.", "contextlib", "threading", "importlib")
"""Modules on the way from an event to an author's code."""


def problem_of(error: Exception, hook: Callable[..., Any] | None = None) -> str:
    """Say what an author's code raised, and where; or where ``hook`` is written, which gave what we refused.

    An error that its author raised on purpose, or that is not the author's to mend, says all by itself.
    """
    is_ours = isinstance(error, PlugbayError) and not isinstance(error, AuthorError)
    if is_ours or isinstance(error, AllocationError | CannotRelease | HookFailed):
        return said_by(error)
    return f"{said_by(error)}{place_of(error) or definition_of(hook)}"


def said_by(error: BaseException) -> str:
    """Say what an author's code raised, without the place."""
    if isinstance(error, PlugbayError):
        return str(error)
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # its text is an author's code as well
        return name


def place_of(error: BaseException) -> str:
    """The line of an author's file that led to ``error``, such as `` (cards.py:12)``; empty if there is none."""
    steps = [(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line) for frame, line in _walk(error)]
    files = [file for module, file, _ in steps if _is_authors(module)]
    lines = [line for _, file, line in steps if files and file == files[0]]
    return f" ({os.path.basename(files[0])}:{lines[-1]})" if lines else ""


def definition_of(hook: Callable[..., Any] | None) -> str:
    """The place where an author has written ``hook``, as `place_of` says it; empty for one of ours."""
    code = None if hook is None or not is_authors(hook) else code_of(hook)
    return "" if code is None else f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def code_of(hook: Callable[..., Any]) -> CodeType | None:
    """The code that an author wrote, below its decorators."""
    code = getattr(inspect.unwrap(hook), "__code__", None)
    return code if isinstance(code, CodeType) else None


def is_authors(hook: Callable[..., Any]) -> bool:
    """Whether ``hook`` is not one of ours."""
    return not (getattr(hook, "__module__", "") or "").startswith("plugbay.")


def _is_authors(module: str) -> bool:
    """Whether the code may be an author's: not plugbay's, except for ready-made plugins, and not on a hook's way."""
    return module.startswith("plugbay.plugins.") or not module.startswith(("plugbay.", *_CALLERS))


def _walk(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def trace_of(error: Exception) -> tuple[type[Exception], Exception, TracebackType | None] | None:
    """The traceback for a log: in an author's code, without the way there; None for an error of ours."""
    if isinstance(error, PlugbayError):
        return None
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_CALLERS):
        trace = trace.tb_next
    # If the author's code is not on it, all of it is shown: then the mistake is ours.
    return type(error), error, trace or error.__traceback__
