"""The GPUs and MIG devices of a spec. Pure.

Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/{full-gpu,mig-device}-nvml.go``; spec 6.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy, MigStrategy
from plugbay.plugins.nvidia.survey import Addressing, Gpu, MigDevice, MigMinors, Survey
from plugbay.values import dataclass

_COHERENT: Final = "gpu.nvidia.com/coherent"


@dataclass(frozen=True, slots=True)
class NodesOfDevice:
    """A device of a spec and the device nodes that it needs.

    Attributes:
        id: the device's own ID, by which it is registered.
        paths: of the driver's nodes.
        pci_bus_id: of the GPU whose nodes for graphics belong to it; empty for none.
    """

    name: str
    id: str
    paths: tuple[str, ...]
    pci_bus_id: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


def spec_devices(
    survey: Survey,
    minors: MigMinors,
    *,
    mig: MigStrategy,
    ids: DeviceIdStrategy,
    has_coherence: bool = False,
) -> Iterator[NodesOfDevice]:
    """The devices in the order of their GPUs; replicas share the device of their GPU.

    A GPU in MIG mode has its MIG devices instead of itself, unless the strategy offers the whole GPU: the reference
    leaves it out then, so that no container could have it. MIG devices without device nodes are left out.

    Args:
        has_coherence: whether annotations say if a GPU's memory is coherent with the host's
            (``enable-coherent-annotations``).
    """
    for gpu in survey.gpus:
        if gpu.is_display or not gpu.has_node:
            continue
        if not gpu.is_mig_enabled or mig is MigStrategy.NONE:
            name = gpu.uuid if ids is DeviceIdStrategy.UUID else str(gpu.index)
            annotations = _coherence(gpu) if has_coherence else {}
            yield NodesOfDevice(name, gpu.uuid, (_node(gpu),), gpu.pci_bus_id, annotations)
        if gpu.is_mig_enabled:
            for device in gpu.mig_devices:
                if caps := _caps(gpu, device, minors):
                    name = device.uuid if ids is DeviceIdStrategy.UUID else f"{gpu.index}:{device.slot}"
                    draws = device.profile is not None and "gfx" in device.profile.suffix
                    nodes = (_node(gpu), *caps)
                    yield NodesOfDevice(name, device.uuid, nodes, gpu.pci_bus_id if draws else "")


def _node(gpu: Gpu) -> str:
    return f"/dev/nvidia{gpu.minor}"


def _caps(gpu: Gpu, device: MigDevice, minors: MigMinors) -> tuple[str, ...]:
    gpu_instance = minors.gpu_instances.get((gpu.minor, device.gpu_instance))
    compute_instance = minors.compute_instances.get((gpu.minor, device.gpu_instance, device.compute_instance))
    if gpu_instance is None or compute_instance is None:
        return ()
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (gpu_instance, compute_instance))


def _coherence(gpu: Gpu) -> dict[str, str]:
    return {_COHERENT: str(gpu.addressing is Addressing.ATS).lower()}
