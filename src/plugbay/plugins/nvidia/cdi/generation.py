"""CDI specs, made of devices, of the driver's files and of hooks. Blocks: device nodes are looked at.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi``, k8s-device-plugin 0.20 ``internal/cdi``; spec 6.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plugbay.cdi.spec import Edits, Hook, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.cdi.versions import minimum_version
from plugbay.plugins.nvidia.answers.features import CdiClass, ImexChannel
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice
from plugbay.plugins.nvidia.cdi.driver_files import DriverFiles
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms, driver_hooks, mounted_names
from plugbay.plugins.nvidia.cdi.nodes import CONTROL_NODES, NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots

_READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET: Final = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
_HIDDEN: Final = "NVIDIA_VISIBLE_DEVICES=void"
"""Keeps the toolkit's older way of injection from acting as well."""
_ALL: Final = "all"
_GDS_FILE: Final = "etc/cufile.json"
_GDS_DIRECTORY: Final = "run/udev"
_NODES: Final = {
    CdiClass.GDRCOPY: ("/dev/gdrdrv",),
    CdiClass.GDS: ("/dev/nvidia-fs*",),
    CdiClass.MOFED: ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}


def gpu_spec(
    devices: Iterable[NodesOfDevice],
    files: DriverFiles,
    finder: NodeFinder,
    *,
    programs: HookPrograms,
    mode: HookMode = HookMode.TOOLKIT,
    has_sockets: bool = True,
) -> Spec:
    """The spec of all GPUs and MIG devices.

    Args:
        has_sockets: whether containers get the sockets of the driver's daemons (not with ``disable-ipc-discoverer``).
    """
    mounts = list(_mounts(files, finder.roots, mode))
    if has_sockets:
        mounts += [SpecMount(finder.roots.host_file(path), path, _SOCKET) for path in files.sockets]
    directories = ":".join(files.library_directories)
    name = "NVIDIA_CTK_LIBCUDA_DIR" if mode is HookMode.TOOLKIT else "LD_LIBRARY_PATH"
    common = _edits(
        finder,
        filter(None, map(finder.node, CONTROL_NODES)),
        env=(f"{name}={directories}", _HIDDEN),
        mounts=mounts,
        hooks=tuple(driver_hooks(files, programs)) if mode is HookMode.TOOLKIT else (),
    )
    named = (_device(each, finder, programs if mode is HookMode.TOOLKIT else None) for each in devices)
    return _spec(CdiClass.GPU, sorted(named, key=lambda device: device.name), common)


def optional_spec(device_class: CdiClass, finder: NodeFinder) -> Spec | None:
    """The spec of gdrcopy, gds or mofed, with the device ``all``; None if the node has none of its device nodes."""
    nodes = [node for pattern in _NODES[device_class] for node in finder.matching(pattern)]
    if not nodes:
        return None
    mounts: list[SpecMount] = []
    if device_class is CdiClass.GDS:
        driver = finder.roots.driver
        present = {_GDS_DIRECTORY: (driver / _GDS_DIRECTORY).is_dir(), _GDS_FILE: (driver / _GDS_FILE).is_file()}
        paths = [f"/{path}" for path, is_there in present.items() if is_there]
        mounts = [SpecMount(finder.roots.host_file(path), path, _READ_ONLY) for path in paths]
    device = SpecDevice(_ALL, edits=_edits(finder, nodes, mounts=mounts))
    return _spec(device_class, [device], Edits(env=(_HIDDEN,)))


def imex_spec(channels: Sequence[ImexChannel], roots: SpecRoots) -> Spec | None:
    """The spec of IMEX channels, which are not looked at; None without any."""
    if not channels:
        return None
    devices = []
    for channel in channels:
        node = SpecDeviceNode(channel.path, host_path=roots.named_host_node(channel.path))
        devices.append(SpecDevice(str(channel.number), edits=Edits(device_nodes=(node,))))
    return _spec(CdiClass.IMEX_CHANNEL, devices, Edits())


def _device(device: NodesOfDevice, finder: NodeFinder, programs: HookPrograms | None) -> SpecDevice:
    drawing = finder.graphics_paths(device.pci_bus_id)
    nodes = [node for path in (*device.paths, *drawing) if (node := finder.node(path))]
    hooks: tuple[Hook, ...] = ()
    if programs is not None and drawing:
        hooks = tuple(programs.links(finder.graphics_links(device.pci_bus_id, [node.path for node in nodes])))
    return SpecDevice(device.name, device.annotations, _edits(finder, nodes, hooks=hooks))


def _mounts(files: DriverFiles, roots: SpecRoots, mode: HookMode) -> Iterator[SpecMount]:
    for library in (*files.graphics, *files.libraries):
        names = (library.path,) if mode is HookMode.TOOLKIT else mounted_names(library, files.version)
        for name in names:
            yield SpecMount(roots.host_file(library.path), name, _READ_ONLY)
    for file in files.others:
        yield SpecMount(roots.host_file(file.path), file.container_path, _READ_ONLY)


def _edits(
    finder: NodeFinder,
    nodes: Iterable[SpecDeviceNode],
    *,
    env: tuple[str, ...] = (),
    mounts: Iterable[SpecMount] = (),
    hooks: tuple[Hook, ...] = (),
) -> Edits:
    """Edits in the order of the reference: nodes and mounts by the depth of their paths, then by path, each once."""
    unique_nodes = {node.path: node for node in nodes}
    unique_mounts: Mapping[str, SpecMount] = {mount.container_path: mount for mount in reversed(list(mounts))}
    ordered = sorted(unique_nodes.values(), key=lambda node: _depth(node.path))
    groups = dict.fromkeys(group for node in ordered for group in finder.groups(node))
    return Edits(
        env=env,
        device_nodes=tuple(ordered),
        hooks=hooks,
        mounts=tuple(sorted(unique_mounts.values(), key=lambda mount: _depth(mount.container_path))),
        additional_gids=tuple(groups),
    )


def _depth(path: str) -> tuple[int, str]:
    return posixpath.normpath(path).count("/"), path


def _spec(device_class: CdiClass, devices: Sequence[SpecDevice], common: Edits) -> Spec:
    spec = Spec("", device_class.kind, devices=tuple(devices), edits=common)
    return replace(spec, version=minimum_version(spec))
