"""What images are made of: packages as files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    DEB = "deb"
    WHEEL = "wheel"


class Architecture(StrEnum):
    """A processor, as Debian and OCI call it."""

    AMD64 = "amd64"
    ARM64 = "arm64"

    @property
    def machine(self) -> str:
        """As the kernel and wheels call it."""
        return {Architecture.AMD64: "x86_64", Architecture.ARM64: "aarch64"}[self]


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """Exactly one package."""

    kind: Kind
    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.version}"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
