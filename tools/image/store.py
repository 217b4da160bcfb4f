"""Packages kept as files, found by what they hold."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.image.inputs import Pin, sha256_of


class Store:
    """A directory of packages; what lies in it is used again, and is not overwritten."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._files = {sha256_of(path): path for path in directory.rglob("*") if path.suffix in (".deb", ".whl")}

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._files

    def __getitem__(self, sha256: str) -> Path:
        return self._files[sha256]

    def missing(self, pins: Iterable[Pin]) -> list[Pin]:
        return [pin for pin in pins if pin.sha256 not in self]

    def add(self, file: Path) -> Path:
        """Move a file here; returns its new path."""
        sha256 = sha256_of(file)
        if sha256 not in self._files:
            place = self._directory / file.name
            if place.exists():  # another build of the same version
                place = self._directory / sha256[:12] / file.name
                place.parent.mkdir()
            self._files[sha256] = Path(shutil.move(file, place))
        return self._files[sha256]
