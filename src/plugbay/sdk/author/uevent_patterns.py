"""Patterns in ``watch_uevents`` for the kernel's events that make `discover` run again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from plugbay.errors import InvalidWatch

Pattern = Mapping[str, str]
"""Properties of an event, such as ``SUBSYSTEM``, and what each has to be like: ``tty`` or ``ttyUSB*``."""


def patterns_of(resource: str, written: Pattern | Sequence[Pattern]) -> tuple[Pattern, ...]:
    """The patterns that an author gave; an event has to match one of them.

    Raises:
        InvalidWatch: it is something else.
    """
    patterns = (written,) if isinstance(written, Mapping) else tuple(written)
    for pattern in patterns:
        if not isinstance(pattern, Mapping) or not pattern:
            raise InvalidWatch(resource, f"{pattern!r} is not a mapping like {{'SUBSYSTEM': 'tty'}}")
        for key, value in pattern.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidWatch(resource, f"{key!r}: {value!r} are not two texts like 'SUBSYSTEM': 'tty'")
    return patterns


def matches(patterns: Sequence[Pattern], properties: Mapping[str, str]) -> bool:
    """Whether an event with ``properties`` is one of those meant; a property that it lacks does not match."""
    return any(
        all(key in properties and fnmatchcase(properties[key], value) for key, value in pattern.items())
        for pattern in patterns
    )
