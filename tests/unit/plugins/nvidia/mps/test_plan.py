"""The MPS daemons of a node; scenario 116 of spec section 10."""

from __future__ import annotations

import pytest

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.devices.devices import DeviceKind, DeviceMap, NvidiaDevice, device_map
from plugbay.plugins.nvidia.mps.plan import MpsGpu, MpsPlan, most_clients, mps_plans

GPU = ResourceName("nvidia.com/gpu")


def devices(*replicas: int, capability: tuple[int, int] = (8, 0), memory: int = 40 << 30) -> DeviceMap:
    return device_map(
        (
            GPU,
            NvidiaDevice(
                f"GPU-{index}",
                str(index),
                DeviceKind.GPU,
                f"GPU-{index}",
                memory_bytes=memory,
                compute_capability=capability,
                replicas=count,
            ),
        )
        for index, count in enumerate(replicas)
    )


@pytest.mark.parametrize(
    ("capability", "most"), [((7, 5), 48), ((7, 0), 48), ((6, 1), 16), ((8, 0), 48), ((9, 0), 48), ((10, 0), 48)]
)
def test_scenario_116_clients_by_compute_capability(capability: tuple[int, int], most: int) -> None:
    """Scenario 116, without the defect of row 20 in section 13: the reference gives Volta 16 clients."""
    assert most_clients(capability) == most


@pytest.mark.parametrize(("replicas", "capability"), [(16, (6, 1)), (48, (7, 0)), (48, (7, 5)), (48, (9, 0))])
def test_scenario_116_as_many_replicas_as_clients(replicas: int, capability: tuple[int, int]) -> None:
    [plan] = mps_plans(devices(replicas, capability=capability))
    assert plan.thread_percentage == 100 // replicas


@pytest.mark.parametrize(("replicas", "capability", "most"), [(29, (6, 1), 16), (49, (7, 0), 48), (49, (9, 0), 48)])
def test_scenario_116_more_replicas_than_clients(replicas: int, capability: tuple[int, int], most: int) -> None:
    with pytest.raises(GpusUnusable) as caught:
        mps_plans(devices(replicas, capability=capability))
    assert caught.value.reference_text == (
        f"invalid MPS configuration: invalid device maximum allowed replicas exceeded: {replicas} > {most}"
    )


def test_a_daemon_is_told_the_parts_of_memory_and_threads() -> None:
    [plan] = mps_plans(devices(4, 4))
    assert plan == MpsPlan(GPU, (MpsGpu("GPU-0", "0", 10240), MpsGpu("GPU-1", "1", 10240)), 25)
    assert list(plan.commands()) == [
        "set_default_device_pinned_mem_limit 0 10240M",
        "set_default_device_pinned_mem_limit 1 10240M",
        "set_default_active_thread_percentage 25",
    ]


def test_memory_that_is_not_known_is_not_limited() -> None:
    [plan] = mps_plans(devices(3, memory=0))
    assert list(plan.commands()) == ["set_default_active_thread_percentage 33"]


def test_devices_that_are_not_shared_have_no_daemon() -> None:
    assert mps_plans(devices(1, 1)) == ()
    [plan] = mps_plans(devices(1, 2, 10))
    assert [gpu.uuid for gpu in plan.gpus] == ["GPU-1", "GPU-2"]
    assert plan.thread_percentage == 10
