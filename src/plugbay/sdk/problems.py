"""What is wrong with a plugin, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Final

from plugbay.errors import InvalidPlugin, PlugbayError
from plugbay.sdk.cdi.answers import CdiAnswer
from plugbay.sdk.modes import Modes

if TYPE_CHECKING:
    from plugbay.sdk.plugin import DevicePlugin

_CALLERS: Final = ("plugbay.sdk.", "asyncio.", "contextlib", "threading")
"""Modules on the way from an event to an author's code."""


def check_attributes(plugin: DevicePlugin) -> None:
    """Check what an author may have written into a plugin's attributes.

    Raises:
        InvalidPlugin: one of them is of no use; said here, because it would fail much later, or never stop failing.
    """
    name = plugin.resource_name
    check_occasions(name, watch=plugin.watch, every=plugin.every)
    if not (plugin.modes is None or isinstance(plugin.modes, Modes)):
        raise InvalidPlugin(name, f"`modes` is {plugin.modes!r} and no plugbay.Modes")
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
            raise InvalidPlugin(name, f"`watch` has {path!r}, which is no path")
    if every is None:
        return
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every < math.inf:
        raise InvalidPlugin(name, f"`every` is {every!r}; it has to be more than 0 seconds, or None")


def problem_of(error: Exception) -> str:
    """What an author's code raised; an error of ours says by itself all there is to say."""
    return str(error) if isinstance(error, PlugbayError) else f"{type(error).__name__}: {error}"


def trace_of(error: Exception) -> tuple[type[Exception], Exception, TracebackType | None] | None:
    """For a log: where in an author's code ``error`` was raised, without the way there; None for an error of ours."""
    if isinstance(error, PlugbayError):
        return None
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_CALLERS):
        trace = trace.tb_next
    # All of it if the author's code is not on it: then it is we who have to look.
    return type(error), error, trace or error.__traceback__
