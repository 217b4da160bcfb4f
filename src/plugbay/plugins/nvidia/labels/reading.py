"""The properties of the machine that labels tell of, read from sysfs. Blocks.

Source: gpu-feature-discovery 0.20 ``internal/lm/machine-type.go``, ``internal/vgpu/pciutil.go``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plugbay.kernel.files import read_bytes
from plugbay.plugins.nvidia.labels.machine import MachineProperties, PciFunction

MACHINE_TYPE_FILE: Final = "/sys/class/dmi/id/product_name"
_PCI: Final = "sys/bus/pci/devices"
_NVIDIA: Final = "0x10de"
_MOST_BYTES: Final = 4096
"""The configuration space of PCI Express; names of machines are shorter."""


def read_machine(root: Path, machine_type_file: str = MACHINE_TYPE_FILE) -> MachineProperties:
    """The properties of the machine whose file system is at ``root``.

    Args:
        machine_type_file: a path below ``root``; empty for a machine without a name.
    """
    return MachineProperties(_machine_type(root, machine_type_file), _functions(root / _PCI))


def _machine_type(root: Path, path: str) -> str | None:
    if not path:
        return None
    try:
        return _text(root / path.lstrip("/"))
    except OSError:
        return None


def _functions(directory: Path) -> tuple[PciFunction, ...] | None:
    """NVIDIA's functions by address; None when one cannot be read, as the others do not say all then."""
    functions = []
    try:
        for device in sorted(directory.iterdir()):
            if _text(device / "vendor") == _NVIDIA:
                config = read_bytes(device / "config", limit=_MOST_BYTES)
                functions.append(PciFunction(device.name, int(_text(device / "class"), 16), config))
    except (OSError, ValueError):
        return None
    return tuple(functions)


def _text(path: Path) -> str:
    return read_bytes(path, limit=_MOST_BYTES).decode("utf-8", errors="replace").strip()
