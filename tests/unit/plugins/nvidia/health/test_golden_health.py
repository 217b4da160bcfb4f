"""The devices that NVIDIA's plugin marks unhealthy, event for event. Its defects are left out: see the rows of
docs/differences.md about XIDs of replicas and MIG devices, and about disabling all XIDs but some."""

from __future__ import annotations

import pytest

from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice
from plugbay.plugins.nvidia.health.book import HealthBook
from plugbay.plugins.nvidia.health.recovery import RecoveryPolicy
from plugbay.plugins.nvidia.health.xids import xid_policy
from plugbay.plugins.nvidia.nvml.values import GpuEvent
from tests.unit.plugins.nvidia.golden_machines import Case, golden

CASES: list[Case] = [case for case in golden("health")["cases"] if "defect" not in case["name"]]
UUIDS = [f"GPU-{digits}" for digits in ("0" * 8 + "-0000" * 3 + "-" + "0" * 12, "1" * 8 + "-1111" * 3 + "-" + "1" * 12)]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_event_makes_the_same_devices_unhealthy(case: Case) -> None:
    policy, _ = xid_policy(case["env"])
    book = HealthBook(policy, RecoveryPolicy())
    devices = [NvidiaDevice(uuid, str(index), DeviceKind.GPU, uuid) for index, uuid in enumerate(UUIDS)]
    for event, unhealthy in case["events"]:
        hit = book.take(GpuEvent(UUIDS[event["gpu"]], event["type"], event["xid"]), devices, 0.0)
        assert bool(hit) is (unhealthy is not None)
        if unhealthy is not None:
            assert [device.id for device in devices if not book.health_of(device).is_healthy] == unhealthy


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_events_are_asked_for_in_the_same_cases(case: Case) -> None:
    policy, _ = xid_policy(case["env"])
    assert policy.ignores_everything is (case.get("nvml_event_registration") is False)
