"""The answer for a container: variables, mounts, device nodes and CDI names. Pure.

Source: k8s-device-plugin 0.20 ``internal/plugin/server.go``, ``internal/mps``; spec 5.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, CdiClass, NodeFeatures
from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy, DeviceListStrategy, SharingStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.host_paths import join_root
from plugbay.plugins.nvidia.devices.devices import NvidiaDevice, by_index

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
MOUNTED_DEVICES: Final = "/var/run/nvidia-container-devices"
"""The directory in the container whose entries name its devices."""
_NULL_DEVICE: Final = "/dev/null"
_ENABLED: Final = "enabled"
_ANNOTATION: Final = "nvidia-device-plugin_"


def answer(
    resource: ResourceName,
    devices: Sequence[NvidiaDevice],
    configuration: Configuration,
    features: NodeFeatures = NO_FEATURES,
    *,
    unique: str,
) -> ContainerEdits:
    """The answer for one container.

    Where NVIDIA's plugin answers in random order or names a node twice, the answer is sorted and names it once.

    Args:
        resource: the name under which the devices are registered.
        devices: in the order of the request; a device may occur several times.
        unique: the end of the annotation's key, such as a random UUID: two resources of one container may not have the
            same key.
    """
    ids = device_ids(devices, configuration.id_strategy)
    cdi = tuple(_cdi_devices(ids, configuration, features)) if configuration.uses_cdi else ()
    env: dict[str, str] = {}
    mounts: list[Mount] = []
    nodes: list[DeviceNode] = []
    annotations: dict[str, str] = {}
    if DeviceListStrategy.CDI_ANNOTATIONS in configuration.list_strategies and cdi:
        annotations[f"{configuration.cdi.annotation_prefix}{_ANNOTATION}{unique}"] = ",".join(cdi)
    if configuration.sharing.strategy is SharingStrategy.MPS and any(device.is_shared for device in devices):
        mounts += _mps_mounts(resource, configuration.mps_root)
        env["CUDA_MPS_PIPE_DIRECTORY"] = f"/mps/{resource}/pipe"
    env |= _optional_env(configuration)
    if DeviceListStrategy.ENVVAR in configuration.list_strategies:
        env |= _list_env(ids, features)
    if DeviceListStrategy.VOLUME_MOUNTS in configuration.list_strategies:
        env[VISIBLE_DEVICES] = MOUNTED_DEVICES
        mounts += _list_mounts(ids, features)
    if configuration.passes_device_nodes:
        nodes += _nodes(devices, configuration.roots.host_dev, features)
    names = cdi if DeviceListStrategy.CDI_CRI in configuration.list_strategies else ()
    return ContainerEdits(env, mounts, nodes, annotations, names)


def device_ids(devices: Sequence[NvidiaDevice], strategy: DeviceIdStrategy) -> tuple[str, ...]:
    """The names of devices in answers, each once: UUIDs in the order of the request, or indices in their own order."""
    match strategy:
        case DeviceIdStrategy.UUID:
            return tuple(dict.fromkeys(device.id for device in devices))
        case DeviceIdStrategy.INDEX:
            return tuple(dict.fromkeys(device.index for device in sorted(devices, key=by_index)))


def _cdi_devices(ids: Iterable[str], configuration: Configuration, features: NodeFeatures) -> Iterator[str]:
    for each in ids:
        yield CdiClass.GPU.device(each)
    for channel in features.imex_channels:
        yield CdiClass.IMEX_CHANNEL.device(str(channel.number))
    for optional, is_enabled in _optional_classes(configuration).items():
        if is_enabled and optional in features.optional_classes:
            yield optional.device("all")


def _optional_classes(configuration: Configuration) -> Mapping[CdiClass, bool]:
    return {
        CdiClass.GDRCOPY: configuration.gdrcopy_enabled,
        CdiClass.GDS: configuration.gds_enabled,
        CdiClass.MOFED: configuration.mofed_enabled,
    }


def _optional_env(configuration: Configuration) -> dict[str, str]:
    """Variables for the runtime, with every strategy."""
    return {
        f"NVIDIA_{optional.value.upper()}": _ENABLED
        for optional, is_enabled in _optional_classes(configuration).items()
        if is_enabled
    }


def _list_env(ids: Sequence[str], features: NodeFeatures) -> dict[str, str]:
    env = {VISIBLE_DEVICES: ",".join(ids)}
    if features.imex_channels:
        env["NVIDIA_IMEX_CHANNELS"] = ",".join(str(channel.number) for channel in features.imex_channels)
    return env


def _list_mounts(ids: Sequence[str], features: NodeFeatures) -> list[Mount]:
    names = [*ids, *(f"imex/{channel.number}" for channel in features.imex_channels)]
    return [Mount(_NULL_DEVICE, container_path=f"{MOUNTED_DEVICES}/{name}") for name in names]


def _mps_mounts(resource: ResourceName, mps_root: str) -> list[Mount]:
    return [
        Mount(join_root(mps_root, resource, "pipe"), container_path=f"/mps/{resource}/pipe"),
        Mount(join_root(mps_root, "shm"), container_path="/dev/shm"),
    ]


def _nodes(devices: Sequence[NvidiaDevice], dev_root: str, features: NodeFeatures) -> list[DeviceNode]:
    of_devices = [path for device in sorted(devices, key=by_index) for path in device.paths]
    control = features.control_nodes if any(device.has_control_nodes for device in devices) or not devices else ()
    paths = dict.fromkeys((*control, *of_devices, *(channel.path for channel in features.imex_channels)))
    return [DeviceNode(join_root(dev_root, path), container_path=path, permissions="rw") for path in paths]
