"""Questions to the driver, answered with dicts, lists, texts and numbers. In the worker process only."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from ctypes import Structure, byref, c_uint, c_uint8
from typing import Any, Final

import pynvml as nvml

from plugbay.plugins.nvidia.nvml.placement import placement_in
from plugbay.plugins.nvidia.nvml.turns import LEFT_OUT, gpus_in_turn

GPU_INSTANCE_PROFILES: Final = 18
COMPUTE_INSTANCE_PROFILES: Final = 9
NVLINKS: Final = 36
"""NVML numbers the NVLinks of a GPU from 0; 18 is the most that a GPU has, and upstream asks for twice that."""
_NOT_THERE: Final = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_NOT_FOUND)
_UUID_BYTES: Final = 16
_SWITCH: Final = 2
"""NVML's type of an NVSwitch at the other end of an NVLink."""

Described = dict[str, Any]


class _FabricInfo(Structure):
    """NVML's ``nvmlGpuFabricInfo_t``, whose UUID older bindings take for a text."""

    _fields_ = (
        ("cluster_uuid", c_uint8 * _UUID_BYTES),
        ("status", c_uint),
        ("clique", c_uint),
        ("state", c_uint8),
    )


class DriverQuestions:
    """The questions to a driver from one start of its library to the next.

    Args:
        sys_root: where sysfs is.
        push: sends a frame to the plugin.
    """

    def __init__(self, sys_root: str, push: Callable[[tuple[object, ...]], None]) -> None:
        self._sys_root = sys_root
        self._push = push
        self._profiles: dict[str, tuple[object, list[tuple[int, Any]]]] = {}

    def survey(self, left_out: Collection[tuple[int, int]]) -> Described:
        """The driver and all GPUs; see `plugbay.plugins.nvidia.survey`."""
        gpus, unreadable = [], []
        for index, may_be_asked in gpus_in_turn(left_out, self._push):
            found: Described = {"index": index, "uuid": "", "pci_bus_id": ""}
            code, problem = 0, LEFT_OUT
            try:
                if may_be_asked:
                    gpus.append(self._gpu(index, found))
                    continue
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_UNINITIALIZED:
                    raise
                code, problem = error.value, str(error)
            unreadable.append(
                {**found, "code": code, "problem": f"the driver does not describe GPU {index}: {problem}"}
            )
        return {
            "driver_version": _text(_unless_failing(nvml.nvmlSystemGetDriverVersion) or ""),
            "cuda_version": _unless_failing(nvml.nvmlSystemGetCudaDriverVersion) or 0,
            "gpus": gpus,
            "unreadable": unreadable,
        }

    def _gpu(self, index: int, found: Described) -> Described:
        """One GPU. ``found`` gets the UUID and the bus ID, for the case that what follows fails.

        What no container needs may fail: the GPU is offered without it.
        """
        device = nvml.nvmlDeviceGetHandleByIndex(index)
        found["uuid"] = uuid = _text(nvml.nvmlDeviceGetUUID(device))
        found["pci_bus_id"] = bus_id = _unless_absent(_bus_id, device) or ""  # none for the GPU of an Orin
        minor = _unless_absent(nvml.nvmlDeviceGetMinorNumber, device)
        memory = _unless_failing(nvml.nvmlDeviceGetMemoryInfo, device)
        memory_bytes = 0 if memory is None else memory.total
        return {
            "index": index,
            "uuid": uuid,
            "pci_bus_id": bus_id,
            "minor": -1 if minor is None else minor,
            "name": _text(nvml.nvmlDeviceGetName(device)),
            "memory_bytes": memory_bytes,
            "compute_capability": nvml.nvmlDeviceGetCudaComputeCapability(device),
            "numa_node": self._numa_node(bus_id) if bus_id else None,
            "brand": _unless_failing(nvml.nvmlDeviceGetBrand, device),
            "virtualization": _unless_failing(nvml.nvmlDeviceGetVirtualizationMode, device),
            "addressing": _unless_failing(nvml.nvmlDeviceGetAddressingMode, device),
            "fabric": _unless_failing(_fabric, device),
            **self._mig(device, uuid, memory_bytes),
        }

    def _mig(self, device: Any, uuid: str, memory_bytes: int) -> Described:
        """The MIG mode of a GPU, with its MIG devices and the profiles that it supports."""
        mode = _unless_absent(nvml.nvmlDeviceGetMigMode, device)
        if mode is None:
            return {"mig": None, "mig_devices": [], "mig_profiles": []}
        state = memory_bytes, tuple(mode)
        profiles = _unless_failing(self._gpu_instance_profiles, device, uuid, state) or []
        indices = {profile.id: index for index, profile in profiles}
        return {
            "mig": (bool(mode[0]), bool(mode[1])),
            "mig_devices": [
                found
                for slot, each in _mig_handles(device)
                if (found := _unless_absent(_mig_device, slot, each, device, indices)) is not None
            ],  # without those that are taken down at this moment
            "mig_profiles": [(index, profile.memorySizeMB) for index, profile in profiles],
        }

    def _gpu_instance_profiles(self, device: Any, uuid: str, state: object) -> list[tuple[int, Any]]:
        """The profiles of a GPU. They are most of a survey's calls, and the same while the GPU's ``state`` is."""
        known, profiles = self._profiles.get(uuid, (None, []))
        if known != state:
            profiles = list(_gpu_instance_profiles(device))
            self._profiles[uuid] = (state, profiles)
        return profiles

    def _numa_node(self, bus_id: str) -> int | None:
        domain, _, rest = bus_id.lower().partition(":")
        path = os.path.join(self._sys_root, "bus/pci/devices", f"{int(domain, 16):04x}:{rest}", "numa_node")
        try:
            with open(path, "rb") as file:
                node = int(file.read())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def links(self) -> Described:
        """Topology levels and NVLinks between the GPUs that can be read, each from its own point of view."""
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                device = nvml.nvmlDeviceGetHandleByIndex(index)
                gpus.append((device, _text(nvml.nvmlDeviceGetUUID(device)), _bus_id(device)))
            except nvml.NVMLError:  # the survey tells of it
                continue
        nvlinks, switch_links = [], []
        for device, _, _ in gpus:
            remotes = list(_nvlinks(device))
            nvlinks.append([remotes.count(bus_id) for _, _, bus_id in gpus])
            switch_links.append(remotes.count(None))
        return {
            "uuids": [uuid for _, uuid, _ in gpus],
            "levels": [[_level(one, other) for other, _, _ in gpus] for one, _, _ in gpus],
            "nvlinks": nvlinks,
            "switch_links": switch_links,
        }

    def probe(self, uuid: str) -> Described:
        """Whether a GPU or a MIG device answers, and what the driver says of its health."""
        device = _handle_of(uuid)
        gpu = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device) if uuid.startswith("MIG-") else device
        nvml.nvmlDeviceGetName(gpu)
        _unless_absent(nvml.nvmlDeviceGetMemoryInfo, device)  # a GPU that shares the machine's memory has none
        rows = _unless_absent(nvml.nvmlDeviceGetRemappedRows, gpu)
        return {
            "temperature_c": _unless_absent(_temperature, gpu),
            "ecc_uncorrected": _unless_absent(_ecc_errors, gpu, 1),
            "retired_pages_pending": bool(_unless_absent(nvml.nvmlDeviceGetRetiredPagesPendingStatus, gpu) or 0),
            "row_remap_pending": bool(rows and rows[2]),
            "row_remap_failed": bool(rows and rows[3]),
        }

    def metrics(self, left_out: Collection[tuple[int, int]]) -> list[Described]:
        """Measurements of every GPU that can be read; a GPU that fails in the middle is left out."""
        measured = []
        for index, may_be_asked in gpus_in_turn(left_out, self._push):
            try:
                if may_be_asked:
                    measured.append(_measure(nvml.nvmlDeviceGetHandleByIndex(index)))
            except nvml.NVMLError:
                continue
        return measured


