"""Look for the signs of a platform below a root. Blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.devices.detection import PlatformSigns
from plugbay.plugins.nvidia.platform.library import linker_finds

_TEGRA_RELEASE: Final = "etc/nv_tegra_release"
_SOC_FAMILY: Final = "sys/devices/soc0/family"
_PCI: Final = "sys/bus/pci/devices"
_NVIDIA: Final = "0x10de"
_DISPLAY_CLASS: Final = "0x03"
_VFIO_DRIVER: Final = "vfio-pci"
_DXCORE: Final = "libdxcore.so"


def find_signs(root: Path, *, has_nvml: bool, library_path: Sequence[str] = ()) -> PlatformSigns:
    """The signs of the machine whose file system is below ``root``.

    Args:
        has_nvml: whether the driver's library can be loaded.
        library_path: the directories of ``LD_LIBRARY_PATH``, which are not below ``root``.
    """
    return PlatformSigns(
        has_dxcore=linker_finds(_DXCORE, root, library_path),
        has_tegra_release=(root / _TEGRA_RELEASE).exists(),
        soc_family=_text(root / _SOC_FAMILY),
        has_nvml=has_nvml,
        vfio_functions=tuple(_vfio_functions(root)),
    )


def _vfio_functions(root: Path) -> Iterator[str]:
    try:
        functions = sorted((root / _PCI).iterdir())
    except OSError:
        return
    for function in functions:
        is_gpu = _text(function / "vendor") == _NVIDIA and _text(function / "class").startswith(_DISPLAY_CLASS)
        with contextlib.suppress(OSError):
            if is_gpu and (function / "driver").readlink().name == _VFIO_DRIVER:
                yield function.name


def _text(path: Path) -> str:
    """The content of a short file; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
