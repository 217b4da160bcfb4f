"""The GPUs of a machine, as the driver told them at one moment. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.plugins.nvidia.survey.gpus import Gpu, UnreadableGpu
from plugbay.plugins.nvidia.survey.mig import MigDevice
from plugbay.values import dataclass

UNKNOWN_VERSION: Final = "unknown.unknown.unknown"
"""In place of the version of a driver that does not tell it, as gpu-feature-discovery writes it."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The driver and all its GPUs. Equal surveys mean that nothing changed.

    Attributes:
        driver_version: such as ``550.54.15``.
        cuda_driver_version: major and minor of the newest CUDA that the driver supports.
        gpus: in the order of their indices.
        unreadable: GPUs that the driver counts and cannot describe; the others are as good as before.
    """

    driver_version: str
    cuda_driver_version: tuple[int, int]
    gpus: tuple[Gpu, ...] = ()
    unreadable: tuple[UnreadableGpu, ...] = ()

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU of that UUID."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def mig_device(self, uuid: str) -> tuple[Gpu, MigDevice] | None:
        """The MIG device of that UUID, and its GPU."""
        return next(((gpu, device) for gpu in self.gpus for device in gpu.mig_devices if device.uuid == uuid), None)
