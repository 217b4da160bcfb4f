"""Find the driver's library."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "libnvidia-ml.so.1"
_DIRECTORIES: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)


def find_library(driver_root: Path) -> str:
    """The path of ``libnvidia-ml.so.1`` below ``driver_root``, or its plain name for the dynamic linker to find.

    Source: nvidia-device-plugin 0.20 ``internal/info``, ``root.tryResolveLibrary``.
    """
    if str(driver_root) in ("", ".", "/"):
        return NAME
    for directory in _DIRECTORIES:
        candidate = driver_root / directory / NAME
        if candidate.exists():
            return str(candidate.resolve())
    return NAME
