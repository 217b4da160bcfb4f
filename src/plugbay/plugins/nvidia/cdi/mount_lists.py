"""The lists of what containers on Tegra get of the host: found, and read. Blocks.

Source: k8s-device-plugin 0.20 ``internal/cdi/cdi.go``, ``csvFilesForRoot``; nvidia-container-toolkit 1.20.0
``internal/platform-support/tegra/csv``; spec 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.kernel.files import read_bytes
from plugbay.values import dataclass

MOUNT_LISTS: Final = "etc/nvidia-container-runtime/host-files-for-container.d"
_FILES: Final = ("devices.csv", "drivers.csv", "l4t.csv")
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class MountLists:
    """The entries of all lists: paths, or patterns of the shell.

    Attributes:
        nodes: device nodes.
        directories: mounted with all that is in them.
        libraries: libraries and other files.
        links: links that containers get, too, and whose files are mounted.
    """

    nodes: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def mount_lists(root: Path, driver: Path) -> tuple[Path, ...]:
    """The three lists, which may each be missing: below the driver's root, or else below that of the machine.

    Returns:
        Nothing when neither root has the directory.
    """
    for each in (driver, root):
        directory = each / MOUNT_LISTS
        if directory.is_dir():
            return tuple(directory / name for name in _FILES)
    return ()


def read_lists(files: Iterable[Path]) -> MountLists:
    """The entries of lists; lists that cannot be read and lines that are not ``<type>, <path>`` count for nothing."""
    entries = [entry for file in files for entry in _entries(file)]

    def of(kind: str) -> tuple[str, ...]:
        return tuple(path for each, path in entries if each == kind)

    return MountLists(of("dev"), of("dir"), of("lib"), of("sym"))


def _entries(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = read_bytes(file, limit=_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        kind, _, path = line.partition(",")
        if path.strip():
            yield kind.strip(), path.strip()
