"""Values that the driver gives at run time: its events, the outcome of a probe, measurements. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

XID: Final = 8
"""NVML's type of an event whose number is an XID."""
DOUBLE_BIT_ECC: Final = 2
SINGLE_BIT_ECC: Final = 1


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """An event of a GPU, as the driver reported it.

    Attributes:
        uuid: of the GPU, also when the event is about a MIG instance of it.
        type: `XID`, `DOUBLE_BIT_ECC` or `SINGLE_BIT_ECC`.
        number: the XID.
        gpu_instance, compute_instance: the MIG instance that it is about; None for the whole GPU.
    """

    uuid: str
    type: int
    number: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Watching:
    """From now on events come. Those before may have been missed, so what could have failed should be probed.

    Attributes:
        unwatched: the driver's reason for each GPU that could have events and has none, by UUID, or by index while
            its UUID is not known.
        too_old: the UUIDs of GPUs that report no events; nothing else is wrong with them.
    """

    unwatched: Mapping[str, str] = field(default_factory=dict)
    too_old: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchLost:
    """No events come until the next `Watching`; ``problem`` says why."""

    problem: str


DriverEvent = GpuEvent | Watching | WatchLost


@dataclass(frozen=True, slots=True)
class Probe:
    """The answers of a GPU, or of a MIG device and its GPU, that could be asked.

    Attributes:
        ecc_uncorrected: errors since the driver was loaded; None when the GPU does not count them.
        retired_pages_pending, row_remap_pending: the GPU has to be reset to replace memory that failed.
        row_remap_failed: memory failed and cannot be replaced.
    """

    temperature_c: int | None
    ecc_uncorrected: int | None
    retired_pages_pending: bool
    row_remap_pending: bool
    row_remap_failed: bool


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU. ``memory_bytes`` is None when the driver does not say."""

    pid: int
    memory_bytes: int | None
    gpu_instance: int | None


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """Measurements of a GPU; None for those that it does not have, as the utilisation of a GPU in MIG mode.

    Attributes:
        energy_mj: millijoules since the driver was loaded.
        ecc_corrected, ecc_uncorrected: errors since the driver was loaded.
        mig_memory_used_bytes: by the UUID of the MIG device.
    """

    uuid: str
    memory_bytes: int | None
    memory_used_bytes: int | None
    utilization_percent: int | None
    memory_utilization_percent: int | None
    encoder_percent: int | None
    decoder_percent: int | None
    temperature_c: int | None
    power_mw: int | None
    power_limit_mw: int | None
    energy_mj: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    processes: tuple[GpuProcess, ...]
    mig_memory_used_bytes: Mapping[str, int]
