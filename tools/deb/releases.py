"""Releases of Debian, and architectures, for which there is a package."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Release:
    """Attributes: ``python`` is that of its python3; ``suffix`` of versions, so that the next release's are newer."""

    python: str
    suffix: str
    glibc: int


RELEASES: Final[Mapping[str, Release]] = {
    "bookworm": Release("3.11", "~deb12", 36),
    "trixie": Release("3.13", "~deb13", 41),
}
ARCHITECTURES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
"""As Debian names them, and as wheels do."""


def this_release() -> str | None:
    try:
        name = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return None
    return name if name in RELEASES else None


def this_architecture() -> str | None:
    return {wheel: debian for debian, wheel in ARCHITECTURES.items()}.get(platform.machine())
