"""What is wrong with a plugin, in one sentence."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from plugbay.errors import AllocationError, AuthorError, CannotRelease, HookFailed, InvalidPlugin, PlugbayError
from plugbay.model.durations import parse_duration
from plugbay.sdk.cdi.answers import CdiAnswer
from plugbay.sdk.modes import Modes

if TYPE_CHECKING:
    from plugbay.sdk.plugin import DevicePlugin

_LIKE: Final = 0.9
"""How like a hook's name a method's is to be: one letter more, less, other, or in another place."""
_CALLERS: Final = ("plugbay.sdk.", "asyncio.", "contextlib", "threading", "importlib")
"""Modules on the way from an event to an author's code."""


def check_attributes(plugin: DevicePlugin) -> None:
    """Check what an author may have written into a plugin's attributes.

    Raises:
        InvalidPlugin: one of them is of no use; said here, because it would fail much later, or never stop failing.
    """
    name = plugin.resource_name
    check_occasions(name, watch=plugin.watch, every=plugin.every)
    if not (plugin.modes is None or isinstance(plugin.modes, Modes)):
        raise InvalidPlugin(name, f"`modes` is {plugin.modes!r} and not a plugbay.Modes")
    if not isinstance(plugin.check_paths, bool):
        raise InvalidPlugin(name, f"`check_paths` is {plugin.check_paths!r} and neither True nor False")
    if not (plugin.join_env is None or isinstance(plugin.join_env, str)):
        raise InvalidPlugin(name, f"`join_env` is {plugin.join_env!r} and neither a text nor None")
    if not (plugin.cdi_kind is None or isinstance(plugin.cdi_kind, str)):
        raise InvalidPlugin(name, f"`cdi_kind` is {plugin.cdi_kind!r} and neither a text nor None")
    if not (isinstance(plugin.cdi_answer, CdiAnswer) and plugin.cdi_answer):
        raise InvalidPlugin(
            name, f"`cdi_answer` is {plugin.cdi_answer!r}; it has to be one of plugbay.CdiAnswer or more"
        )


def check_occasions(name: str, *, watch: object, every: object) -> None:
    """Check when somebody is to look again: for devices, or for resources.

    Raises:
        InvalidPlugin: paths that are none, or no time.
    """
    paths = watch if isinstance(watch, Iterable) and not isinstance(watch, str) else (watch,)
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise InvalidPlugin(name, f"`watch` has {path!r}, which is not a path")
    if every is not None and not is_positive(every):
        raise InvalidPlugin(name, f"`every` is {every!r}; it has to be more than 0 seconds, such as 5 or '5s', or None")


def is_positive(duration: object) -> bool:
    """Whether it is more than no time: so many seconds, or a text such as ``5s``."""
    if isinstance(duration, str):
        try:
            duration = parse_duration(duration)
        except ValueError:
            return False
    return isinstance(duration, int | float) and not isinstance(duration, bool) and 0 < duration < math.inf


def seconds_of(duration: float | str) -> float:
    """What `is_positive`, in seconds."""
    return parse_duration(duration) if isinstance(duration, str) else duration


def misspelled_hooks(plugin: DevicePlugin) -> Iterator[str]:
    """A sentence for each public method that is nearly called like a hook, and so is called by nobody."""
    # Imported here: a plugin process is made once, and then does without it.
    from difflib import get_close_matches

    from plugbay.sdk.plugin import DevicePlugin

    hooks = [name for name in vars(DevicePlugin) if not name.startswith("_") and callable(getattr(DevicePlugin, name))]
    names = {name for base in type(plugin).__mro__ for name in vars(base)} - vars(DevicePlugin).keys()
    for name in sorted(names):
        if not name.startswith("_") and callable(getattr(type(plugin), name, None)):
            for hook in get_close_matches(name, hooks, n=1, cutoff=_LIKE):
                yield f"nothing calls {name}(); is it meant to be {hook}()?"


def problem_of(error: Exception, hook: Callable[..., Any] | None = None) -> str:
    """What an author's code raised, and where; or where ``hook`` is written, which gave what we refused.

    An error that its author raised on purpose, or that somebody else has to mend, says by itself all there is to say.
    """
    is_ours = isinstance(error, PlugbayError) and not isinstance(error, AuthorError)
    if is_ours or isinstance(error, AllocationError | CannotRelease | HookFailed):
        return said_by(error)
    return f"{said_by(error)}{place_of(error) or definition_of(hook)}"


def said_by(error: Exception) -> str:
    """As `problem_of`, without the place."""
    return str(error) if isinstance(error, PlugbayError) else f"{type(error).__name__}: {error}"


def place_of(error: BaseException) -> str:
    """The line of an author's file that led to ``error``, such as `` (cards.py:12)``; empty if there is none."""
    steps = [(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line) for frame, line in _walk(error)]
    files = [file for module, file, _ in steps if _is_authors(module)]
    lines = [line for _, file, line in steps if files and file == files[0]]
    return f" ({os.path.basename(files[0])}:{lines[-1]})" if lines else ""


def definition_of(hook: Callable[..., Any] | None) -> str:
    """Where an author has written ``hook``, as `place_of` says it; empty for one of ours."""
    code = None if hook is None or not is_authors(hook) else code_of(hook)
    return "" if code is None else f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def code_of(hook: Callable[..., Any]) -> CodeType | None:
    """What an author wrote, below its decorators."""
    code = getattr(inspect.unwrap(hook), "__code__", None)
    return code if isinstance(code, CodeType) else None


def is_authors(hook: Callable[..., Any]) -> bool:
    """Whether ``hook`` is not one of ours."""
    return not (getattr(hook, "__module__", "") or "").startswith("plugbay.")


def _is_authors(module: str) -> bool:
    """Whether its code may be an author's, as that of ready-made plugins is: not ours, and not on the way to a hook."""
    return module.startswith("plugbay.plugins.") or not module.startswith(("plugbay.", *_CALLERS))


def _walk(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def trace_of(error: Exception) -> tuple[type[Exception], Exception, TracebackType | None] | None:
    """For a log: where in an author's code ``error`` was raised, without the way there; None for an error of ours."""
    if isinstance(error, PlugbayError):
        return None
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_CALLERS):
        trace = trace.tb_next
    # All of it if the author's code is not on it: then it is we who have to look.
    return type(error), error, trace or error.__traceback__
