"""The driver's files below a root. Blocks.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/driver-nvml.go``, ``internal/discover/graphics.go``, ``ipc.go``,
``internal/lookup/root``; spec 6.3.
"""

from __future__ import annotations

import os
import platform
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.cdi.tree import DriverTree, Library
from plugbay.values import dataclass

_LIBRARIES: Final = (
    "/",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu/nvidia/current",
)
_PROGRAM_DIRECTORIES: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_CONFIG_DIRECTORIES: Final = ("/etc", "/usr/local/share", "/usr/share")
_CONFIGS: Final = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "OpenCL/vendors/nvidia.icd",
)
_VULKAN: Final = (
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
)
_VULKAN_IN_CONTAINER: Final = "/etc"
_WINDOWING: Final = ("libnvidia-egl-gbm.so", "libnvidia-egl-wayland.so", "libnvidia-egl-wayland2.so")
_EXPLICIT: Final = (
    "libEGL.so",
    "libGL.so",
    "libGLESv1_CM.so",
    "libGLESv2.so",
    "libGLX.so",
    "libGLdispatch.so",
    "libOpenCL.so",
    "libOpenGL.so",
    "libnvidia-api.so",
    "libnvidia-egl-xcb.so",
    "libnvidia-egl-xlib.so",
)
_XORG_ROOTS: Final = ("/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64")
_XORG_MODULES: Final = (
    "modules/drivers",
    "modules/extensions",
    "modules/updates/drivers",
    "modules/updates/extensions",
)
_SOCKET_DIRECTORIES: Final = ("/run", "/var/run")
_SOCKETS: Final = ("nvidia-persistenced/socket", "nvidia-fabricmanager/socket")
_FIRMWARE_SETTING: Final = "sys/module/firmware_class/parameters/path"


@dataclass(frozen=True, slots=True)
class MountedFile:
    """A file and its place in containers; both absolute, and ``path`` below the root."""

    path: str
    container_path: str


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """The files of a driver. All paths are absolute below the root.

    Attributes:
        library_directories: that hold the driver's libraries.
        libraries: those of the driver's version, and NVVM's.
        graphics: libraries and X modules for graphics that have versions of their own.
        others: programs, configuration, firmware.
        sockets: of the driver's daemons.
    """

    version: str
    library_directories: tuple[str, ...]
    libraries: tuple[Library, ...]
    graphics: tuple[Library, ...] = ()
    others: tuple[MountedFile, ...] = ()
    sockets: tuple[str, ...] = ()


def find_driver_files(
    root: Path, version: str, *, machine_root: Path = Path("/"), explicit: bool = False
) -> DriverFiles:
    """The files of the driver below ``root``.

    Links of libraries are resolved; a link that leads out of ``root`` is left as it is.

    Args:
        version: of the driver, as NVML tells it.
        machine_root: of the files of the running kernel, which say where firmware is looked for.
        explicit: also take the libraries that other packages than the driver's may own
            (``enable-explicit-driver-libraries``).

    Raises:
        GpusUnusable: there is no library of that version.
    """
    tree = DriverTree(root)
    if not any(tree.libraries(_LIBRARIES, f"{name}.so.{version}") for name in ("libcuda", "libnvidia-ml")):
        problem = f'failed to locate "libcuda.so.": libcuda.so.{version}: not found'
        raise GpusUnusable(problem, "unable to create cdi spec file: failed to get CDI spec")
    directories = tuple(dict.fromkeys(map(posixpath.dirname, tree.libraries(_LIBRARIES, f"lib*.so.{version}"))))
    with_vdpau = (*directories, *(posixpath.join(directory, "vdpau") for directory in directories))
    names = [*tree.resolved(with_vdpau, f"*.so.{version}"), *tree.resolved(directories, "libnvidia-nvvm70.so.*")]
    if explicit:
        names += [path for name in _EXPLICIT for path in tree.resolved(directories, name)]
    graphics = [path for name in _WINDOWING for path in tree.libraries(_LIBRARIES, f"{name}.*.*")]
    for name in ("libnvidia-allocator", "libnvidia-vulkan-producer"):
        graphics += tree.libraries(_LIBRARIES, f"{name}.so.{version}")
    for name in ("nvidia_drv.so", f"libglxserver_nvidia.so.{version}"):
        graphics += tree.first(_xorg_directories(directories), name)
    return DriverFiles(
        version,
        directories,
        tuple(map(tree.library, dict.fromkeys(names))),
        tuple(map(tree.library, dict.fromkeys(graphics))),
        tuple(_others(tree, version, machine_root)),
        tuple(path for name in _SOCKETS for path in tree.first(_SOCKET_DIRECTORIES, name)),
    )


def _others(tree: DriverTree, version: str, machine_root: Path) -> Iterator[MountedFile]:
    for name in _PROGRAMS:
        yield from map(_in_place, tree.first(_PROGRAM_DIRECTORIES, name, is_program=True))
    for name in _CONFIGS:
        yield from map(_in_place, tree.found(_CONFIG_DIRECTORIES, name))
    for name in (*_VULKAN, f"vulkan/icd.d/nvidia_icd.{platform.machine()}.json"):
        found = tree.found((*_CONFIG_DIRECTORIES, "/"), name)
        yield from (MountedFile(path, posixpath.join(_VULKAN_IN_CONTAINER, name)) for path in found[:1])
    firmware = tree.found(_firmware_directories(machine_root), f"nvidia/{version}/gsp*.bin")
    yield from map(_in_place, firmware)


def _in_place(path: str) -> MountedFile:
    return MountedFile(path, path)


def _xorg_directories(directories: Iterable[str]) -> list[str]:
    beside = [
        posixpath.join(directory, each)
        for directory in directories
        for each in ("nvidia/xorg", *(f"xorg/{modules}" for modules in _XORG_MODULES))
    ]
    return [*beside, *(f"{root}/{modules}" for root in _XORG_ROOTS for modules in _XORG_MODULES)]


def _firmware_directories(machine_root: Path) -> list[str]:
    """The directories in which the kernel looks for firmware, in its order."""
    try:
        own = (machine_root / _FIRMWARE_SETTING).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        own = ""
    release = os.uname().release
    standard = [
        f"/lib/firmware/updates/{release}",
        "/lib/firmware/updates",
        f"/lib/firmware/{release}",
        "/lib/firmware",
    ]
    return [*([own] if own else []), *standard]
