"""GPUs. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final, NewType

from plugbay.plugins.nvidia.survey.mig import MigDevice
from plugbay.plugins.nvidia.survey.profiles import MigProfile
from plugbay.values import dataclass

GpuUuid = NewType("GpuUuid", str)
"""The UUID of a whole GPU, such as ``GPU-8d2c…``."""
_DISPLAYS: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})
_ARCHITECTURES: Final = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}


class Virtualization(Enum):
    """Where the driver runs, by NVML's ``nvmlDeviceGetVirtualizationMode``; the values are NVML's."""

    NONE = 0
    PASSTHROUGH = 1
    VGPU = 2
    HOST_VGPU = 3
    HOST_VSGA = 4


class Addressing(Enum):
    """How a GPU addresses the memory of its host; the values are NVML's."""

    NONE = 0
    HMM = 1
    ATS = 2
    """Address Translation Services, as on Grace Hopper."""


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether a GPU that is capable of MIG is in MIG mode.

    Attributes:
        is_enabled: now.
        is_pending: after the next reset of the GPU.
    """

    is_enabled: bool
    is_pending: bool


@dataclass(frozen=True, slots=True)
class Fabric:
    """The NVLink fabric that a GPU of a multi-node system is attached to.

    Attributes:
        cluster_uuid: such as ``6f3a…-…``; of zeros when there is none.
        clique: GPUs of one cluster and clique reach each other.
        state: NVML's: 0 not supported, 1 not started, 2 in progress, 3 completed.
        status: NVML's return code of the attachment; it counts when ``state`` is 3.
    """

    cluster_uuid: str
    clique: int
    state: int
    status: int

    @property
    def is_attached(self) -> bool:
        return self.state == 3 and self.status == 0 and bool(self.cluster_uuid.strip("0-"))


@dataclass(frozen=True, slots=True)
class Gpu:
    """A whole GPU.

    Attributes:
        index: NVML's; drivers number GPUs anew when one is gone.
        minor: of ``/dev/nvidia<minor>``; it may differ from the index. -1 when the driver gives none, as in WSL.
        pci_bus_id: in lower case with a domain of four digits, as sysfs has it: ``0000:3b:00.0``; empty for a GPU that
            is not on a PCI bus, as that of an Orin.
        memory_bytes: in total; 0 when the driver does not say.
        numa_node: None when sysfs knows none.
        compute_capability: major and minor.
        brand: NVML's name, such as ``Tesla`` or ``GeForce``; empty when the driver does not say.
        mig: None when the GPU is not capable of MIG.
        mig_devices: in the order of their slots; empty without MIG mode.
        mig_profiles: those that the GPU supports with one compute instance in each GPU instance, in NVML's order.
        virtualization: None when the driver does not say.
        fabric: None without one.
        addressing: None when the driver does not say.
    """

    index: int
    minor: int
    uuid: GpuUuid
    name: str
    pci_bus_id: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    numa_node: int | None = None
    brand: str = ""
    mig: MigMode | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    mig_profiles: tuple[MigProfile, ...] = ()
    virtualization: Virtualization | None = None
    fabric: Fabric | None = None
    addressing: Addressing | None = None

    @property
    def architecture(self) -> str:
        return architecture_of(self.compute_capability)

    @property
    def is_mig_enabled(self) -> bool:
        return self.mig is not None and self.mig.is_enabled

    @property
    def has_node(self) -> bool:
        """Whether it has a device node, ``/dev/nvidia<minor>``."""
        return self.minor >= 0

    @property
    def is_display(self) -> bool:
        """Whether it drives the display of a DGX Station, which no container is given."""
        return self.name in _DISPLAYS


@dataclass(frozen=True, slots=True)
class UnreadableGpu:
    """A GPU that the driver counts and does not describe, such as a lost one.

    Attributes:
        index: NVML's.
        problem: a sentence that says what was asked and what the driver answered.
        code: NVML's return code, such as 15 for a lost GPU.
        uuid, pci_bus_id: as far as the driver told; empty otherwise.
    """

    index: int
    problem: str
    code: int
    uuid: str = ""
    pci_bus_id: str = ""


def architecture_of(compute_capability: tuple[int, int]) -> str:
    """The architecture in lower case, such as ``ampere``; ``undefined`` when it is not known.

    Source: gpu-feature-discovery 0.20 ``getArchFamily``.
    """
    major, minor = compute_capability
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _ARCHITECTURES.get(major, "undefined")


def normalise_bus_id(bus_id: str) -> str:
    """A PCI bus ID as sysfs names it: ``00000000:3B:00.0`` becomes ``0000:3b:00.0``; an empty one stays so."""
    if not bus_id:
        return ""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:] if not domain[:-4].strip('0') else domain}:{rest}"
