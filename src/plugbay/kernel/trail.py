"""Resolve a path component by component, and find the watches that would notice a different result."""

from __future__ import annotations

import enum
import os
import stat
from collections import deque
from typing import Final

from plugbay.kernel.inotify import Mask
from plugbay.values import dataclass

_MAX_LINKS: Final = 40
"""The kernel's own limit before ELOOP."""

_ENTRIES: Final = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.ONLYDIR
_ITSELF: Final = Mask.DELETE_SELF | Mask.MOVE_SELF
_CONTENT: Final = Mask.CLOSE_WRITE | Mask.ATTRIB
_NOTHING: Final = Mask(0)


class Found(enum.Enum):
    """The kind of thing that a name leads to."""

    MISSING = enum.auto()
    DIRECTORY = enum.auto()
    FILE = enum.auto()
    LINK = enum.auto()
    OTHER = enum.auto()
    """The name leads to a socket, a pipe or a device."""
    HIDDEN = enum.auto()
    """The path cannot be looked at: this process lacks the right, or the name is too long."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One name looked up in one directory, which is named without symbolic links.

    Attributes:
        link: what a symbolic link points to, else empty.
    """

    directory: str
    name: str
    found: Found
    link: str = ""


@dataclass(frozen=True, slots=True)
class Trail:
    """Every lookup on the way to a path.

    Attributes:
        target: the end of the way, without symbolic links.
        found: the kind of thing there; MISSING if the way ends early.
    """

    lookups: tuple[Lookup, ...]
    target: str
    found: Found


@dataclass(slots=True)
class Interest:
    """The events that matter in one watched inode.

    Attributes:
        names: the entries that matter.
        contents: whether every entry matters.
    """

    mask: Mask = _NOTHING
    names: frozenset[str] = frozenset()
    contents: bool = False

    def watch(self, mask: Mask, *names: str) -> None:
        self.mask |= mask
        self.names |= set(names)


def follow(path: str) -> Trail:
    """Resolve an absolute path as the kernel does, now."""
    directory, found = "/", Found.DIRECTORY
    ahead = deque(_components(path))
    lookups: list[Lookup] = []
    links = 0
    while ahead:
        name = ahead.popleft()
        if name == "..":
            directory = os.path.dirname(directory)
            continue
        lookup = _look_up(directory, name)
        lookups.append(lookup)
        found = lookup.found
        if found is Found.DIRECTORY:
            directory = os.path.join(directory, name)
        elif found is Found.LINK and links < _MAX_LINKS:
            links += 1
            ahead.extendleft(reversed(_components(lookup.link)))
            directory = "/" if lookup.link.startswith("/") else directory
            found = Found.DIRECTORY
        elif ahead or found is Found.LINK:
            return Trail(tuple(lookups), directory, Found.HIDDEN if found is Found.HIDDEN else Found.MISSING)
        else:
            return Trail(tuple(lookups), os.path.join(directory, name), found)
    return Trail(tuple(lookups), directory, found)


def interests(trail: Trail, *, rewrites: bool = False) -> dict[str, Interest]:
    """The watches that notice every change of the trail or its target, topmost directory first.

    With ``rewrites``, also that a file in the directory it leads to was open for writing, and is closed.

    A directory far above is watched for being renamed only: it cannot be removed before what is in it. The entries
    of the last two directories are watched, because the kernel tells late about the removal of a directory that
    someone still has open; and those of every directory with a symbolic link on the way, because links are replaced.
    Inotify cannot see that a file system is mounted over a directory on the way.
    """
    watched: dict[str, Interest] = {}
    last_two = trail.lookups[-2:]
    for lookup in trail.lookups:
        if lookup.found is Found.LINK or lookup in last_two:
            watched.setdefault(lookup.directory, Interest()).watch(_ENTRIES, lookup.name)
        if lookup.found is Found.DIRECTORY:
            path = os.path.join(lookup.directory, lookup.name)
            watched.setdefault(path, Interest()).watch(_ITSELF | Mask.ONLYDIR)
    if trail.found is Found.DIRECTORY:
        target = watched.setdefault(trail.target, Interest())
        target.watch(_ENTRIES | Mask.ATTRIB | (Mask.CLOSE_WRITE if rewrites else _NOTHING))
        target.contents = True
    elif trail.found is Found.FILE:
        watched.setdefault(trail.target, Interest()).watch(_CONTENT | _ITSELF)
    return watched


def _components(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _look_up(directory: str, name: str) -> Lookup:
    path = os.path.join(directory, name)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return Lookup(directory, name, Found.LINK, os.readlink(path))
    except (FileNotFoundError, NotADirectoryError):
        return Lookup(directory, name, Found.MISSING)
    except OSError:
        return Lookup(directory, name, Found.HIDDEN)
    if stat.S_ISDIR(mode):
        return Lookup(directory, name, Found.DIRECTORY)
    return Lookup(directory, name, Found.FILE if stat.S_ISREG(mode) else Found.OTHER)
