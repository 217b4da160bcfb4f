"""A driver's files below a root: found by patterns, with links followed. Blocks.

Source: nvidia-container-toolkit 1.20.0 ``pkg/lookup``.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.cdi.elf import soname_of
from plugbay.plugins.nvidia.cdi.linker_cache import cached_libraries
from plugbay.values import dataclass

_LINKER_CACHE: Final = "/etc/ld.so.cache"
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library.

    Attributes:
        path: below the root, links resolved.
        soname: the name under which programs look for it; None when the file is not a library.
        links: the names in its directory that are links on the host.
    """

    path: str
    soname: str | None
    links: frozenset[str] = frozenset()


class DriverTree:
    """The files below a root. Paths are absolute below it, and patterns are those of the shell."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)

    def found(self, directories: Sequence[str], pattern: str) -> list[str]:
        """The files that match ``pattern`` in ``directories``, by directory and then by name."""
        return [path for path in self._matching(directories, pattern) if _is_file(self.outside(path))]

    def found_directories(self, pattern: str) -> list[str]:
        """The directories that match a pattern."""
        return [path for path in self._matching(("/",), pattern) if os.path.isdir(self.outside(path))]

    def first(self, directories: Sequence[str], name: str, *, is_program: bool = False) -> list[str]:
        """The first of `found`, in a list; programs that cannot be executed do not count."""
        found = self.found(directories, name)
        return [path for path in found if not is_program or os.stat(self.outside(path)).st_mode & 0o111][:1]

    def resolved(self, directories: Sequence[str], pattern: str) -> list[str]:
        """As `found`, with links followed, each file once."""
        return list(dict.fromkeys(map(self._target, self.found(directories, pattern))))

    def libraries(self, directories: Sequence[str], pattern: str) -> list[str]:
        """As `resolved`, and where the dynamic linker's cache has libraries if there is none in ``directories``."""
        return self.resolved(directories, pattern) or list(dict.fromkeys(map(self._target, self._cached(pattern))))

    def library(self, path: str) -> Library:
        """The library at ``path``; its links are those that the reference would make in containers too."""
        directory = os.path.dirname(self.outside(path))
        with os.scandir(directory) as entries:
            links = {entry.name for entry in entries if entry.is_symlink()}
        soname = soname_of(Path(self.outside(path)))
        wanted = {soname, _bare(soname or "")}
        return Library(path, soname, frozenset(each for each in wanted if each in links))

    def chain(self, path: str) -> list[tuple[str, str]]:
        """The links from ``path`` to the file that it leads to, each as its target and itself; none for a file."""
        links: list[tuple[str, str]] = []
        while os.path.islink(self.outside(path)) and path not in [link for _, link in links]:
            target = os.readlink(self.outside(path))
            links.append((target, path))
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return links

    def outside(self, path: str) -> str:
        """The path for this process."""
        return f"{self._root.rstrip('/')}{path}"

    def _matching(self, directories: Sequence[str], pattern: str) -> list[str]:
        paths = []
        for directory in dict.fromkeys(directories):
            inside = glob.escape(f"{self._root.rstrip('/')}{directory}".rstrip("/"))
            paths += [self._below(path) for path in sorted(glob.glob(f"{inside}/{pattern.lstrip('/')}"))]
        return list(dict.fromkeys(paths))

    def _cached(self, pattern: str) -> list[str]:
        """The libraries in the cache of the dynamic linker whose own name, or that of what they lead to, matches."""
        try:
            with open(self.outside(_LINKER_CACHE), "rb") as opened:
                listed = cached_libraries(opened.read(_MOST_BYTES))
        except OSError:
            return []
        paths = [each for path in listed for each in (path, *self._targets(path))]
        return [
            each for each in paths if fnmatchcase(posixpath.basename(each), pattern) and _is_file(self.outside(each))
        ]

    def _targets(self, path: str) -> Iterator[str]:
        """The paths that a link leads to, one after the other."""
        for target, link in self.chain(path):
            yield posixpath.normpath(posixpath.join(posixpath.dirname(link), target))

    def _below(self, path: str) -> str:
        return path if self._root == "/" else path.removeprefix(self._root)

    def _target(self, path: str) -> str:
        target = os.path.realpath(self.outside(path))
        inside = self._root.rstrip("/") + "/"
        return self._below(target) if target.startswith(inside) else path


def _bare(name: str) -> str:
    """The name up to ``.so``: that for which compilers look."""
    head, mark, _ = name.partition(".so")
    return head + mark if mark else ""


def _is_file(path: str) -> bool:
    return os.path.exists(path) and not os.path.isdir(path)
