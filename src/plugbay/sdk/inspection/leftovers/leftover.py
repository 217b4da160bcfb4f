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


@dataclass(frozen=True, slots=True)
class DomainSpecs:
    """CDI specs that one process writes for all resources of a domain.

    Attributes:
        domain: of the resources.
        files: the names of the specs; plugins of other makers may write files of these names too.
        sockets: the beginnings of the names of sockets that plugins for the domain have, be they ours or others'.
    """

    domain: str
    files: tuple[str, ...]
    sockets: tuple[str, ...]


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
