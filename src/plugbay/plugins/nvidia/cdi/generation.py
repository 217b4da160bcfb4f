"""CDI specs, made of devices, of the driver's files and of hooks. Blocks: device nodes are looked at.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi``, k8s-device-plugin 0.20 ``internal/cdi``; spec 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plugbay.cdi.spec import Edits, Hook, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.plugins.nvidia.answers.features import CdiClass, ImexChannel
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice
from plugbay.plugins.nvidia.cdi.driver_files import DriverFiles
from plugbay.plugins.nvidia.cdi.edits import HIDDEN, READ_ONLY, SOCKET, ordered_edits, spec_of
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms, driver_hooks, mounted_names
from plugbay.plugins.nvidia.cdi.nodes import CONTROL_NODES, NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots

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
        devices: those that have their device nodes; see `divide`.
        has_sockets: whether containers get the sockets of the driver's daemons (not with ``disable-ipc-discoverer``).
    """
    mounts = list(_mounts(files, finder.roots, mode))
    if has_sockets:
        mounts += [SpecMount(finder.roots.host_file(path), path, SOCKET) for path in files.sockets]
    directories = ":".join(files.library_directories)
    name = "NVIDIA_CTK_LIBCUDA_DIR" if mode is HookMode.TOOLKIT else "LD_LIBRARY_PATH"
    common = ordered_edits(
        finder,
        filter(None, map(finder.node, CONTROL_NODES)),
        env=(f"{name}={directories}", HIDDEN),
        mounts=mounts,
        hooks=tuple(driver_hooks(files, programs)) if mode is HookMode.TOOLKIT else (),
    )
    named = (spec_device(each, finder, programs if mode is HookMode.TOOLKIT else None) for each in devices)
    return spec_of(CdiClass.GPU, sorted(named, key=lambda device: device.name), common)


def spec_device(
    device: NodesOfDevice, finder: NodeFinder, programs: HookPrograms | None, more: Iterable[SpecDeviceNode] = ()
) -> SpecDevice:
    """A device of a spec, with its nodes for graphics.

    Args:
        programs: None for a spec without hooks.
        more: nodes that the device needs beside its own.
    """
    drawing = finder.graphics_paths(device.pci_bus_id)
    nodes = [node for path in (*device.paths, *drawing) if (node := finder.node(path))]
    hooks: tuple[Hook, ...] = ()
    if programs is not None and drawing:
        hooks = tuple(programs.links(finder.graphics_links(device.pci_bus_id, [node.path for node in nodes])))
    return SpecDevice(device.name, device.annotations, ordered_edits(finder, (*nodes, *more), hooks=hooks))


def divide(devices: Iterable[NodesOfDevice], finder: NodeFinder) -> tuple[list[NodesOfDevice], dict[str, str]]:
    """The devices that have their device nodes, and the problems of the others, by their IDs.

    The reference writes a device without nodes, of which engines take the whole file for broken.
    """
    whole, problems = [], {}
    for device in devices:
        if missing := finder.missing(device.paths):
            problems[device.id] = (
                f"{' and '.join(missing)} cannot be found below {finder.roots.dev}, so that no CDI spec names the "
                "device; nvidia-smi or nvidia-modprobe on the host makes device nodes"
            )
        else:
            whole.append(device)
    return whole, problems


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
        mounts = [SpecMount(finder.roots.host_file(path), path, READ_ONLY) for path in paths]
    device = SpecDevice(_ALL, edits=ordered_edits(finder, nodes, mounts=mounts))
    return spec_of(device_class, [device], Edits(env=(HIDDEN,)))


def imex_spec(channels: Sequence[ImexChannel], roots: SpecRoots) -> Spec | None:
    """The spec of IMEX channels, which are not looked at; None without any."""
    if not channels:
        return None
    devices = []
    for channel in channels:
        node = SpecDeviceNode(channel.path, host_path=roots.named_host_node(channel.path))
        devices.append(SpecDevice(str(channel.number), edits=Edits(device_nodes=(node,))))
    return spec_of(CdiClass.IMEX_CHANNEL, devices, Edits())


def _mounts(files: DriverFiles, roots: SpecRoots, mode: HookMode) -> Iterator[SpecMount]:
    for library in (*files.graphics, *files.libraries):
        names = (library.path,) if mode is HookMode.TOOLKIT else mounted_names(library, files.version)
        for name in names:
            yield SpecMount(roots.host_file(library.path), name, READ_ONLY)
    for file in files.others:
        yield SpecMount(roots.host_file(file.path), file.container_path, READ_ONLY)
