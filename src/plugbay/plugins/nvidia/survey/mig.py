"""MIG devices. Pure."""

from __future__ import annotations

from typing import NewType

from plugbay.plugins.nvidia.survey.profiles import MigProfile
from plugbay.values import dataclass

MigUuid = NewType("MigUuid", str)
"""The UUID of a MIG device, such as ``MIG-5f2a…``."""


@dataclass(frozen=True, slots=True)
class MigAttributes:
    """The properties of a MIG device, NVML's ``nvmlDeviceAttributes_t``; two devices are of one kind when it is equal.

    Attributes:
        memory_mib: in MiB.
        gpu_slices, compute_slices: as the driver says them; names of profiles do not come from these.
    """

    memory_mib: int
    multiprocessors: int
    gpu_slices: int
    compute_slices: int
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance of a GPU instance of a GPU in MIG mode.

    Attributes:
        slot: the number of its handle on its GPU; its index is ``<index of the GPU>:<slot>``.
        parent_uuid: of its GPU.
        gpu_instance, compute_instance: their IDs, which XID events and ``/proc/driver/nvidia-caps/mig-minors`` name.
        profile: None when NVML gives the instance a profile that it does not list.
    """

    slot: int
    uuid: MigUuid
    parent_uuid: str
    gpu_instance: int
    compute_instance: int
    profile: MigProfile | None
    attributes: MigAttributes

    @property
    def memory_bytes(self) -> int:
        return self.attributes.memory_mib << 20
