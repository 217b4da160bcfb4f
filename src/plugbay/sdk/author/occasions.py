"""The occasions to look again, for devices or for resources: paths that change, and time that passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from os import PathLike

from plugbay.errors import InvalidPlugin
from plugbay.model.durations import parse_duration


def check_occasions(name: str, *, watch: object, every: object) -> None:
    """Check the occasions that an author gave.

    Raises:
        InvalidPlugin: a path is not a path, or a time is not a time.
    """
    paths = watch if isinstance(watch, Iterable) and not isinstance(watch, str) else (watch,)
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise InvalidPlugin(name, f"`watch` has {path!r}, which is not a path")
    if every is not None and not is_positive(every):
        raise InvalidPlugin(name, f"`every` is {every!r}; it has to be more than 0 seconds, such as 5 or '5s', or None")


def is_positive(duration: object) -> bool:
    """Whether ``duration``, in seconds or a text such as ``5s``, is more than 0."""
    if isinstance(duration, str):
        try:
            duration = parse_duration(duration)
        except ValueError:
            return False
    return isinstance(duration, int | float) and not isinstance(duration, bool) and 0 < duration < math.inf


def seconds_of(duration: float | str) -> float:
    """A ``duration`` that `is_positive`, in seconds."""
    return parse_duration(duration) if isinstance(duration, str) else duration
