"""Driver installations for tests: the one of the golden CDI specs, and libraries with SONAMEs."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

VERSION: Final = "550.54.15"
_NODES: Final = {
    "nvidiactl": (195, 255),
    "nvidia0": (195, 0),
    "nvidia1": (195, 1),
    "nvidia-modeset": (195, 254),
    "nvidia-uvm": (235, 0),
    "nvidia-uvm-tools": (235, 1),
}
_CAPABILITIES: Final = 236


def elf(soname: str) -> bytes:
    """The smallest file from which a SONAME can be read: a header, three sections, and what is in two of them."""
    texts = b"\0" + soname.encode() + b"\0"
    dynamic = struct.pack("<qQqQ", 14, 1, 0, 0)
    names = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(texts), 0, 0, 1, 0)
    entries = struct.pack("<IIQQQQIIQQ", 0, 6, 0, 0, 64 + len(texts), len(dynamic), 1, 0, 8, 16)
    table = 64 + len(texts) + len(dynamic)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 0)
    return header + texts + dynamic + bytes(64) + names + entries


def make_nodes(root: Path, nodes: Mapping[str, tuple[int, int]], *, mode: int = 0o666, gid: int = 0) -> None:
    """Make device nodes below ``root/dev``; the test is skipped where that is not allowed."""
    for name, (major, minor) in nodes.items():
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
        except PermissionError:
            pytest.skip("device nodes cannot be made here: that takes the capability CAP_MKNOD")
        path.chmod(mode)
        os.chown(path, 0, gid)


def write(root: Path, path: str, content: bytes = b"", *, mode: int = 0o644) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)


def golden_driver(root: Path) -> Path:
    """The files and nodes that the golden CDI specs were made from."""
    for name in ("libcuda", "libnvidia-ptxjitcompiler"):
        write(root, f"usr/lib64/{name}.so.{VERSION}")
    write(root, f"usr/lib64/libnvidia-ml.so.{VERSION}", elf("libnvidia-ml.so.1"))
    for link, target in (
        ("libcuda.so.1", f"libcuda.so.{VERSION}"),
        ("libcuda.so", "libcuda.so.1"),
        ("libnvidia-ml.so.1", f"libnvidia-ml.so.{VERSION}"),
    ):
        (root / "usr/lib64" / link).symlink_to(target)
    for program in ("nvidia-smi", "nvidia-cuda-mps-control"):
        write(root, f"usr/bin/{program}", mode=0o755)
    write(root, f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin")
    write(root, "usr/share/vulkan/icd.d/nvidia_icd.json")
    caps = {f"nvidia-caps/nvidia-cap{minor}": (_CAPABILITIES, minor) for minor in range(60, 90)}
    make_nodes(root, {**_NODES, **caps})
    return root
