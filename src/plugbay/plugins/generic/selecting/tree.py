"""The files of the host: names in directories, kinds of files, and where links lead."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Protocol

from plugbay.cdi.nodes import NOT_LOOKED_INTO, NOT_TAKEN

_LINKS_AT_MOST: Final = 40  # as the kernel


class FileKind(Enum):
    """The kind of file that a path leads to, behind links."""

    CHARACTER = "a character device"
    BLOCK = "a block device"
    DIRECTORY = "a directory"
    OTHER = "not a device node"
    DANGLING = "a link to nothing"
    MISSING = "not there"

    @property
    def is_node(self) -> bool:
        """Whether it is a device node."""
        return self in (FileKind.CHARACTER, FileKind.BLOCK)


class FileTree(Protocol):
    """The files of a host; paths are absolute, and those of the host."""

    def names(self, directory: str) -> Iterable[str]:
        """The names in a directory, in any order; none for what cannot be listed."""

    def kind(self, path: str) -> FileKind: ...

    def is_link(self, path: str) -> bool: ...

    def target(self, path: str) -> str:
        """The path to which links lead; the path itself if there is none."""


def nodes_inside(files: FileTree, directory: str) -> Iterator[str]:
    """The device nodes that engines give for a directory: those at every depth, and links are passed over."""
    for name in sorted(files.names(directory)):
        path = f"{directory.rstrip('/')}/{name}"
        if files.is_link(path):
            continue
        kind = files.kind(path)
        if kind is FileKind.DIRECTORY and name not in NOT_LOOKED_INTO:
            yield from nodes_inside(files, path)
        elif kind.is_node and name != NOT_TAKEN:
            yield path


def directories_inside(files: FileTree, directory: str) -> Iterator[str]:
    """The directory, and those in it, at every depth, in which engines look for the nodes that they give for it."""
    yield directory
    for name in files.names(directory):
        path = f"{directory.rstrip('/')}/{name}"
        if name not in NOT_LOOKED_INTO and not files.is_link(path) and files.kind(path) is FileKind.DIRECTORY:
            yield from directories_inside(files, path)


class HostTree:
    """The files below ``root``, where the host's root directory is mounted: ``/`` outside a container."""

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self._root = os.fspath(root).rstrip("/")

    def names(self, directory: str) -> Iterable[str]:
        try:
            return os.listdir(self._root + directory)
        except OSError:
            return ()

    def kind(self, path: str) -> FileKind:
        try:
            mode = os.stat(self._root + self.target(path) if self._root else path).st_mode
        except (OSError, ValueError):  # a null character in a path is a ValueError
            return FileKind.DANGLING if self.is_link(path) else FileKind.MISSING
        if stat.S_ISCHR(mode):
            return FileKind.CHARACTER
        if stat.S_ISBLK(mode):
            return FileKind.BLOCK
        return FileKind.DIRECTORY if stat.S_ISDIR(mode) else FileKind.OTHER

    def is_link(self, path: str) -> bool:
        return os.path.islink(self._root + path)

    def target(self, path: str) -> str:
        """Absolute links of the host do not lead out of the root."""
        if not self._root:
            return os.path.realpath(path)
        found = "/"
        waiting = path.split("/")[::-1]
        links = 0
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                found = os.path.dirname(found)
                continue
            step = os.path.join(found, name)
            try:
                link = os.readlink(self._root + step)
            except OSError:
                found = step
                continue
            links += 1
            if links > _LINKS_AT_MOST:
                return path
            if link.startswith("/"):
                found = "/"
            waiting.extend(link.split("/")[::-1])
        return found
