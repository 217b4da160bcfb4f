"""Machines ready for use, after real ones: their models, PCI addresses, NUMA nodes, links and MIG profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

from plugbay.testing.fakenvml.machines import (
    IDLE,
    FakeGpu,
    FakeMachine,
    FakeMig,
    FakeMigProfile,
    in_mig_mode,
    with_nvlinks,
    with_nvswitches,
)

A100_40GB_PROFILES: Final = (
    FakeMigProfile("1g.5gb", 0, 19, 1, 4864, 7, 14),
    FakeMigProfile("2g.10gb", 1, 14, 2, 9856, 3, 28, 2, 1),
    FakeMigProfile("3g.20gb", 2, 9, 3, 19968, 2, 42, 3, 2),
    FakeMigProfile("4g.20gb", 3, 5, 4, 19968, 1, 56, 4, 2),
    FakeMigProfile("7g.40gb", 4, 0, 7, 40192, 1, 98, 7, 5, 0, 1, 1),
    FakeMigProfile("1g.5gb+me", 7, 20, 1, 4864, 1, 14, 1, 1, 0, 1, 1),
    FakeMigProfile("1g.10gb", 9, 15, 1, 9856, 4, 14, 1, 1),
)
H100_80GB_PROFILES: Final = (
    FakeMigProfile("1g.10gb", 0, 19, 1, 9984, 7, 16, 1, 1, 0, 1),
    FakeMigProfile("2g.20gb", 1, 14, 2, 20096, 3, 32, 2, 2, 0, 2),
    FakeMigProfile("3g.40gb", 2, 9, 3, 40448, 2, 60, 3, 3, 0, 3),
    FakeMigProfile("4g.40gb", 3, 5, 4, 40448, 1, 64, 4, 4, 0, 4),
    FakeMigProfile("7g.80gb", 4, 0, 7, 81152, 1, 132, 8, 7, 0, 7, 1),
    FakeMigProfile("1g.10gb+me", 7, 20, 1, 9984, 1, 16, 1, 1, 0, 1, 1),
    FakeMigProfile("1g.20gb", 9, 15, 1, 20096, 4, 26, 1, 1, 0, 1),
)
H200_PROFILES: Final = (
    FakeMigProfile("1g.18gb", 0, 19, 1, 16384, 7, 16, 1, 1, 0, 1),
    FakeMigProfile("2g.35gb", 1, 14, 2, 33280, 3, 32, 2, 2, 0, 2),
    FakeMigProfile("3g.71gb", 2, 9, 3, 70912, 2, 60, 3, 3, 0, 3),
    FakeMigProfile("4g.71gb", 3, 5, 4, 70912, 1, 64, 4, 4, 0, 4),
    FakeMigProfile("7g.141gb", 4, 0, 7, 143104, 1, 132, 8, 7, 0, 7, 1),
    FakeMigProfile("1g.18gb+me", 7, 20, 1, 16384, 1, 16, 1, 1, 0, 1, 1),
    FakeMigProfile("1g.35gb", 9, 15, 1, 33280, 4, 26, 1, 1, 0, 1),
)
_DGX1_LINKS: Final = (
    (0, 1, 1, 2, 2, 0, 0, 0),
    (1, 0, 2, 1, 0, 2, 0, 0),
    (1, 2, 0, 2, 0, 0, 1, 0),
    (2, 1, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 1, 1, 2),
    (0, 2, 0, 0, 1, 0, 2, 1),
    (0, 0, 1, 0, 1, 2, 0, 2),
    (0, 0, 0, 1, 2, 1, 2, 0),
)
"""The hybrid cube mesh of a DGX-1 with V100."""
_BUSES: Final = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
_SIXTEEN_BUSES: Final = (0x34, 0x36, 0x39, 0x3B, 0x57, 0x59, 0x5C, 0x5E, 0xB7, 0xB9, 0xBC, 0xBE, 0xE0, 0xE2, 0xE5, 0xE7)


def t4() -> FakeMachine:
    """One Tesla T4."""
    return FakeMachine(_gpus([0x1E], "Tesla T4", 15_843_721_216, (7, 5), pci_device_id=0x1EB810DE))


def a100_nvswitch() -> FakeMachine:
    """Eight A100 of 40 GB on NVSwitches, four on each of two NUMA nodes; capable of MIG, which is disabled."""
    mig = FakeMig(profiles=A100_40GB_PROFILES)
    gpus = _gpus(_BUSES, "NVIDIA A100-SXM4-40GB", 42_505_273_344, (8, 0), mig=mig)
    return FakeMachine(with_nvswitches(gpus, 12), topology=_levels(8, switch=2, socket=4))


def h100_mig() -> FakeMachine:
    """Eight H100 of 80 GB; MIG of several mixes on GPUs 2 to 7, and whole GPUs 0 and 1."""
    mixes: Sequence[Sequence[str] | None] = (
        None,
        None,
        ["1g.10gb"] * 7,
        ["3g.40gb", "3g.40gb"],
        ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
        ["7g.80gb"],
        ["1g.20gb", "1g.20gb", "1g.10gb+me"],
        [],
    )
    mig = FakeMig(profiles=H100_80GB_PROFILES)
    gpus = _gpus(_BUSES, "NVIDIA H100 80GB HBM3", 85_520_809_984, (9, 0), mig=mig, pci_device_id=0x233010DE)
    mixed = [gpu if mix is None else in_mig_mode(gpu, *mix) for gpu, mix in zip(gpus, mixes, strict=True)]
    return FakeMachine(with_nvswitches(mixed, 18), "550.90.07", 12040, _levels(8, switch=1, socket=4))


def dgx1() -> FakeMachine:
    """A DGX-1: eight V100 in a hybrid cube mesh of NVLinks."""
    buses = (0x06, 0x07, 0x0A, 0x0B, 0x85, 0x86, 0x89, 0x8A)
    gpus = _gpus(buses, "Tesla V100-SXM2-32GB", 34_089_730_048, (7, 0), pci_device_id=0x1DB510DE)
    return FakeMachine(with_nvlinks(gpus, _DGX1_LINKS), topology=_levels(8, switch=2, socket=4))


def sixteen_gpus() -> FakeMachine:
    """Sixteen V100 on NVSwitches, as in a DGX-2."""
    gpus = _gpus(_SIXTEEN_BUSES, "Tesla V100-SXM3-32GB", 34_089_730_048, (7, 0), pci_device_id=0x1DB810DE)
    return FakeMachine(with_nvswitches(gpus, 6), topology=_levels(16, switch=2, socket=8))


def h200() -> FakeMachine:
    """One H200, capable of MIG, which is disabled."""
    mig = FakeMig(profiles=H200_PROFILES)
    gpus = _gpus([0x4E], "NVIDIA H200", 150_754_820_096, (9, 0), mig=mig, pci_device_id=0x233510DE)
    return FakeMachine(gpus, "570.124.06", 12080)


READY: Final = {
    "t4": t4,
    "a100-nvswitch": a100_nvswitch,
    "h100-mig": h100_mig,
    "dgx1": dgx1,
    "sixteen-gpus": sixteen_gpus,
    "h200": h200,
}
"""All of them by name."""


def _gpus(
    buses: Iterable[int], name: str, memory_bytes: int, compute_capability: tuple[int, int], **fields: Any
) -> tuple[FakeGpu, ...]:
    places = list(buses)
    return tuple(
        FakeGpu(
            uuid=f"GPU-{uuid5(NAMESPACE_DNS, f'{name}.{place}')}",
            name=name,
            bus_id=f"00000000:{bus:02X}:00.0",
            minor=place,
            memory_bytes=memory_bytes,
            compute_capability=compute_capability,
            numa_node=place * 2 // len(places) if len(places) > 1 else 0,
            measurements=IDLE,
            **fields,
        )
        for place, bus in enumerate(places)
    )


def _levels(count: int, *, switch: int, socket: int) -> tuple[tuple[int | None, ...], ...]:
    """NVML's levels, with that many GPUs under each PCIe switch and on each socket."""

    def level(one: int, other: int) -> int | None:
        if one == other:
            return None
        if one // switch == other // switch:
            return 10
        return 30 if one // socket == other // socket else 50

    return tuple(tuple(level(one, other) for other in range(count)) for one in range(count))
