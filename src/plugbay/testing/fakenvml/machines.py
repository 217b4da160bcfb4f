"""Machines for the fake driver to show: values, and the JSON description that the library reads.

Every field of a description has the same name here, so `FakeMachine.description` is its documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from plugbay.values import dataclass

NVSWITCH_BUS_ID: Final = "00000000:C4:00.0"
IDLE: Final[Mapping[str, int]] = {
    "memory_used_bytes": 4 << 20,
    "utilization_percent": 0,
    "memory_utilization_percent": 0,
    "encoder_percent": 0,
    "decoder_percent": 0,
    "temperature_c": 31,
    "slowdown_c": 89,
    "shutdown_c": 92,
    "power_mw": 61_250,
    "power_limit_mw": 400_000,
    "energy_mj": 8_120_000,
    "graphics_clock_mhz": 210,
    "sm_clock_mhz": 210,
    "memory_clock_mhz": 1215,
    "video_clock_mhz": 585,
    "performance_state": 0,
    "persistence_mode": 1,
    "compute_mode": 0,
    "ecc_enabled": 1,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "ecc_corrected_ever": 0,
    "ecc_uncorrected_ever": 0,
    "retired_pages_pending": 0,
    "pcie_generation": 4,
    "pcie_width": 16,
    "pcie_sent_kib_per_s": 0,
    "pcie_received_kib_per_s": 0,
    "throttle_reasons": 1,
    "bar1_bytes": 64 << 30,
}
"""Measurements of a GPU that does nothing; NVML does not support those that a GPU lacks."""


@dataclass(frozen=True, slots=True)
class FakeMigProfile:
    """A GPU instance profile that a GPU supports: NVML's index of it, the ID that the GPU gives it, and its size.

    Attributes:
        instances: how many fit on an empty GPU.
    """

    name: str
    index: int
    id: int
    slices: int
    memory_mib: int
    instances: int = 1
    multiprocessors: int = 14
    copy_engines: int = 1
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0


@dataclass(frozen=True, slots=True)
class FakeMigDevice:
    """A MIG device. ``profile`` and ``compute_profile`` are NVML's indices of its profiles; the rest its attributes."""

    slot: int
    uuid: str
    gpu_instance: int
    compute_instance: int
    profile: int
    compute_profile: int
    memory_mib: int
    multiprocessors: int = 14
    gpu_slices: int = 1
    compute_slices: int = 1
    copy_engines: int = 1
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    placement: int = 0
    memory_used_bytes: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class FakeMig:
    """The MIG side of a GPU. Devices show only while MIG is ``enabled``; ``pending`` is None for no change pending."""

    enabled: bool = False
    pending: bool | None = None
    profiles: tuple[FakeMigProfile, ...] = ()
    devices: tuple[FakeMigDevice, ...] = ()
    max_devices: int = 7


@dataclass(frozen=True, slots=True)
class FakeNvLink:
    """One NVLink of a GPU: its number and the PCI bus ID at its other end, of a GPU or a ``switch``."""

    link: int
    remote: str
    switch: bool = False
    active: bool = True


@dataclass(frozen=True, slots=True)
class FakeProcess:
    """A process that uses a GPU. ``kind`` is ``compute``, ``graphics`` or ``mps``; instances are None without MIG."""

    pid: int
    name: str
    memory_bytes: int
    kind: str = "compute"
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class FakeFabric:
    """The NVLink fabric of several nodes; see NVML's ``nvmlGpuFabricInfo_t``."""

    cluster_uuid: str
    clique: int
    state: int = 3
    status: int = 0


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """A GPU. Fields that are None are not supported by it.

    Attributes:
        bus_id: as NVML writes it, ``00000000:3B:00.0``.
        brand, virtualization, addressing: NVML's numbers.
        numa_node: of the files below ``/sys`` only; NVML does not tell it.
        pci_class: likewise.
        measurements: see `IDLE`.
        supported_events: NVML's mask: 8 for XIDs, 2 and 1 for double-bit and single-bit ECC errors.
        lost: whether it has fallen off the bus.
    """

    uuid: str
    name: str
    bus_id: str
    minor: int
    memory_bytes: int
    compute_capability: tuple[int, int]
    brand: int | None = 2
    numa_node: int = -1
    pci_device_id: int = 0x20B010DE
    pci_subsystem_id: int = 0x134F10DE
    pci_class: int = 0x030200
    virtualization: int | None = 0
    addressing: int | None = None
    fabric: FakeFabric | None = None
    mig: FakeMig | None = None
    nvlinks: tuple[FakeNvLink, ...] = ()
    processes: tuple[FakeProcess, ...] = ()
    supported_events: int = 11
    lost: bool = False
    remapped_rows: Mapping[str, int | bool] | None = None
    measurements: Mapping[str, int] = field(default_factory=lambda: IDLE)

    def description(self) -> dict[str, Any]:
        described = asdict(self)
        return {**described.pop("measurements"), **described}


