"""Metrics of GPUs, as text, from values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from plugbay.model.health import unhealthy
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import ContainerDevices, ContainerResources, PodResources
from plugbay.ops.metrics import exposition
from plugbay.plugins.nvidia.devices.devices import DeviceKind, DeviceMap, NvidiaDevice, device_map
from plugbay.plugins.nvidia.monitoring import GpuReading, Holder, gpu_metrics, holders_of
from plugbay.plugins.nvidia.nvml.values import GpuMetrics
from plugbay.plugins.nvidia.survey import Survey
from tests.unit.plugins.nvidia.golden_machines import machine

GPU = ResourceName("nvidia.com/gpu")
NUMBERS = GpuMetrics("", 80 << 30, 3 << 30, 51, 20, 1, 2, 44, 251_500, 400_000, 9_000, 1410, 1215, 5, 0, (), {})


def devices_of(survey: Survey, *, replicas: int = 1) -> DeviceMap:
    return device_map(
        (GPU, NvidiaDevice(gpu.uuid, str(gpu.index), DeviceKind.GPU, gpu.uuid, replicas=replicas))
        for gpu in survey.gpus
    )


def pod(name: str, *devices: str, resource: str = GPU, namespace: str = "team") -> PodResources:
    held = tuple(ContainerDevices(ResourceName(resource), (DeviceId(each),)) for each in devices)
    return PodResources(namespace, name, (ContainerResources(ContainerName("main"), held),))


def samples(reading: GpuReading, name: str) -> list[tuple[Mapping[str, str], float]]:
    text = "".join(exposition(gpu_metrics(reading)))
    families = text_string_to_metric_families(text)
    return [(each.labels, each.value) for family in families for each in family.samples if each.name == name]


def read(survey: Survey) -> GpuReading:
    by_uuid: dict[str, GpuMetrics] = {gpu.uuid: replace(NUMBERS, uuid=gpu.uuid) for gpu in survey.gpus}
    return GpuReading(survey, "", devices_of(survey), by_uuid, hostname="node-1")


def test_a_gpu_has_the_names_and_labels_of_dcgm_exporter() -> None:
    reading = read(machine("two-a100"))
    [(labels, value), _] = samples(reading, "DCGM_FI_DEV_GPU_UTIL")
    assert value == 51
    assert labels == {
        "gpu": "0",
        "UUID": reading.gpus[0].uuid,
        "pci_bus_id": "00000000:3B:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "Hostname": "node-1",
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
    }
    values = {
        "DCGM_FI_DEV_POWER_USAGE": 251.5,
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 400,
        "DCGM_FI_DEV_FB_USED": 3 << 10,
        "DCGM_FI_DEV_FB_FREE": 77 << 10,
        "DCGM_FI_DEV_GPU_TEMP": 44,
        "DCGM_FI_DEV_SM_CLOCK": 1410,
        "DCGM_FI_DEV_XID_ERRORS": 0,
        "plugbay_nvidia_driver_up": 1,
    }
    assert {name: samples(reading, name)[0][1] for name in values} == values
    # The parser gives counters of such names another one.
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in "".join(exposition(gpu_metrics(reading)))


def test_values_that_a_gpu_does_not_have_are_left_out() -> None:
    survey = machine("two-a100")
    first = survey.gpus[0].uuid
    reading = replace(read(survey), measured={first: replace(NUMBERS, utilization_percent=None, power_mw=None)})
    assert samples(reading, "DCGM_FI_DEV_GPU_UTIL") == samples(reading, "DCGM_FI_DEV_POWER_USAGE") == []
    assert [labels["UUID"] for labels, _ in samples(reading, "DCGM_FI_DEV_GPU_TEMP")] == [first]


def test_a_gpu_carries_its_pod_and_a_shared_one_all_of_them() -> None:
    survey = machine("two-a100")
    first, second = (gpu.uuid for gpu in survey.gpus)
    devices = devices_of(survey, replicas=3)
    pods = [pod("a", f"{first}::0"), pod("b", f"{first}::2"), pod("c", f"{first}::9", "GPU-x"), pod("d", first)]
    holders = holders_of([*pods, pod("e", f"{second}::0", resource="example.com/gpu")], devices)
    assert holders == {first: (Holder("team", "a", "main", "0"), Holder("team", "b", "main", "2"))}
    found = samples(replace(read(survey), holders=holders), "DCGM_FI_DEV_FB_USED")
    assert [(labels["UUID"], labels.get("pod"), labels.get("vgpu")) for labels, _ in found] == [
        (first, "a", "0"),
        (first, "b", "2"),
        (second, None, None),
    ]
    assert found[0][0]["namespace"] == "team"
    assert found[0][0]["container"] == "main"


def test_memory_of_a_gpu_with_mig_devices_is_that_of_each() -> None:
    survey = machine("mig-3x1g-and-full-gpu", of="gfd-labels")
    gpu = survey.gpus[0]
    used: dict[str, int] = {mig.uuid: 1 << 30 for mig in gpu.mig_devices}
    by_uuid: dict[str, GpuMetrics] = {each.uuid: replace(NUMBERS, mig_memory_used_bytes=used) for each in survey.gpus}
    mig = gpu.mig_devices[1]
    reading = replace(read(survey), measured=by_uuid, holders={mig.uuid: (Holder("n", "p", "c"),)})
    found = samples(reading, "DCGM_FI_DEV_FB_USED")
    assert [labels.get("GPU_I_PROFILE") for labels, _ in found] == ["1g.5gb", "1g.5gb", "1g.5gb", None]
    assert [labels.get("pod") for labels, _ in found] == [None, "p", None, None]
    assert found[1][0]["GPU_I_ID"] == str(mig.gpu_instance)
    assert samples(reading, "DCGM_FI_DEV_FB_FREE")[1][1] == mig.attributes.memory_mib - 1024


def test_xids_count_without_pods_and_the_last_one_shows_with_them() -> None:
    survey = machine("two-a100")
    first = survey.gpus[0].uuid
    reading = replace(
        read(survey),
        xid_counts={(first, 79): 1, (first, 13): 4, ("GPU-gone", 48): 2},
        last_xids={first: 79},
        holders={first: (Holder("n", "p", "c"),)},
    )
    counts = samples(reading, "plugbay_nvidia_xids_total")
    assert [(labels["UUID"], labels["xid"], value) for labels, value in counts] == [
        (first, "13", 4),
        (first, "79", 1),
        ("GPU-gone", "48", 2),
    ]
    assert not any("pod" in labels for labels, _ in counts)
    last = samples(reading, "DCGM_FI_DEV_XID_ERRORS")
    assert [(labels.get("pod"), value) for labels, value in last] == [("p", 79), (None, 0)]


def test_health_names_its_reason_also_of_a_lost_gpu() -> None:
    survey = machine("two-a100")
    first, second = (gpu.uuid for gpu in survey.gpus)
    devices = devices_of(survey)
    left = replace(survey, gpus=survey.gpus[1:])
    reading = GpuReading(left, resources=devices, health={first: unhealthy("GpuLost", "it is lost")}, hostname="h")
    found = samples(reading, "plugbay_nvidia_device_healthy")
    assert [(labels["UUID"], labels["reason"], value) for labels, value in found] == [
        (first, "GpuLost", 0),
        (second, "", 1),
    ]
    assert found[0][0]["resource_name"] == GPU


def test_without_a_driver_its_trouble_is_all_there_is() -> None:
    reading = GpuReading(None, "LibraryMissing", hostname="h")
    assert samples(reading, "plugbay_nvidia_driver_up") == [({"Hostname": "h", "reason": "LibraryMissing"}, 0)]
    assert samples(reading, "DCGM_FI_DEV_GPU_TEMP") == []
