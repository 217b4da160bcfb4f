"""MIG profiles and their names, such as ``1g.5gb``. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.values import dataclass

_GPU_INSTANCES: Final = {
    0: (1, ""),
    1: (2, ""),
    2: (3, ""),
    3: (4, ""),
    4: (7, ""),
    5: (8, ""),
    6: (6, ""),
    7: (1, "+me"),
    8: (2, "+me"),
    9: (1, ""),  # twice the memory of index 0, which the number of GB shows
    10: (1, "+gfx"),
    11: (2, "+gfx"),
    12: (4, "+gfx"),
    13: (1, "-me"),
    14: (2, "-me"),
    15: (1, "+me.all"),
    16: (2, "+me.all"),
    17: (3, "+gfx"),
}
"""The slices of a GPU instance and the end of its profile's name, by NVML's index of its profile."""
_COMPUTE_INSTANCES: Final = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1, 8: 7}
"""The slices of a compute instance by NVML's index of its profile."""
GPU_INSTANCE_PROFILES: Final = len(_GPU_INSTANCES)
"""NVML's indices of GPU instance profiles are 0 to this number, which is not one."""
COMPUTE_INSTANCE_PROFILES: Final = len(_COMPUTE_INSTANCES)
"""NVML's indices of compute instance profiles are 0 to this number, which is not one."""
_EIGHTHS: Final = 8
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class MigProfile:
    """The shape of a MIG device; ``str()`` of it is its name, such as ``1g.5gb+me`` or ``1c.3g.20gb``.

    Attributes:
        compute_slices: 1 to 8; fewer than ``gpu_slices`` when the GPU instance is split.
        gpu_slices: 1 to 8.
        memory_gb: as the name says it, see `memory_gb`.
        suffix: the end of the name: empty, ``+me``, ``-me``, ``+me.all`` or ``+gfx``.
    """

    compute_slices: int
    gpu_slices: int
    memory_gb: int
    suffix: str = ""

    def __str__(self) -> str:
        compute = "" if self.compute_slices == self.gpu_slices else f"{self.compute_slices}c."
        return f"{compute}{self.gpu_slices}g.{self.memory_gb}gb{self.suffix}"

    @property
    def is_split(self) -> bool:
        """Whether the compute instance has a part of its GPU instance only."""
        return self.compute_slices != self.gpu_slices

    @classmethod
    def of_device(
        cls, *, gpu_instance_profile: int, compute_instance_profile: int, memory_mib: int, gpu_memory_bytes: int
    ) -> MigProfile:
        """The profile of a MIG device.

        Args:
            gpu_instance_profile: NVML's index of the profile, not its ID.
            compute_instance_profile: likewise.
            memory_mib: of the MIG device.
            gpu_memory_bytes: of its whole GPU; 0 gives a profile of 0 GB.

        Raises:
            ValueError: NVML has no profile of that index that we know.

        Source: go-nvlib ``device/mig_profile.go``, nvidia-device-plugin 0.20.
        """
        gpu = _GPU_INSTANCES.get(gpu_instance_profile)
        if gpu is None:
            raise ValueError(f"{gpu_instance_profile} is not the index of a GPU instance profile")
        compute_slices = _COMPUTE_INSTANCES.get(compute_instance_profile)
        if compute_slices is None:
            raise ValueError(f"{compute_instance_profile} is not the index of a compute instance profile")
        slices, suffix = gpu
        return cls(compute_slices, slices, memory_gb(memory_mib, gpu_memory_bytes), suffix)

    @classmethod
    def of_gpu_instance(cls, *, gpu_instance_profile: int, memory_mib: int, gpu_memory_bytes: int) -> MigProfile:
        """The profile of a GPU instance with one compute instance that has all of it; arguments as in `of_device`.

        Raises:
            ValueError: NVML has no profile of that index that we know.
        """
        if gpu_instance_profile not in _GPU_INSTANCES:
            raise ValueError(f"{gpu_instance_profile} is not the index of a GPU instance profile")
        slices, suffix = _GPU_INSTANCES[gpu_instance_profile]
        return cls(slices, slices, memory_gb(memory_mib, gpu_memory_bytes), suffix)


def memory_gb(mig_memory_mib: int, gpu_memory_bytes: int) -> int:
    """The GB in the name of a profile: eighths of the GPU's memory, rounded up, times its GiB, rounded up.

    0 when the GPU's memory is not known, which NVML says as 0.
    """
    if gpu_memory_bytes <= 0:
        return 0
    eighths = -(-mig_memory_mib * _MIB * _EIGHTHS // gpu_memory_bytes)
    gpu_gib = -(-gpu_memory_bytes // _GIB)
    return (eighths * gpu_gib + _EIGHTHS // 2) // _EIGHTHS
