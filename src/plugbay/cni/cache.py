"""The result cache on disk, where every CNI runtime of the machine keeps it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from plugbay.cni.cached import CachedResult, decode, encode
from plugbay.cni.chain import Attachment
from plugbay.errors import PathUnusable

_logger = logging.getLogger(__name__)


class ResultCache:
    """What networks gave containers, for DEL, CHECK and GC. Blocks for as long as the disk takes.

    Args:
        directory: its ``results`` directory is made when something is to be written.
        write: replaces a file so that a crash leaves the old or the new content.
    """

    def __init__(self, directory: Path, *, write: Callable[[Path, bytes], None]) -> None:
        self.directory = directory
        self._results = directory / "results"
        self._write = write

    def load(self, network: str, attachment: Attachment) -> CachedResult | None:
        """The entry of one attachment; None when there is none. A damaged one is removed.

        Raises:
            PathUnusable: it cannot be read.
        """
        path = self._path(network, attachment)
        try:
            return decode(path.read_bytes(), network=network, attachment=attachment)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PathUnusable(str(path), f"cannot be read: {error.strerror}") from error
        except ValueError as error:
            _logger.warning("%s: %s; it is removed", path, error)
            self.remove(network, attachment)
            return None

    def store(self, cached: CachedResult) -> None:
        """
        Raises:
            PathUnusable: it cannot be written.
        """
        path = self._path(cached.network, cached.attachment)
        try:
            self._results.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, encode(cached))
        except OSError as error:
            raise PathUnusable(str(path), f"cannot be written: {error.strerror}") from error

    def remove(self, network: str, attachment: Attachment) -> None:
        """Forget one attachment; what cannot be removed stays, as in libcni: the container is gone all the same."""
        with contextlib.suppress(OSError):
            self._path(network, attachment).unlink()

    def entries(self) -> list[CachedResult]:
        """Everything that can be read, by file name; what cannot is not ours to judge.

        Raises:
            PathUnusable: the directory cannot be read.
        """
        try:
            names = sorted(os.listdir(self._results))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PathUnusable(str(self._results), f"cannot be read: {error.strerror}") from error
        found: list[CachedResult] = []
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                found.append(decode((self._results / name).read_bytes()))
        return found

    def _path(self, network: str, attachment: Attachment) -> Path:
        return self._results / f"{network}-{attachment.container_id}-{attachment.ifname}"
