"""The MPS daemons of a node, and what they are told. Pure.

Source: k8s-device-plugin 0.20 ``cmd/mps-control-daemon/mps/daemon.go``, ``internal/rm/rm.go``; spec 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.devices.devices import DeviceMap, NvidiaDevice, ResourceDevices
from plugbay.values import dataclass

_MIB: Final = 1 << 20
_MANY_CLIENTS: Final = (7, 0)
"""The compute capability from which on a GPU takes many clients. NVIDIA's plugin counts Volta (7.0) to those before."""


@dataclass(frozen=True, slots=True)
class MpsGpu:
    """A GPU of a daemon.

    Attributes:
        index: NVML's, by which the daemon knows the GPU.
        memory_limit_mib: what each client may pin; 0 when the memory of the GPU is not known.
    """

    uuid: str
    index: str
    memory_limit_mib: int


@dataclass(frozen=True, slots=True)
class MpsPlan:
    """One daemon: that of a resource whose devices are shared.

    Attributes:
        gpus: at least one, in the order of their indices.
        thread_percentage: of the GPU's threads, for each client.
    """

    resource: ResourceName
    gpus: tuple[MpsGpu, ...]
    thread_percentage: int

    def commands(self) -> Iterator[str]:
        """The lines that the daemon is told when it has started."""
        for gpu in self.gpus:
            if gpu.memory_limit_mib:
                yield f"set_default_device_pinned_mem_limit {gpu.index} {gpu.memory_limit_mib}M"
        yield f"set_default_active_thread_percentage {self.thread_percentage}"


def most_clients(compute_capability: tuple[int, int]) -> int:
    """The most clients that a GPU takes."""
    return 48 if compute_capability >= _MANY_CLIENTS else 16


def mps_plans(resources: DeviceMap) -> tuple[MpsPlan, ...]:
    """The daemons of a node whose configuration shares by MPS; none when no device is shared.

    Raises:
        GpusUnusable: a device has more replicas than MPS takes clients.
    """
    return tuple(plan for resource in resources.values() if (plan := _plan(resource)) is not None)


def _plan(resource: ResourceDevices) -> MpsPlan | None:
    shared = [device for device in resource.devices.values() if device.is_shared]
    if not shared:
        return None
    for device in shared:
        _check(device)
    gpus = tuple(MpsGpu(each.id, each.index, each.memory_bytes // _MIB // each.replicas) for each in shared)
    # One number counts for all GPUs of a daemon: with different replicas, that which gives no client too much.
    return MpsPlan(resource.name, gpus, 100 // max(device.replicas for device in shared))


def _check(device: NvidiaDevice) -> None:
    most = most_clients(device.compute_capability)
    if device.replicas > most:
        problem = f"invalid device maximum allowed replicas exceeded: {device.replicas} > {most}"
        raise GpusUnusable(problem, step="invalid MPS configuration")
