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


_TEGRA_LIBRARIES: Final = "usr/lib/aarch64-linux-gnu"
_TEGRA_NODES: Final = {
    "nvmap": (10, 63),
    "nvhost-gpu": (503, 0),
    "nvgpu/igpu0/power": (502, 0),
    "nvgpu/igpu0/ctrl": (502, 1),
    "nvidia0": (195, 0),
    "nvidia1": (195, 1),
    "nvidia2": (195, 2),
    "nvidiactl": (195, 255),
    "nvidia-modeset": (195, 254),
    "nvidia-uvm": (235, 0),
}
_TEGRA_LISTS: Final = {
    "devices.csv": """\
dev, /dev/nvmap
dev,/dev/nvhost-gpu
  dev , /dev/nvgpu/igpu0/*
dev, /dev/nvidia0
dev, /dev/nvidia1
dev, nvidiactl
dev, /dev/nvidia-modeset
dev, /dev/nvhost-missing
node, /dev/nvmap
a line without a comma
dev,
""",
    "drivers.csv": """\
lib, /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1
lib, /usr/lib/aarch64-linux-gnu/nvidia/libnvos.so
lib, /usr/lib/aarch64-linux-gnu/nvidia/libnvscf.so.*
lib, /usr/lib/aarch64-linux-gnu/nvidia/libmissing.so
lib, /etc/vulkan/icd.d/nvidia_icd.json
sym, /usr/lib/aarch64-linux-gnu/libcuda.so
sym, /usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1
sym, /usr/lib/aarch64-linux-gnu/nvidia/libnvos.so
sym, /usr/lib/aarch64-linux-gnu/nvidia/dangling.so
dir, /usr/src/jetson_multimedia_api
""",
    "l4t.csv": """\
dir, /usr/share/missing
dir, /etc/vulkan/icd.d/nvidia_icd.json
sym, /usr/lib/aarch64-linux-gnu/libcuda.so
""",
}


def tegra_board(root: Path) -> Path:
    """The files and nodes of a Tegra, with lists that have of each kind what there is, what is not, and mistakes."""
    libraries = f"{_TEGRA_LIBRARIES}/nvidia"
    for name, soname in (
        ("libcuda.so.1.1", "libcuda.so.1"),
        ("libnvos.so", "libnvos.so"),
        ("libnvscf.so.36.1.0", "libnvscf.so.1"),
        ("libnvidia-ml.so.540.4.0", "libnvidia-ml.so.1"),
    ):
        write(root, f"{libraries}/{name}", elf(soname))
    for link, target in (
        (f"{_TEGRA_LIBRARIES}/libcuda.so", "nvidia/libcuda.so.1"),
        (f"{libraries}/libcuda.so.1", "libcuda.so.1.1"),
        (f"{libraries}/libcuda.so", "libcuda.so.1"),
        (f"{libraries}/libnvscf.so.1", "libnvscf.so.36.1.0"),
        (f"{libraries}/libnvidia-ml.so.1", "libnvidia-ml.so.540.4.0"),
        (f"{libraries}/dangling.so", "gone.so"),
    ):
        (root / link).symlink_to(target)
    write(root, "etc/vulkan/icd.d/nvidia_icd.json", b"{}")
    write(root, "etc/nv_tegra_release", b"# R36 (release), REVISION: 4.0\n")
    write(root, "usr/src/jetson_multimedia_api/README")
    for name, text in _TEGRA_LISTS.items():
        write(root, f"etc/nvidia-container-runtime/host-files-for-container.d/{name}", text.encode())
    make_nodes(root, _TEGRA_NODES)
    return root


WSL_STORE: Final = "usr/lib/wsl/drivers/nv_dispi.inf_amd64_8f1c3d0a5e2b7c94"


def wsl_machine(root: Path) -> Path:
    """The files and the node of Windows' subsystem for Linux, with the driver's files of Windows."""
    for name in (
        "libcuda.so.1.1",
        "libcuda_loader.so",
        "libnvidia-ptxjitcompiler.so.1",
        "libnvidia-ml.so.1",
        "libnvdxgdmal.so.1",
        "libnvcuvid.so.1",
        "libnvoptix_loader.so.1",
        "nvcubins.bin",
        "nvoptix.bin",
        "nvapi64.dll",
        "nvidia-smi",
        "readme.txt",
    ):
        write(root, f"{WSL_STORE}/{name}", mode=0o555)
    write(root, "usr/lib/wsl/lib/libdxcore.so")
    write(root, "usr/lib/wsl/lib/libd3d12.so")
    write(root, "usr/lib/wsl/drivers/iigd_dch.inf_amd64_1/libigdgmm_w.so.12")
    make_nodes(root, {"dxg": (10, 125)})
    return root
