"""The CDI spec of Windows' subsystem for Linux: one device for all GPUs, and the driver's files of Windows. Blocks.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/{lib,driver,device}-wsl.go``; spec 2.5.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import Final

from plugbay.cdi.spec import Hook, Spec, SpecDevice, SpecMount
from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.answers.features import CdiClass
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice
from plugbay.plugins.nvidia.cdi.edits import HIDDEN, READ_ONLY, ordered_edits, spec_of
from plugbay.plugins.nvidia.cdi.generation import spec_device
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms, library_folders
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder
from plugbay.plugins.nvidia.cdi.tree import DriverTree

WSL_LIBRARIES: Final = "/usr/lib/wsl/lib"
_STORES: Final = "/usr/lib/wsl/drivers"
_CORE: Final = "libdxcore.so"
_CUDA: Final = "libcuda.so.1.1"
_REQUIRED: Final = (
    _CUDA,
    "libcuda_loader.so",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ml_loader.so",
    "libnvdxgdmal.so.1",
    "nvcubins.bin",
    "nvidia-smi",
)
_PATTERNS: Final = ("*.so*", "*.bin", "*.dll")
_SMI: Final = "/usr/bin/nvidia-smi"


def find_store(tree: DriverTree) -> tuple[str, tuple[str, ...]]:
    """The directory of NVIDIA's driver in the driver store of Windows, and the others that hold one.

    Windows keeps drivers that it no longer uses. The reference asks it which one it uses; here it is the newest.

    Raises:
        GpusUnusable: there is none.
    """
    found = tree.found((_STORES,), f"*/{_CUDA}")
    stores = sorted(found, key=lambda path: os.stat(tree.outside(path)).st_mtime, reverse=True)
    if not stores:
        problem = f"failed to find NVIDIA driver store path: no directory of {_STORES} holds {_CUDA}"
        raise GpusUnusable(problem, "unable to create cdi spec file: failed to get CDI spec")
    newest, *others = map(posixpath.dirname, stores)
    return newest, tuple(others)


def wsl_spec(
    device: NodesOfDevice | None,
    store: str,
    finder: NodeFinder,
    *,
    programs: HookPrograms,
    mode: HookMode = HookMode.TOOLKIT,
) -> Spec:
    """The spec of the one device.

    Args:
        device: None without its device node.
        store: as `find_store` gives it.
    """
    tree = DriverTree(finder.roots.driver)
    core = tree.first((WSL_LIBRARIES,), _CORE)
    required = [path for name in _REQUIRED for path in tree.first((store,), name)]
    more = [path for pattern in _PATTERNS for path in tree.found((store,), pattern)]
    folders = library_folders((*required, *core))
    smi = next((path for path in required if posixpath.basename(path) == posixpath.basename(_SMI)), None)
    named = {path: path for path in (*core, *required, *more)}
    env: tuple[str, ...] = (HIDDEN,)
    if mode is HookMode.SELF_CONTAINED:
        named |= {_SMI: smi} if smi else {}
        env = (f"LD_LIBRARY_PATH={':'.join(folders)}", HIDDEN)
    common = ordered_edits(
        finder,
        (),
        env=env,
        mounts=[SpecMount(finder.roots.host_file(path), name, READ_ONLY) for name, path in named.items()],
        hooks=tuple(_hooks(programs, smi, folders)) if mode is HookMode.TOOLKIT else (),
    )
    devices: list[SpecDevice] = [] if device is None else [spec_device(device, finder, None)]
    return spec_of(CdiClass.GPU, devices, common)


def _hooks(programs: HookPrograms, smi: str | None, folders: list[str]) -> Iterator[Hook]:
    yield from programs.links([(smi, _SMI)] if smi else [])
    yield from programs.cache(folders)
