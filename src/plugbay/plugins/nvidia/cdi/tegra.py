"""The CDI spec of a Tegra machine, made of its lists of files. Blocks.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/lib-csv.go``, ``internal/platform-support/tegra``; spec 2.5.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.cdi.spec import Hook, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.plugins.nvidia.answers.features import CdiClass
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice
from plugbay.plugins.nvidia.cdi.edits import HIDDEN, READ_ONLY, ordered_edits, spec_of
from plugbay.plugins.nvidia.cdi.generation import spec_device
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms, driver_links, library_folders
from plugbay.plugins.nvidia.cdi.mount_lists import MountLists
from plugbay.plugins.nvidia.cdi.nodes import CONTROL_NODES, NodeFinder
from plugbay.plugins.nvidia.cdi.tree import DriverTree, Library
from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy
from plugbay.plugins.nvidia.devices.building import TEGRA_ID, TEGRA_INDEX
from plugbay.plugins.nvidia.devices.detection import is_integrated_gpu
from plugbay.plugins.nvidia.survey import Gpu, Survey

_RELEASE: Final = "nv_tegra_release"
_OF_A_GPU: Final = re.compile(r"/dev/nvidia[0-9]+")
_DISCRETE: Final = "/dev/nvidia1"
_DISPLAY: Final = "/dev/nvidia2"
_ORIN: Final = "Orin (nvgpu)"
_ORIN_COMPAT: Final = "/usr/local/cuda/compat_orin"


def tegra_spec(
    lists: MountLists,
    finder: NodeFinder,
    survey: Survey | None,
    *,
    ids: DeviceIdStrategy,
    programs: HookPrograms,
    mode: HookMode = HookMode.TOOLKIT,
    is_single: bool = False,
) -> Spec:
    """The spec of the one device that a Tegra offers, and of GPUs on its PCI bus; without devices if no node is found.

    The reference gives the device no name when devices are named by UUID, and its links the plugin's root of the
    driver; here it has the name that answers use, and links are where containers look for them.

    Args:
        survey: None without NVML.
        is_single: whether a GPU beside the integrated one is left out (``disable-multiple-csv-devices``).
    """
    tree = DriverTree(finder.roots.driver)
    libraries = [tree.library(path) for path in _resolved(tree, lists.libraries)]
    linked = _resolved(tree, lists.links)
    chains = [link for path in _found(tree, lists.links) for link in tree.chain(path)]
    paths = [
        *(path for pattern in lists.directories for path in tree.found_directories(pattern)),
        *(library.path for library in libraries),
        *linked,
    ]
    named = {path: path for path in (*paths, *tree.found(("/etc",), _RELEASE))}
    env: tuple[str, ...] = (HIDDEN,)
    if mode is HookMode.SELF_CONTAINED:
        named |= dict(_names(tree, libraries, chains))
        env = (f"LD_LIBRARY_PATH={':'.join(library_folders(paths))}", HIDDEN)
    common = ordered_edits(
        finder,
        (),
        env=env,
        mounts=[SpecMount(finder.roots.host_file(path), name, READ_ONLY) for name, path in named.items()],
        hooks=tuple(_hooks(programs, survey, libraries, chains, paths)) if mode is HookMode.TOOLKIT else (),
    )
    listed = [node for pattern in lists.nodes for node in _nodes(finder, pattern)]
    own = programs if mode is HookMode.TOOLKIT else None
    devices = _single(listed, finder, ids) if is_single else _devices(listed, finder, survey, ids, own)
    return spec_of(CdiClass.GPU, [device for device in devices if device.edits.device_nodes], common)


def _devices(
    listed: Sequence[SpecDeviceNode],
    finder: NodeFinder,
    survey: Survey | None,
    ids: DeviceIdStrategy,
    programs: HookPrograms | None,
) -> Iterator[SpecDevice]:
    if survey is None or len(survey.gpus) + len(survey.unreadable) < 2:
        yield from _single(listed, finder, ids)
        return
    others = [gpu for gpu in survey.gpus if not is_integrated_gpu(gpu)]
    theirs = {_DISCRETE, *(f"/dev/nvidia{gpu.minor}" for gpu in others)}
    display = finder.node(_DISPLAY)
    own = [node for node in listed if node.path not in theirs]
    yield from _single([*own, *([display] if display else [])], finder, ids)
    shared = [node for node in listed if not _OF_A_GPU.fullmatch(node.path)]
    control = filter(None, map(finder.node, CONTROL_NODES))
    for gpu in others:
        yield spec_device(_device(gpu, ids), finder, programs, more=(*shared, *control))


def _single(nodes: Sequence[SpecDeviceNode], finder: NodeFinder, ids: DeviceIdStrategy) -> Iterator[SpecDevice]:
    yield SpecDevice(_name(ids), edits=ordered_edits(finder, nodes))


def _name(ids: DeviceIdStrategy) -> str:
    return TEGRA_ID if ids is DeviceIdStrategy.UUID else TEGRA_INDEX


def _device(gpu: Gpu, ids: DeviceIdStrategy) -> NodesOfDevice:
    name = gpu.uuid if ids is DeviceIdStrategy.UUID else str(gpu.index)
    return NodesOfDevice(name, gpu.uuid, (f"/dev/nvidia{gpu.minor}",), gpu.pci_bus_id)


def _nodes(finder: NodeFinder, pattern: str) -> Iterator[SpecDeviceNode]:
    """The nodes of an entry, which may leave out ``/dev``."""
    for directory in ("/", "/dev"):
        yield from finder.matching(posixpath.join(directory, pattern.lstrip("/")))


def _found(tree: DriverTree, patterns: Sequence[str]) -> list[str]:
    return [path for pattern in patterns for path in tree.found(("/",), pattern)]


def _resolved(tree: DriverTree, patterns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(path for pattern in patterns for path in tree.resolved(("/",), pattern)))


def _hooks(
    programs: HookPrograms,
    survey: Survey | None,
    libraries: Sequence[Library],
    chains: Sequence[tuple[str, str]],
    paths: Sequence[str],
) -> Iterator[Hook]:
    yield from programs.links(link for library in libraries for link in driver_links(library))
    yield from programs.links(chains)
    if survey is not None:
        major, minor = survey.cuda_driver_version
        is_orin = any(_ORIN in gpu.name for gpu in survey.gpus)
        compat = (f"--cuda-compat-container-root={_ORIN_COMPAT}",) if is_orin else ()
        yield from programs.hook("enable-cuda-compat", f"--host-cuda-version={major}.{minor}", *compat)
    yield from programs.cache(library_folders(paths))


def _names(
    tree: DriverTree, libraries: Sequence[Library], chains: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The names that links would give to files, each with its file, for mounts in place of the links."""
    for library in libraries:
        yield from ((link, library.path) for _, link in driver_links(library))
    for _, link in chains:
        yield from ((link, path) for path in tree.resolved((posixpath.dirname(link),), posixpath.basename(link)))
