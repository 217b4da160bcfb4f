"""The metrics of a node's GPUs. Pure.

Source: dcgm-exporter 4.4 ``etc/default-counters.csv``, ``internal/pkg/rendermetrics``, ``internal/pkg/transformation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from plugbay.model.health import HEALTHY, Health
from plugbay.ops.metrics import Histogram, Metric, MetricKind
from plugbay.plugins.nvidia.devices.devices import DeviceMap, NvidiaDevice, all_devices
from plugbay.plugins.nvidia.monitoring.holders import Holder
from plugbay.plugins.nvidia.nvml.values import GpuMetrics
from plugbay.plugins.nvidia.survey import Gpu, MigDevice, Survey
from plugbay.values import dataclass

Labels: TypeAlias = Mapping[str, str]
_Samples: TypeAlias = Iterator[tuple[Labels, float | Histogram]]
_MIB: Final = 1 << 20
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The GPUs of a node at one moment.

    Attributes:
        survey: None when the driver has never described them.
        trouble: why the driver cannot be asked now, in one word; empty when it can.
        resources: the devices that are offered.
        measured: by the UUID of the GPU; GPUs that cannot be measured are left out.
        health: by the devices' own IDs; healthy where it says nothing.
        holders: by the devices' own IDs.
        xid_counts: how often an XID came, by the UUID of its GPU and its number.
        last_xids: by the UUID of the GPU.
        hostname: of the node.
    """

    survey: Survey | None
    trouble: str = ""
    resources: DeviceMap = field(default_factory=dict)
    measured: Mapping[str, GpuMetrics] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)
    holders: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    xid_counts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    last_xids: Mapping[str, int] = field(default_factory=dict)
    hostname: str = ""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return () if self.survey is None else self.survey.gpus

    def labels(self, gpu: Gpu) -> dict[str, str]:
        """The labels of a GPU."""
        assert self.survey is not None
        return {
            "gpu": str(gpu.index),
            "UUID": gpu.uuid,
            "pci_bus_id": _long_bus_id(gpu.pci_bus_id),
            "device": f"nvidia{gpu.minor}",
            "modelName": gpu.name,
            "Hostname": self.hostname,
            "DCGM_FI_DRIVER_VERSION": self.survey.driver_version,
        }

    def held(self, device: str, labels: Labels) -> Iterator[Labels]:
        """The labels of a device, once with each of its holders; once without any if nothing holds it."""
        holders = self.holders.get(device, ())
        for holder in holders:
            replica = {"vgpu": holder.replica} if holder.replica else {}
            yield {
                **labels,
                "namespace": holder.namespace,
                "pod": holder.pod,
                "container": holder.container,
                **replica,
            }
        if not holders:
            yield labels


_GAUGE: Final = MetricKind.GAUGE
_COUNTER: Final = MetricKind.COUNTER
_Value: TypeAlias = Callable[[GpuMetrics], float | None]
_OF_GPU: Final[tuple[tuple[str, MetricKind, str, _Value], ...]] = (
    ("DCGM_FI_DEV_SM_CLOCK", _GAUGE, "SM clock frequency (in MHz).", lambda of: of.sm_clock_mhz),
    ("DCGM_FI_DEV_MEM_CLOCK", _GAUGE, "Memory clock frequency (in MHz).", lambda of: of.memory_clock_mhz),
    ("DCGM_FI_DEV_GPU_TEMP", _GAUGE, "GPU temperature (in C).", lambda of: of.temperature_c),
    ("DCGM_FI_DEV_POWER_USAGE", _GAUGE, "Power draw (in W).", lambda of: _thousandth(of.power_mw)),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", _GAUGE, "Power limit (in W).", lambda of: _thousandth(of.power_limit_mw)),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        _COUNTER,
        "Energy consumed since the driver was loaded (in mJ).",
        lambda of: of.energy_mj,
    ),
    ("DCGM_FI_DEV_GPU_UTIL", _GAUGE, "GPU utilization (in %).", lambda of: of.utilization_percent),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", _GAUGE, "Memory utilization (in %).", lambda of: of.memory_utilization_percent),
    ("DCGM_FI_DEV_ENC_UTIL", _GAUGE, "Encoder utilization (in %).", lambda of: of.encoder_percent),
    ("DCGM_FI_DEV_DEC_UTIL", _GAUGE, "Decoder utilization (in %).", lambda of: of.decoder_percent),
    (
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        _COUNTER,
        "Corrected ECC errors since the driver was loaded.",
        lambda of: of.ecc_corrected,
    ),
    (
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        _COUNTER,
        "Uncorrected ECC errors since the driver was loaded.",
        lambda of: of.ecc_uncorrected,
    ),
)