def _bus_id(device: Any) -> str:
    """A GPU's place on the PCI bus, by the newest of the functions that the library has, as NVIDIA's plugin asks."""
    names = ("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
    ask = next((found for name in names if (found := getattr(nvml.nvmlLib, name, None)) is not None), None)
    info = nvml.nvmlPciInfo_t()
    if code := nvml.NVML_ERROR_FUNCTION_NOT_FOUND if ask is None else ask(device, byref(info)):
        raise nvml.NVMLError(code)
    return _text(info.busId or info.busIdLegacy)  # the second one is all that older functions fill


def _handle_of(uuid: str) -> Any:
    """The GPU or MIG device of a UUID; one that tells its place is also found where the driver does not take it."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        placement = placement_in(uuid)
        if placement is None:
            raise
    for _, handle in _mig_handles(nvml.nvmlDeviceGetHandleByUUID(placement.gpu_uuid)):
        instances = nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle)
        if instances == (placement.gpu_instance, placement.compute_instance):
            return handle
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)


def _measure(device: Any) -> Described:
    """The measurements of a GPU that the driver gives us: some take rights that not every plugin has."""
    memory = _unless_failing(nvml.nvmlDeviceGetMemoryInfo, device)
    encoder = _unless_failing(nvml.nvmlDeviceGetEncoderUtilization, device)
    decoder = _unless_failing(nvml.nvmlDeviceGetDecoderUtilization, device)
    rates = _unless_failing(nvml.nvmlDeviceGetUtilizationRates, device)
    return {
        "uuid": _text(nvml.nvmlDeviceGetUUID(device)),
        "memory_bytes": memory and memory.total,
        "memory_used_bytes": memory and memory.used,
        "utilization_percent": rates and rates.gpu,
        "memory_utilization_percent": rates and rates.memory,
        "encoder_percent": encoder and encoder[0],
        "decoder_percent": decoder and decoder[0],
        "temperature_c": _unless_failing(_temperature, device),
        "power_mw": _unless_failing(nvml.nvmlDeviceGetPowerUsage, device),
        "power_limit_mw": _unless_failing(nvml.nvmlDeviceGetEnforcedPowerLimit, device),
        "energy_mj": _unless_failing(nvml.nvmlDeviceGetTotalEnergyConsumption, device),
        "sm_clock_mhz": _unless_failing(nvml.nvmlDeviceGetClockInfo, device, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": _unless_failing(nvml.nvmlDeviceGetClockInfo, device, nvml.NVML_CLOCK_MEM),
        "ecc_corrected": _unless_failing(_ecc_errors, device, 0),
        "ecc_uncorrected": _unless_failing(_ecc_errors, device, 1),
        "processes": _processes(device),
        "mig_memory_used_bytes": {
            _text(nvml.nvmlDeviceGetUUID(each)): nvml.nvmlDeviceGetMemoryInfo(each).used
            for _, each in _mig_handles(device)
        },
    }


def _processes(device: Any) -> list[tuple[int, int | None, int | None]]:
    """The processes that compute: their PID, memory in bytes, and GPU instance."""
    processes = []
    for process in _unless_failing(nvml.nvmlDeviceGetComputeRunningProcesses, device) or ():
        instance = getattr(process, "gpuInstanceId", None)
        processes.append((process.pid, process.usedGpuMemory, None if instance == 0xFFFFFFFF else instance))
    return processes


def _temperature(device: Any) -> int:
    celsius: int = nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
    return celsius


def _ecc_errors(device: Any, kind: int) -> int:
    """Errors since the driver was loaded: corrected (0) or not (1)."""
    count: int = nvml.nvmlDeviceGetTotalEccErrors(device, kind, 0)
    return count


def _fabric(device: Any) -> Described:
    fabric = _FabricInfo()
    nvml.nvmlDeviceGetGpuFabricInfo(device, byref(fabric))
    digits = bytes(fabric.cluster_uuid).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return {
        "cluster_uuid": "-".join(parts),
        "clique": fabric.clique,
        "state": fabric.state,
        "status": fabric.status,
    }


def _mig_handles(device: Any) -> Iterator[tuple[int, Any]]:
    mode = _unless_absent(nvml.nvmlDeviceGetMigMode, device)
    if mode is None or not mode[0]:
        return
    for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        handle = _unless_absent(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, slot)
        if handle is not None:
            yield slot, handle


def _mig_device(slot: int, handle: Any, gpu: Any, gpu_instance_indices: dict[int, int]) -> Described:
    attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
    gpu_instance_id = nvml.nvmlDeviceGetGpuInstanceId(handle)
    compute_instance_id = nvml.nvmlDeviceGetComputeInstanceId(handle)
    gpu_instance = nvml.nvmlDeviceGetGpuInstanceById(gpu, gpu_instance_id)
    compute_instance = nvml.nvmlGpuInstanceGetComputeInstanceById(gpu_instance, compute_instance_id)
    compute_profile = nvml.nvmlComputeInstanceGetInfo_v2(compute_instance).profileId
    return {
        "slot": slot,
        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
        "gpu_instance": gpu_instance_id,
        "compute_instance": compute_instance_id,
        "gpu_instance_profile": gpu_instance_indices.get(nvml.nvmlGpuInstanceGetInfo(gpu_instance).profileId),
        "compute_instance_profile": _compute_instance_index(gpu_instance, compute_profile),
        "memory_mib": attributes.memorySizeMB,
        "multiprocessors": attributes.multiprocessorCount,
        "gpu_slices": attributes.gpuInstanceSliceCount,
        "compute_slices": attributes.computeInstanceSliceCount,
        "copy_engines": attributes.sharedCopyEngineCount,
        "decoders": attributes.sharedDecoderCount,
        "encoders": attributes.sharedEncoderCount,
        "jpeg_engines": attributes.sharedJpegCount,
        "ofa_engines": attributes.sharedOfaCount,
    }


def _gpu_instance_profiles(device: Any) -> Iterator[tuple[int, Any]]:
    for index in range(GPU_INSTANCE_PROFILES):
        profile = _unless_absent(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, index, 1)
        if profile is not None:
            yield index, profile


def _compute_instance_index(gpu_instance: Any, profile_id: int) -> int | None:
    for index in range(COMPUTE_INSTANCE_PROFILES):
        profile = _unless_absent(nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, gpu_instance, index, 0, 1)
        if profile is not None and profile.id == profile_id:
            return index
    return None


def _level(one: Any, other: Any) -> int | None:
    if one is other:
        return None
    level: int | None = _unless_failing(nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return level


def _nvlinks(device: Any) -> Iterator[str | None]:
    """The bus ID at the other end of each active NVLink; None for an NVSwitch."""
    for link in range(NVLINKS):
        if not _unless_failing(nvml.nvmlDeviceGetNvLinkState, device, link):
            continue
        kind = _unless_failing(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, device, link)
        remote = _unless_failing(nvml.nvmlDeviceGetNvLinkRemotePciInfo, device, link)
        if kind == _SWITCH:
            yield None
        elif remote is not None:
            yield _text(remote.busId)


def _unless_absent(ask: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None when the GPU or the driver has no such thing."""
    try:
        return ask(*arguments)
    except nvml.NVMLError as error:
        if error.value in _NOT_THERE or error.value == nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            return None
        raise


def _unless_failing(ask: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None for any error but that the driver was loaded anew: one answer must not cost the others."""
    try:
        return ask(*arguments)
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_UNINITIALIZED:
            raise
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
