"""The result cache on disk, where every CNI runtime of the machine keeps it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from plugbay.cni.cached import CachedResult, decode, decode_listed, encode
from plugbay.cni.chain import Attachment
from plugbay.errors import PathUnusable

_logger = logging.getLogger(__name__)


class ResultCache:
    """The results of containers' networks, kept for DEL, CHECK and GC. Blocks for as long as the disk takes.

    ``results`` is libcni's, and holds what is finished. ``pending`` is ours: what was begun, so that it can be undone
    with the same configuration and arguments whatever happens in between.

    Args:
        directory: the two directories in it are made when something is to be written.
        write: replaces a file so that a crash leaves the old or the new content.
    """

    def __init__(self, directory: Path, *, write: Callable[[Path, bytes], None]) -> None:
        self.directory = directory
        self._results = directory / "results"
        self._pending = directory / "pending"
        self._write = write

    @property
    def directories(self) -> tuple[Path, Path]:
        """The directories in which `write` is asked to put files."""
        return self._results, self._pending

    def load(self, network: str, attachment: Attachment) -> CachedResult | None:
        """The finished entry of one attachment; None when there is none.

        Raises:
            PathUnusable: it cannot be read, or is damaged.
        """
        try:
            return self._load(network, attachment)
        except ValueError as error:
            raise PathUnusable(str(self._finished(network, attachment)), f"is damaged: {error}") from error

    def load_for_removal(self, network: str, attachment: Attachment) -> CachedResult | None:
        """Load an entry as `load` does, but remove a damaged one and return None: it must not keep a container from
        going.

        Raises:
            PathUnusable: it cannot be read.
        """
        try:
            return self._load(network, attachment)
        except ValueError as error:
            path = self._finished(network, attachment)
            _logger.warning("%s: %s; the damaged entry is removed", path, error)
            _forget(path)
            return None

    def begin(self, entry: CachedResult) -> None:
        """Remember what is about to be attached.

        Raises:
            PathUnusable: it cannot be written.
        """
        self._put(self._pending, replace(entry, result=None))

    def finish(self, entry: CachedResult) -> None:
        """Remember what was attached.

        Raises:
            PathUnusable: it cannot be written.
        """
        self._put(self._results, entry)
        _forget(self._pending / _name(entry.network, entry.attachment))

    def remove(self, network: str, attachment: Attachment) -> None:
        """Forget one attachment; what cannot be removed stays, as in libcni: the container is gone all the same."""
        for directory in (self._results, self._pending):
            _forget(directory / _name(network, attachment))

    def entries(self) -> list[CachedResult]:
        """All entries that can be read, by file name; other files are ignored.

        Raises:
            PathUnusable: a directory cannot be read.
        """
        found = {name: entry for directory in (self._pending, self._results) for name, entry in _read(directory)}
        return [found[name] for name in sorted(found)]

    def entries_of(self, container_id: str) -> list[CachedResult]:
        """The entries of one container, by network and interface.

        Raises:
            PathUnusable: a directory cannot be read.
        """
        return [each for each in self.entries() if each.attachment.container_id == container_id]

    def _finished(self, network: str, attachment: Attachment) -> Path:
        return self._results / _name(network, attachment)

    def _load(self, network: str, attachment: Attachment) -> CachedResult | None:
        path = self._finished(network, attachment)
        try:
            return decode(path.read_bytes(), network=network, attachment=attachment)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PathUnusable(str(path), f"cannot be read: {error.strerror}") from error

    def _put(self, directory: Path, entry: CachedResult) -> None:
        path = directory / _name(entry.network, entry.attachment)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, encode(entry))
        except OSError as error:
            raise PathUnusable(str(path), f"cannot be written: {error.strerror}") from error


def _read(directory: Path) -> Iterator[tuple[str, CachedResult]]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be read: {error.strerror}") from error
    for name in names:
        # The name alone does not show them: all three of its parts may hold hyphens.
        with contextlib.suppress(OSError, ValueError):
            yield name, decode_listed((directory / name).read_bytes())


def _name(network: str, attachment: Attachment) -> str:
    return f"{network}-{attachment.container_id}-{attachment.ifname}"


def _forget(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
