"""The files of a directory of manifests, each read when it has changed.

Source: kubelet 1.36 ``pkg/kubelet/config/file.go``.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from plugbay.errors import InvalidManifest
from plugbay.manifest import Strictness, load_pods
from plugbay.model.pods import Pod
from plugbay.pods.static.files import identified, static_pod
from plugbay.values import dataclass

MAX_BYTES: Final = 10 * 1024 * 1024
"""A kubelet reads as much of a manifest. ``-f`` has the same limit."""
_SMALL_BYTES: Final = 64 * 1024
"""A file of this size takes some 50 ms. A larger one is read alone, after the small ones."""
TICK_NS: Final = 100_000_000
"""File systems count time in ticks: the second of two writes this close may leave no trace in a file's times."""
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

_Identity: TypeAlias = tuple[int, int, int, int, int]
"""A file's device, inode, size, and the times of the last change of content and of the inode, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """The content of a directory of manifests at one moment.

    Attributes:
        pods: the pods that each readable file makes.
        problems: the problem with each other file, and with the directory if it cannot be listed.
        unread: files that have changed and are not read yet.
        is_in_doubt: whether the system refused something, which it may do later although nothing changes.
    """

    pods: Mapping[Path, tuple[Pod, ...]]
    problems: Mapping[Path, str]
    unread: frozenset[Path] = frozenset()
    is_in_doubt: bool = False

    @property
    def paths(self) -> frozenset[Path]:
        return frozenset({*self.pods, *self.problems, *self.unread})


@dataclass(frozen=True, slots=True)
class _Read:
    """The content of one file.

    Attributes:
        identity: the file that had this content; None if it is to be read again at the next look.
        said: its pods, or the problem with it; None if it was not there.
        was_refused: whether the system did not let it be read.
    """

    identity: _Identity | None
    said: tuple[Pod, ...] | str | None
    was_refused: bool = False


_NEVER_READ: Final = _Read(identity=None, said=None)


class ManifestReader:
    """Reads a directory again and again, and of its files only those that have changed."""

    def __init__(self, directory: Path, *, node: str) -> None:
        self._directory = directory
        self._node = node
        self._known: dict[Path, _Read] = {}
        self._problem = ""
        """The reason why the directory cannot be listed."""

    def paths(self) -> frozenset[Path]:
        """The manifests that are there; those of before if the directory cannot be listed."""
        self._look()
        return frozenset(self._known)

    def read(self) -> Iterator[ManifestFiles]:
        """The content of the directory, first with the small files read, then with each large one as well.

        A large file can take seconds; the pods of the small ones do not wait for it. Reads files between its steps.
        """
        self._look()
        changed = [] if self._problem else [path for path in sorted(self._known) if self._is_news(path)]
        large = [path for path in changed if _size(path) > _SMALL_BYTES]
        small = [path for path in changed if path not in large]
        self._take(small)
        yield self._files(large)
        for index, path in enumerate(large, start=1):
            self._take([path])
            yield self._files(large[index:])

    def _look(self) -> None:
        """List the directory. As long as that fails, all files count as being there, with what was read of them."""
        try:
            found = _manifests_in(self._directory)
        except OSError as error:
            self._problem = f"{self._directory}: cannot be listed, so its pods stay as they are: {error.strerror}"
            return
        self._problem = ""
        self._known = {path: self._known.get(path, _NEVER_READ) for path in found}

    def _is_news(self, path: Path) -> bool:
        known = self._known[path]
        return known.identity is None or known.identity != _identity(path)

    def _take(self, paths: Iterable[Path]) -> None:
        for path in paths:
            # Looked at before it is read: what is written meanwhile makes it another file at the next look.
            identity = _identity(path)
            try:
                self._known[path] = _Read(identity, _said(path, self._node))
            except OSError as error:
                problem = f"{path}: cannot be read: {error.strerror}"
                self._known[path] = _Read(identity=None, said=problem, was_refused=True)

    def _files(self, unread: Iterable[Path]) -> ManifestFiles:
        waiting = frozenset(unread)
        read = {path: read for path, read in sorted(self._known.items()) if path not in waiting}
        pods = {path: each.said for path, each in read.items() if isinstance(each.said, tuple)}
        problems = {path: each.said for path, each in read.items() if isinstance(each.said, str)}
        if self._problem:
            problems[self._directory] = self._problem
        is_in_doubt = bool(self._problem) or any(each.was_refused for each in read.values())
        return ManifestFiles(pods, problems, waiting, is_in_doubt=is_in_doubt)


def _manifests_in(directory: Path) -> list[Path]:
    """
    Raises:
        OSError: the directory cannot be listed; one that does not exist is empty.
    """
    try:
        return [path for path in directory.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith(".")]
    except FileNotFoundError:
        return []


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if time.time_ns() - found.st_ctime_ns < TICK_NS:
        return None  # it may be written again without another time
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _said(path: Path, node: str) -> tuple[Pod, ...] | str | None:
    """The pods of a file, or the problem with it; None if it is not there.

    Raises:
        OSError: it cannot be read.
    """
    try:
        found, _ = load_pods(_content(path), source=str(path), mode=Strictness.STRICT)
        return tuple(static_pod(identified(pod, path), path=path, node=node) for pod in found)
    except InvalidManifest as error:
        return str(error)
    except FileNotFoundError:
        return None  # taken away since it was listed
    except UnicodeDecodeError:
        return f"{path}: is not UTF-8 text"


def _content(path: Path) -> str:
    # Nonblocking: a pipe would wait for its writer, and with it all manifests and the end of the node.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidManifest("not a regular file", source=str(path))
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidManifest(f"larger than {MAX_BYTES} bytes", source=str(path))
    return content.decode()
