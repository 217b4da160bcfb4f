"""The lists of files that containers on Tegra need. Blocks.

Source: k8s-device-plugin 0.20 ``internal/cdi/cdi.go``, ``csvFilesForRoot``; spec 2.5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_DIRECTORY: Final = "etc/nvidia-container-runtime/host-files-for-container.d"
_FILES: Final = ("devices.csv", "drivers.csv", "l4t.csv")


def mount_lists(root: Path, driver: Path) -> tuple[Path, ...]:
    """The three lists, which may each be missing: below the driver's root, or else below that of the machine.

    Returns:
        Nothing when neither root has the directory.
    """
    for each in (driver, root):
        directory = each / _DIRECTORY
        if directory.is_dir():
            return tuple(directory / name for name in _FILES)
    return ()
