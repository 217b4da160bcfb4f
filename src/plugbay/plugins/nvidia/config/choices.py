"""The settings that take one of a few words. Pure."""

from __future__ import annotations

from enum import Enum


class MigStrategy(Enum):
    """How GPUs in MIG mode are offered."""

    NONE = "none"
    """The whole GPU; its MIG devices are invisible."""
    SINGLE = "single"
    """Their MIG devices, all of one kind, as ``nvidia.com/gpu``."""
    MIXED = "mixed"
    """Their MIG devices as ``nvidia.com/mig-<profile>``."""


class DeviceListStrategy(Enum):
    """How a container learns which devices it has; several can be used at once."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"

    @property
    def uses_cdi(self) -> bool:
        return self in (DeviceListStrategy.CDI_ANNOTATIONS, DeviceListStrategy.CDI_CRI)


class DeviceIdStrategy(Enum):
    """The names by which answers call devices."""

    UUID = "uuid"
    INDEX = "index"


class SharedAllocationPolicy(Enum):
    """How replicas and MIG devices are chosen."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


class DiscoveryStrategy(Enum):
    """Where devices are looked for."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"


class RecoveryStrategy(Enum):
    """How a device that an XID made unhealthy comes back. NVIDIA's plugin knows the first one only."""

    NEVER = "never"
    CLEAN = "clean"
    """After some time without an XID, when a probe passes."""
    RESET = "reset"
    """After a reset of the GPU, when a probe passes."""
    BY_XID = "by-xid"
    """As ``clean`` for XIDs that leave the GPU usable, and as ``reset`` for all others."""


class SharingStrategy(Enum):
    """How containers share a device."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


class FallbackStrategy(Enum):
    """The configuration of a node whose label names none, while there is no default."""

    NAMED = "named"
    """The file named ``default``."""
    SINGLE = "single"
    """The only file."""
    EMPTY = "empty"
    """No file."""


class Dialect(Enum):
    """How a configuration file is read where NVIDIA's plugin ignores what the file says."""

    REFERENCE = "reference"
    """As NVIDIA's plugin 0.20: what it takes is taken, and what it ignores is ignored, with a warning."""
    EXTENDED = "extended"
    """Unknown fields and repeated keys are errors; ``resources``, ``devices`` and ``rename`` do what they say."""
