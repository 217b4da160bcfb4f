"""The worker's answers, turned into values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plugbay.plugins.nvidia.nvml.values import GpuMetrics, GpuProcess
from plugbay.plugins.nvidia.survey import (
    UNKNOWN_VERSION,
    Addressing,
    Fabric,
    Gpu,
    GpuUuid,
    LinkMatrix,
    MigAttributes,
    MigDevice,
    MigMode,
    MigProfile,
    MigUuid,
    P2PLevel,
    Survey,
    UnreadableGpu,
    Virtualization,
    normalise_bus_id,
)

_BRANDS: Final = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "GRID",
    5: "GeForce",
    6: "Titan",
    7: "NVIDIA Virtual Applications",
    8: "NVIDIA Virtual PC",
    9: "NVIDIA Virtual Compute Server",
    10: "NVIDIA RTX Virtual Workstation",
    11: "NVIDIA Cloud Gaming",
    12: "Quadro RTX",
    13: "NVIDIA RTX",
    14: "NVIDIA",
    15: "GeForce RTX",
    16: "Titan RTX",
}
_LEVELS: Final = frozenset(P2PLevel)


def read_survey(answer: Mapping[str, Any]) -> Survey:
    version = answer["cuda_version"]
    return Survey(
        driver_version=answer["driver_version"] or UNKNOWN_VERSION,
        cuda_driver_version=(version // 1000, version % 1000 // 10),
        gpus=tuple(_gpu(each) for each in answer["gpus"]),
        unreadable=tuple(
            UnreadableGpu(
                each["index"],
                each["problem"],
                each["code"],
                each["uuid"],
                normalise_bus_id(each["pci_bus_id"]),
            )
            for each in answer["unreadable"]
        ),
    )


def _gpu(answer: Mapping[str, Any]) -> Gpu:
    memory_bytes = answer["memory_bytes"]
    mode, fabric = answer["mig"], answer["fabric"]
    major, minor = answer["compute_capability"]
    return Gpu(
        index=answer["index"],
        minor=answer["minor"],
        uuid=GpuUuid(answer["uuid"]),
        name=answer["name"],
        pci_bus_id=normalise_bus_id(answer["pci_bus_id"]),
        memory_bytes=memory_bytes,
        compute_capability=(major, minor),
        numa_node=answer["numa_node"],
        brand=_BRANDS.get(answer["brand"], ""),
        mig=None if mode is None else MigMode(*mode),
        mig_devices=tuple(_mig_device(each, answer["uuid"], memory_bytes) for each in answer["mig_devices"]),
        mig_profiles=tuple(
            MigProfile.of_gpu_instance(gpu_instance_profile=index, memory_mib=memory_mib, gpu_memory_bytes=memory_bytes)
            for index, memory_mib in answer["mig_profiles"]
        ),
        virtualization=_known(Virtualization, answer["virtualization"]),
        fabric=None if fabric is None else Fabric(**fabric),
        addressing=_known(Addressing, answer["addressing"]),
    )


def _known(kind: Any, number: int | None) -> Any:
    """The member of an enum; None for a number that a newer driver may have added."""
    return next((member for member in kind if member.value == number), None)


def _mig_device(answer: Mapping[str, Any], parent_uuid: str, gpu_memory_bytes: int) -> MigDevice:
    gpu_instance, compute_instance = answer["gpu_instance_profile"], answer["compute_instance_profile"]
    profile = None
    if gpu_instance is not None and compute_instance is not None:
        profile = MigProfile.of_device(
            gpu_instance_profile=gpu_instance,
            compute_instance_profile=compute_instance,
            memory_mib=answer["memory_mib"],
            gpu_memory_bytes=gpu_memory_bytes,
        )
    return MigDevice(
        slot=answer["slot"],
        uuid=MigUuid(answer["uuid"]),
        parent_uuid=parent_uuid,
        gpu_instance=answer["gpu_instance"],
        compute_instance=answer["compute_instance"],
        profile=profile,
        attributes=MigAttributes(
            memory_mib=answer["memory_mib"],
            multiprocessors=answer["multiprocessors"],
            gpu_slices=answer["gpu_slices"],
            compute_slices=answer["compute_slices"],
            copy_engines=answer["copy_engines"],
            decoders=answer["decoders"],
            encoders=answer["encoders"],
            jpeg_engines=answer["jpeg_engines"],
            ofa_engines=answer["ofa_engines"],
        ),
    )


def read_links(answer: Mapping[str, Any]) -> LinkMatrix:
    return LinkMatrix(
        uuids=tuple(GpuUuid(uuid) for uuid in answer["uuids"]),
        levels=tuple(tuple(P2PLevel(each) if each in _LEVELS else None for each in row) for row in answer["levels"]),
        nvlinks=tuple(tuple(row) for row in answer["nvlinks"]),
        switch_links=tuple(answer["switch_links"]),
    )


def read_metrics(answer: Sequence[Mapping[str, Any]]) -> tuple[GpuMetrics, ...]:
    return tuple(
        GpuMetrics(**{**each, "processes": tuple(GpuProcess(*process) for process in each["processes"])})
        for each in answer
    )
