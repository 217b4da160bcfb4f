"""Look for the signs of a platform below a root. Blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.devices.detection import PlatformSigns
from plugbay.plugins.nvidia.platform.library import linker_finds

_TEGRA_RELEASE: Final = "etc/nv_tegra_release"
_SOC_FAMILY: Final = "sys/devices/soc0/family"
PCI_DEVICES: Final = "sys/bus/pci/devices"
NVIDIA: Final = "0x10de"
_GPU_CLASSES: Final = (0x030000, 0x030200)
_VFIO_DRIVER: Final = "vfio-pci"
_DXCORE: Final = "libdxcore.so"


def find_signs(
    root: Path, *, has_nvml: bool, driver_root: Path | None = None, library_path: Sequence[str] = ()
) -> PlatformSigns:
    """The signs of the machine whose file system is below ``root``.

    Args:
        has_nvml: whether the driver's library can be loaded.
        driver_root: where the host's files are mounted, if they are: a container may have none of a Tegra's files
            elsewhere.
        library_path: the directories of ``LD_LIBRARY_PATH``, which are not below ``root``.
    """
    roots = [root] if driver_root is None else [driver_root, root]
    return PlatformSigns(
        has_dxcore=linker_finds(_DXCORE, root, library_path),
        has_tegra_release=any((each / _TEGRA_RELEASE).exists() for each in roots),
        soc_family=next(filter(None, (_text(each / _SOC_FAMILY) for each in roots)), ""),
        has_nvml=has_nvml,
        vfio_functions=vfio_functions(root),
    )


def vfio_functions(root: Path) -> tuple[str, ...]:
    """The bus IDs of NVIDIA's GPUs that are bound to ``vfio-pci``, without virtual functions, sorted."""
    try:
        functions = sorted((root / PCI_DEVICES).iterdir())
    except OSError:
        return ()
    return tuple(function.name for function in functions if _is_gpu(function) and _has_vfio(function))


def _is_gpu(function: Path) -> bool:
    with contextlib.suppress(ValueError):
        return _text(function / "vendor") == NVIDIA and int(_text(function / "class"), 16) in _GPU_CLASSES
    return False


def _has_vfio(function: Path) -> bool:
    with contextlib.suppress(OSError):
        return (function / "driver").readlink().name == _VFIO_DRIVER and not (function / "physfn").exists()
    return False


def _text(path: Path) -> str:
    """The content of a short file; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