def gpu_metrics(reading: GpuReading) -> list[Metric]:
    """All metrics of the GPUs. A value that a GPU does not have is left out."""
    return [
        *(Metric(name, kind, text, _of_gpus(reading, value)) for name, kind, text, value in _OF_GPU),
        Metric("DCGM_FI_DEV_FB_USED", _GAUGE, "Framebuffer memory used (in MiB).", _memory(reading, _used)),
        Metric("DCGM_FI_DEV_FB_FREE", _GAUGE, "Framebuffer memory free (in MiB).", _memory(reading, _free)),
        Metric("DCGM_FI_DEV_XID_ERRORS", _GAUGE, "Value of the last XID error encountered.", _last_xids(reading)),
        Metric(
            "plugbay_nvidia_xids_total",
            _COUNTER,
            "XID errors since the plugin started, by their number; those that leave the GPU healthy too.",
            _xids(reading),
        ),
        Metric(
            "plugbay_nvidia_device_healthy",
            _GAUGE,
            "1 for a device that is given to containers, 0 for one that is not, with the reason.",
            _health(reading),
        ),
        Metric(
            "plugbay_nvidia_driver_up",
            _GAUGE,
            "1 while the driver answers, 0 while it does not, with the reason.",
            (({"Hostname": reading.hostname, "reason": reading.trouble}, not reading.trouble),),
        ),
    ]


def _of_gpus(reading: GpuReading, value: _Value) -> _Samples:
    for gpu in reading.gpus:
        measured = reading.measured.get(gpu.uuid)
        number = None if measured is None else value(measured)
        if number is not None:
            for labels in reading.held(gpu.uuid, reading.labels(gpu)):
                yield labels, number


def _memory(reading: GpuReading, value: Callable[[int, int], int]) -> _Samples:
    """The memory of GPUs; of one with MIG devices, that of each of them."""
    for gpu in reading.gpus:
        if (measured := reading.measured.get(gpu.uuid)) is None:
            continue
        if not (gpu.is_mig_enabled and gpu.mig_devices):
            for labels in reading.held(gpu.uuid, reading.labels(gpu)):
                if measured.memory_bytes is not None and measured.memory_used_bytes is not None:
                    yield labels, value(measured.memory_bytes, measured.memory_used_bytes)
            continue
        for mig in gpu.mig_devices:
            if (used := measured.mig_memory_used_bytes.get(mig.uuid)) is not None:
                for labels in reading.held(mig.uuid, {**reading.labels(gpu), **_instance(mig)}):
                    yield labels, value(mig.memory_bytes, used)


def _used(_: int, used_bytes: int) -> int:
    return used_bytes // _MIB


def _free(total_bytes: int, used_bytes: int) -> int:
    return max(0, total_bytes - used_bytes) // _MIB


def _last_xids(reading: GpuReading) -> _Samples:
    for gpu in reading.gpus:
        for labels in reading.held(gpu.uuid, reading.labels(gpu)):
            yield labels, reading.last_xids.get(gpu.uuid, 0)


def _xids(reading: GpuReading) -> _Samples:
    """The counts, without holders: an XID may be older than the pod that has the GPU now."""
    by_uuid: dict[str, dict[str, str]] = {gpu.uuid: reading.labels(gpu) for gpu in reading.gpus}
    for (uuid, xid), count in sorted(reading.xid_counts.items()):
        yield {**by_uuid.get(uuid, {"UUID": uuid, "Hostname": reading.hostname}), "xid": str(xid)}, count


def _health(reading: GpuReading) -> _Samples:
    for resource, device in all_devices(reading.resources):
        health = reading.health.get(device.id, HEALTHY)
        labels = {
            **_device_labels(reading, device),
            "resource_name": str(resource),
            "reason": "" if health.is_healthy else health.reason,
        }
        for held in reading.held(device.id, labels):
            yield held, health.is_healthy


def _device_labels(reading: GpuReading, device: NvidiaDevice) -> dict[str, str]:
    """The labels of a device; of a lost GPU, the driver tells less."""
    gpu = next((gpu for gpu in reading.gpus if gpu.uuid == device.gpu_uuid), None)
    if gpu is None:
        return {"gpu": device.index, "UUID": device.gpu_uuid or device.id, "Hostname": reading.hostname}
    mig = next((mig for mig in gpu.mig_devices if mig.uuid == device.id), None)
    return {**reading.labels(gpu), **({} if mig is None else _instance(mig))}


def _instance(mig: MigDevice) -> dict[str, str]:
    return {"GPU_I_PROFILE": str(mig.profile or ""), "GPU_I_ID": str(mig.gpu_instance)}


def _long_bus_id(bus_id: str) -> str:
    """A bus ID as NVML writes it: ``0000:3b:00.0`` becomes ``00000000:3B:00.0``."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain:0>8}:{rest}".upper()


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / _MILLI
