"""A file system as values: paths, and what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tools.image.problems import ImageFailed

MERGED: Final = ("bin", "lib", "lib32", "lib64", "libo32", "libx32", "sbin")
"""Directories that are links to those in /usr of the same names, as in every Debian since bookworm."""
_MOST_LINKS: Final = 20


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, slots=True)
class Link:
    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    mode: int = 0o755


Entry = File | Link | Directory


class Tree:
    """Entries by path from the root, without a leading slash; no path has two different ones."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        """Paths, each after the directories that hold it."""
        return iter(sorted(self._entries, key=lambda path: path.split("/")))

    def __getitem__(self, path: str) -> Entry:
        return self._entries[path]

    def add(self, path: str, entry: Entry) -> None:
        """Put an entry at a path, and directories above it.

        Raises:
            ImageFailed: something else is there.
        """
        path = merged(path)
        there = self._entries.get(path)
        if there is not None and there != entry:
            raise ImageFailed(f"two packages have different files at /{path}")
        for parent in list(PurePosixPath(path).parents)[:-1]:
            if not isinstance(self._entries.setdefault(str(parent), Directory()), Directory):
                raise ImageFailed(f"/{path} lies below /{parent}, which is not a directory")
        self._entries[path] = entry

    def update(self, other: Tree) -> None:
        """Put all entries of another tree here."""
        for path in other:
            self.add(path, other[path])

    def files(self) -> Iterator[tuple[str, File]]:
        for path in self:
            if isinstance(entry := self[path], File):
                yield path, entry

    def resolve(self, path: str) -> str:
        """The path of the file that a path leads to by links.

        Raises:
            ImageFailed: to none.
        """
        there = merged(path.lstrip("/"))
        for _ in range(_MOST_LINKS):
            entry = self._entries.get(there)
            if isinstance(entry, File):
                return there
            if not isinstance(entry, Link):
                break
            there = merged(_joined(there, entry.target))
        raise ImageFailed(f"/{path.lstrip('/')} does not lead to a file in the image")


def merged(path: str) -> str:
    """The path with /usr before the directories that moved there."""
    return f"usr/{path}" if path.split("/", 1)[0] in MERGED and "/" in path else path


def write(tree: Tree, directory: Path) -> None:
    """Make the file system in an empty directory, whatever the umask is."""
    directory.chmod(0o755)
    for path in tree:
        there, entry = directory / path, tree[path]
        match entry:
            case File():
                there.write_bytes(entry.content)
                there.chmod(entry.mode)
            case Link():
                there.symlink_to(entry.target)
            case Directory():
                there.mkdir()
                there.chmod(entry.mode)


def _joined(path: str, target: str) -> str:
    """Where a link at ``path`` leads to."""
    if target.startswith("/"):
        return target.lstrip("/")
    parts = path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
