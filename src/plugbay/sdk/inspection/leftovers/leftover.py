"""One thing that a plugin has left, and what may become of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file, or a directory, of plugins of ours.

    Attributes:
        path: where it lies.
        what: what it is, for people.
        needed: why it has to stay; empty if nothing needs it.
        remove: removes it, having looked again; returns why it has to stay by now, or raises OSError.
    """

    path: Path
    what: str
    needed: str
    remove: Callable[[], str]


def unlinked(*paths: Path) -> str:
    """Remove files that may be there, for `Leftover.remove`.

    Raises:
        OSError: one cannot be removed.
    """
    for path in paths:
        path.unlink(missing_ok=True)
    return ""


def without_directory(directory: Path) -> str:
    """Remove a directory with nothing in it.

    Raises:
        OSError: it cannot be removed.
    """
    if any(directory.iterdir()):
        return STAYS
    directory.rmdir()
    return ""


STAYS = "there are files in it that stay"
