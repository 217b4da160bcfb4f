"""Versions of the CNI specification: read, compare and choose them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

SUPPORTED: Final = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
"""The versions that plugbay speaks, oldest first."""
NEWEST: Final = SUPPORTED[-1]
IMPLIED: Final = "0.1.0"
"""The version of a configuration or result that names none."""

_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}", re.ASCII)


def version_key(text: str) -> tuple[int, int, int]:
    """``text`` in a form that compares by age; parts that are missing count as 0.

    Raises:
        ValueError: it is not one to three numbers with dots between them.
    """
    if not text:
        return version_key(IMPLIED)
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is not a version; it has to be like 1.0.0")
    major, minor, patch = [*map(int, text.split(".")), 0, 0][:3]
    return major, minor, patch


def is_at_least(version: str, minimum: str) -> bool:
    """Whether ``version`` is ``minimum`` or newer.

    Raises:
        ValueError: one of them is not a version.
    """
    return version_key(version) >= version_key(minimum)


def choose(version: str, offered: Iterable[str]) -> str:
    """The version to use of a list that offers several: the highest that we know.

    Args:
        version: the list's ``cniVersion``; it counts as offered, and stays when nothing offered is usable.
        offered: its ``cniVersions``.

    Raises:
        ValueError: one of them is not a version.
    """
    usable = [each for each in (*offered, version) if not version_key(each) > version_key(NEWEST)]
    return max(usable, key=version_key) if usable else version


def negotiate(offered: Iterable[str], takers: Iterable[Collection[str]]) -> str | None:
    """The newest of the offered versions that all plugins take; None when there is none.

    Args:
        offered: versions.
        takers: what each plugin takes, by the very text.
    """
    known = list(takers)
    common = [each for each in offered if all(each in supported for supported in known)]
    return max(common, key=version_key, default=None)