@dataclass(frozen=True, slots=True)
class FakeMachine:
    """A machine with a driver and GPUs.

    Attributes:
        cuda_version: 1000 times the major plus 10 times the minor version.
        topology: NVML's levels between two GPUs; None on the diagonal and where it is not known. Empty for levels made
            from the NUMA nodes of the GPUs.
        init_result: NVML's code that starting gives; 0 for success, 9 for a driver that is not loaded.
        generation: another number is another load of the driver; programs that started with the one before have to
            start anew.
    """

    gpus: tuple[FakeGpu, ...] = ()
    driver_version: str = "550.54.15"
    cuda_version: int = 12040
    topology: tuple[tuple[int | None, ...], ...] = ()
    init_result: int = 0
    generation: int = 0

    def description(self) -> dict[str, Any]:
        """The JSON description that the library reads."""
        return {
            "driver": {
                "version": self.driver_version,
                "nvml_version": f"{self.cuda_version // 1000}.{self.driver_version}",
                "cuda_version": self.cuda_version,
                "init_result": self.init_result,
                "generation": self.generation,
            },
            "gpus": [gpu.description() for gpu in self.gpus],
            "topology": self.topology or levels_by_numa_node(self.gpus),
        }

    def place(self, gpu: int | str) -> int:
        """The index of a GPU by its index or UUID.

        Raises:
            LookupError: there is no such GPU.
        """
        places = [place for place, each in enumerate(self.gpus) if gpu in (place, each.uuid)]
        if not places:
            raise LookupError(f"the fake machine has no GPU {gpu!r}")
        return places[0]

    def with_gpu(self, gpu: int | str, **changes: Any) -> FakeMachine:
        """The machine with fields of one GPU changed."""
        place = self.place(gpu)
        changed = replace(self.gpus[place], **changes)
        return replace(self, gpus=(*self.gpus[:place], changed, *self.gpus[place + 1 :]))


def levels_by_numa_node(gpus: Sequence[FakeGpu]) -> tuple[tuple[int | None, ...], ...]:
    """Host bridges inside a NUMA node, the system between two."""
    return tuple(
        tuple(None if one is other else 30 if one.numa_node == other.numa_node else 50 for other in gpus)
        for one in gpus
    )


def with_nvlinks(gpus: Sequence[FakeGpu], counts: Sequence[Sequence[int]]) -> tuple[FakeGpu, ...]:
    """The GPUs with that many NVLinks from each to each other; every GPU numbers its own."""
    linked = []
    for gpu, row in zip(gpus, counts, strict=True):
        remotes = [other.bus_id for other, count in zip(gpus, row, strict=True) for _ in range(count)]
        linked.append(replace(gpu, nvlinks=tuple(FakeNvLink(link, remote) for link, remote in enumerate(remotes))))
    return tuple(linked)


def with_nvswitches(gpus: Iterable[FakeGpu], links: int) -> tuple[FakeGpu, ...]:
    """The GPUs with that many NVLinks to NVSwitches each."""
    nvlinks = tuple(FakeNvLink(link, NVSWITCH_BUS_ID, switch=True) for link in range(links))
    return tuple(replace(gpu, nvlinks=nvlinks) for gpu in gpus)


def in_mig_mode(gpu: FakeGpu, *profiles: str) -> FakeGpu:
    """The GPU in MIG mode with one MIG device of each profile named, such as ``1g.5gb``, in the order of their slots.

    Raises:
        ValueError: the GPU is not capable of MIG, has no such profile, or has too few slices for all of them.
    """
    if gpu.mig is None:
        raise ValueError(f"{gpu.name} is not capable of MIG")
    known = {profile.name: profile for profile in gpu.mig.profiles}
    unknown = [name for name in profiles if name not in known]
    if unknown:
        raise ValueError(f"{gpu.name} has no MIG profile {unknown[0]!r}; it has {', '.join(known)}")
    chosen = [known[name] for name in profiles]
    if sum(profile.slices for profile in chosen) > 7:
        raise ValueError(f"{', '.join(profiles)} do not fit the 7 slices of {gpu.name}")
    devices, placement = [], 0
    for slot, profile in enumerate(chosen):
        devices.append(_device_of(gpu, profile, slot, placement))
        placement += profile.slices
    return replace(gpu, mig=replace(gpu.mig, enabled=True, devices=tuple(devices)))


_COMPUTE_PROFILES: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}


def _device_of(gpu: FakeGpu, profile: FakeMigProfile, slot: int, placement: int) -> FakeMigDevice:
    return FakeMigDevice(
        slot=slot,
        uuid=f"MIG-{uuid5(NAMESPACE_DNS, f'{gpu.uuid}.{profile.name}.{placement}')}",
        gpu_instance=7 + placement if profile.slices == 1 else 1 + slot,
        compute_instance=0,
        profile=profile.index,
        compute_profile=_COMPUTE_PROFILES[profile.slices],
        memory_mib=profile.memory_mib,
        multiprocessors=profile.multiprocessors,
        gpu_slices=profile.slices,
        compute_slices=profile.slices,
        copy_engines=profile.copy_engines,
        decoders=profile.decoders,
        encoders=profile.encoders,
        jpeg_engines=profile.jpeg_engines,
        ofa_engines=profile.ofa_engines,
        placement=placement,
        name=profile.name,
    )
