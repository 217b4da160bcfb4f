"""The GPUs that are bound to ``vfio-pci``, for virtual machines: what sysfs and the list of PCI IDs tell. Blocks.

Source: gpu-feature-discovery 0.20 ``internal/resource/sysfs-{lib,device}.go``; go-nvlib 0.12 ``pkg/nvpci``; spec 7.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.platform.signs import NVIDIA, PCI_DEVICES, vfio_functions
from plugbay.plugins.nvidia.survey import UNKNOWN_VERSION, Gpu, GpuUuid, Survey

_LISTS: Final = (
    "usr/share/misc/pci.ids",
    "usr/local/share/pci.ids",
    "usr/share/hwdata/pci.ids",
    "usr/share/pci.ids",
)
_BARS: Final = 6
_IS_64_BIT: Final = 0x04
_MEMORY_TYPE: Final = 0x06


def vfio_survey(root: Path, driver_root: Path) -> Survey:
    """The GPUs of the machine below ``root`` that its virtual machines may have.

    A GPU is called as the machine's list of PCI IDs calls it, and ``Device <ID>`` without one, as lspci does. The
    reference has a list in its program.

    Args:
        driver_root: where a list of PCI IDs is looked for, too.
    """
    names = _names((root, driver_root))
    gpus = []
    for index, function in enumerate(vfio_functions(root)):
        place = root / PCI_DEVICES / function
        device = _text(place / "device").removeprefix("0x")
        name = names.get(device, f"Device {device}")
        gpus.append(Gpu(index, -1, GpuUuid(""), name, function, _memory_bytes(_text(place / "resource")), (0, 0)))
    return Survey(UNKNOWN_VERSION, (0, 0), tuple(gpus))


def _memory_bytes(resource: str) -> int:
    """The size of the windows into a GPU's memory, rounded up to a power of two; 0 without any."""
    total = 0
    for line in resource.splitlines()[:_BARS]:
        with contextlib.suppress(ValueError):
            start, end, flags = (int(each, 16) for each in line.split())
            if end > start and flags & _MEMORY_TYPE == _IS_64_BIT:
                total += end - start + 1
    return 1 << (total - 1).bit_length() if total else 0


def _names(roots: Sequence[Path]) -> Mapping[str, str]:
    """The names of NVIDIA's devices by their IDs."""
    for root in roots:
        for place in _LISTS:
            with contextlib.suppress(OSError), (root / place).open(encoding="utf-8", errors="replace") as lines:
                return dict(_devices(lines))
    return {}


def _devices(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    is_nvidia = False
    for line in lines:
        if line[:1] not in ("\t", "#", "\n"):
            is_nvidia = line.startswith(NVIDIA.removeprefix("0x"))
        elif is_nvidia and line[:1] == "\t" and line[1:2] != "\t":
            device, _, name = line.strip().partition("  ")
            yield device, name


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
