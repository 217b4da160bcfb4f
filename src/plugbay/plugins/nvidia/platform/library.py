"""Find shared libraries: the driver's below its root, and others where the dynamic linker looks. Blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

NVML_LIBRARY: Final = "libnvidia-ml.so.1"
LIBRARY_DIRECTORIES: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
"""Where libraries of a driver lie below its root, in the order in which they are looked for."""
_OF_THE_LINKER: Final = (*LIBRARY_DIRECTORIES, "usr/lib", "lib", "usr/lib/wsl/lib")
_CACHE: Final = "etc/ld.so.cache"


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """A library as it is to be loaded.

    Attributes:
        path: a full path, or the plain name, for the dynamic linker to find.
        tried: the paths at which there is none, in order.
    """

    path: str
    tried: tuple[str, ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether a file is known; the dynamic linker may find one otherwise."""
        return self.path.startswith("/")


def find_library(driver_root: Path, name: str = NVML_LIBRARY, more: Sequence[str] = ()) -> FoundLibrary:
    """A library of the driver below ``driver_root``, with links followed; its plain name if there is none.

    Nothing is looked for below ``/``: the dynamic linker does that.

    Args:
        more: directories beside the usual ones, looked at last.

    Source: k8s-device-plugin 0.20 ``internal/info``, ``root.tryResolveLibrary``; spec 2.1.
    """
    tried: list[str] = []
    if str(driver_root) not in ("", ".", "/"):
        for directory in (*LIBRARY_DIRECTORIES, *more):
            candidate = driver_root / directory / name
            with contextlib.suppress(OSError):
                return FoundLibrary(str(candidate.resolve(strict=True)), tuple(tried))
            tried.append(str(candidate))
    return FoundLibrary(name, tuple(tried))


def linker_finds(name: str, root: Path, library_path: Sequence[str] = ()) -> bool:
    """Whether the dynamic linker of the machine below ``root`` finds a library by its plain name.

    Args:
        library_path: the directories of ``LD_LIBRARY_PATH``, which are not below ``root``.
    """
    directories = [*map(Path, library_path), *(root / directory for directory in _OF_THE_LINKER)]
    if any((directory / name).exists() for directory in directories):
        return True
    with contextlib.suppress(OSError):
        return name.encode() + b"\0" in (root / _CACHE).read_bytes()
    return False
