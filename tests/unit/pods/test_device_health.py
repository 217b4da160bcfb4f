"""Health of devices in the pod's status, and what becomes of a pod whose device fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.manager.serving.snapshot import DevicesHealth
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId
from plugbay.model.requests import ContainerKind
from plugbay.pods.devices import DeviceFailure
from plugbay.pods.record import PodRecord, Terminated
from plugbay.pods.status import PodPhase, pod_status
from plugbay.testing.fake_node import GOPHER, FakeNode
from plugbay.testing.pod_values import container, is_in, pod, state_of

BAD = HealthState.UNHEALTHY
MESSAGE = f"device g1 of resource {GOPHER}, held by container c, is unhealthy"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def health(container: str = "c", **devices: HealthState) -> DevicesHealth:
    return {ContainerName(container): {GOPHER: {DeviceId(id): state for id, state in devices.items()}}}


def shown(record: PodRecord) -> list[Any]:
    statuses: Any = pod_status(record, runtime="fake")["containerStatuses"]
    return [status.get("allocatedResourcesStatus") for status in statuses]


async def test_a_change_of_health_shows_in_the_status_and_in_the_watch(node: FakeNode) -> None:
    async with node.engine() as engine:
        uid = (await engine.create(pod(container("c"), container("d")))).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, health(g1=BAD, g2=HealthState.HEALTHY))
        record = await node.until(lambda record: record.health)
        assert shown(record) == [
            [
                {
                    "name": GOPHER,
                    "resources": [
                        {"resourceID": "g1", "health": "Unhealthy"},
                        {"resourceID": "g2", "health": "Healthy"},
                    ],
                }
            ],
            None,
        ]
        node.devices.set_health(uid, health(g1=HealthState.HEALTHY))
        record = await node.until(lambda record: shown(record)[0][0]["resources"][0]["health"] == "Healthy")
        assert record.stage is record.stage.ACTIVE


async def test_a_notice_without_a_change_is_no_change(node: FakeNode) -> None:
    async with node.engine() as engine:
        uid = (await engine.create(pod())).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, health(g1=BAD))
        await node.until(lambda record: record.health)
        version = node.pods.version
        node.devices.set_health(uid, health(g1=BAD))
        other = (await engine.create(pod(name="q"))).uid
        await node.until(is_in(PodPhase.RUNNING), "q")
        assert (node.pods[uid].version, node.pods[other].version > version) == (version, True)


async def test_only_app_containers_tell(node: FakeNode) -> None:
    async with node.engine() as engine:
        uid = (await engine.create(pod(container("s", ContainerKind.SIDECAR), container("c")))).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, {**health("s", g1=BAD), **health("c", g2=BAD)})
        status: Any = pod_status(await node.until(lambda record: record.health), runtime="fake")
        assert "allocatedResourcesStatus" not in status["initContainerStatuses"][0]
        assert "allocatedResourcesStatus" in status["containerStatuses"][0]


async def test_a_device_that_fails_leaves_the_pod_running(node: FakeNode) -> None:
    async with node.engine() as engine:
        uid = (await engine.create(pod())).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, health(g1=BAD))
        await node.until(lambda record: record.health)
        assert node.runtime.stopped == []
        assert "DeviceFailed" not in node.reasons()


async def test_a_device_that_fails_fails_the_pod_where_the_node_wants_it(node: FakeNode) -> None:
    node.on_device_failure = DeviceFailure.FAIL_POD
    async with node.engine() as engine:
        uid = (await engine.create(pod(container("s", ContainerKind.SIDECAR), container("c"), container("d")))).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, health(g1=BAD))
        record = await node.until(is_in(PodPhase.FAILED))
        status = pod_status(record, runtime="fake")
        assert (status["reason"], status["message"]) == ("DeviceFailed", MESSAGE)
        assert [name for name, _ in node.runtime.stopped] == ["c", "d", "s"]
        assert isinstance(state_of(record), Terminated)
        assert node.devices.held == {}
        assert shown(record) == [None, None]
        (event,) = [event for event in node.events if event.reason == "DeviceFailed"]
        assert (event.type.value, event.message, event.about.name) == ("Warning", MESSAGE, "p")


async def test_a_device_that_failed_while_no_node_was_there_fails_the_pod(node: FakeNode) -> None:
    node.on_device_failure = DeviceFailure.FAIL_POD
    async with node.engine() as engine:
        uid = (await engine.create(pod())).uid
        await node.until(is_in(PodPhase.RUNNING))
    node.devices.health[uid] = health(g1=BAD)
    async with node.engine():
        await node.until(is_in(PodPhase.FAILED))
        assert node.runtime.started == ["c"]


async def test_a_pod_that_was_failing_fails_after_a_restart_too(node: FakeNode) -> None:
    node.on_device_failure = DeviceFailure.FAIL_POD
    node.runtime.deaf = {"c"}
    async with node.engine() as engine:
        uid = (await engine.create(pod())).uid
        await node.until(is_in(PodPhase.RUNNING))
        node.devices.set_health(uid, health(g1=BAD))
        await node.when(lambda: bool(node.runtime.stopped))
    node.runtime.finish("p_c_0", 0)
    node.devices.health.clear()
    async with node.engine():
        record = await node.until(is_in(PodPhase.FAILED))
        assert record.failure is not None
        assert node.runtime.started == ["c"]
