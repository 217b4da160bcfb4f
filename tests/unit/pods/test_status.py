from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.model.qos import QosClass, qos_class
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import TRANSITIONS, PodStage, PodStep, advance
from plugbay.pods.record import (
    ContainerRecord,
    Failure,
    PodRecord,
    Rejection,
    Running,
    State,
    Terminated,
    Waiting,
    new_record,
)
from plugbay.pods.status import PodPhase, phase, pod_status, timestamp
from plugbay.runtimes.port import ContainerId

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(minutes=1)
APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR

WAITS = Waiting("ContainerCreating")
RUNS = Running(ContainerId("c_0"), T0)
DONE = Terminated(ContainerId("c_0"), 0, "Completed", T0 + timedelta(seconds=5), T0)
FAILED = Terminated(ContainerId("c_0"), 1, "Error", T0 + timedelta(seconds=5), T0, image_id="i@1")


def record(stage: PodStage, *containers: tuple[ContainerKind, State], **changes: Any) -> PodRecord:
    made = [Container(ContainerName(f"c{i}"), image="i", kind=kind) for i, (kind, _) in enumerate(containers)]
    apps = tuple(each for each in made if each.kind is APP)
    inits = tuple(each for each in made if each.kind is not APP)
    pod = Pod("p", PodSpec(containers=apps, init_containers=inits), uid=PodUid("u"))
    base = new_record(pod, created_at=T0)
    for each, (kind, state) in zip(made, containers, strict=True):
        attempt = -1 if isinstance(state, Waiting) else 0
        base = base.with_container(each.name, ContainerRecord(kind, state, attempt=attempt))
    return replace(base, stage=stage, bound_at=T0, started_at=T0, **changes)


LATE = Failure("DeadlineExceeded", "too long")
REJECTED = Rejection("UnexpectedAdmissionError", "no")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(record(PodStage.UNSCHEDULED, (APP, WAITS)), PodPhase.PENDING, id="no place yet"),
        pytest.param(record(PodStage.BOUND, (APP, WAITS)), PodPhase.PENDING, id="being admitted"),
        pytest.param(record(PodStage.ACTIVE, (APP, WAITS)), PodPhase.PENDING, id="starting"),
        pytest.param(record(PodStage.ACTIVE, (APP, RUNS), (APP, WAITS)), PodPhase.PENDING, id="one still starting"),
        pytest.param(record(PodStage.ACTIVE, (APP, RUNS)), PodPhase.RUNNING, id="running"),
        pytest.param(record(PodStage.ACTIVE, (INIT, RUNS), (APP, WAITS)), PodPhase.PENDING, id="initialising"),
        pytest.param(record(PodStage.ACTIVE, (INIT, DONE), (APP, RUNS)), PodPhase.RUNNING, id="initialised"),
        pytest.param(record(PodStage.ACTIVE, (SIDECAR, RUNS), (APP, RUNS)), PodPhase.RUNNING, id="with sidecar"),
        pytest.param(record(PodStage.ACTIVE, (APP, DONE)), PodPhase.RUNNING, id="done but devices not yet free"),
        pytest.param(record(PodStage.ACTIVE, (APP, FAILED)), PodPhase.RUNNING, id="about to be restarted"),
        pytest.param(record(PodStage.ENDED, (APP, DONE)), PodPhase.SUCCEEDED, id="succeeded"),
        pytest.param(record(PodStage.ENDED, (APP, DONE), (APP, FAILED)), PodPhase.FAILED, id="one failed"),
        pytest.param(record(PodStage.ENDED, (INIT, FAILED), (APP, WAITS)), PodPhase.FAILED, id="init failed"),
        pytest.param(
            record(PodStage.ENDED, (SIDECAR, FAILED), (APP, DONE)), PodPhase.SUCCEEDED, id="sidecars do not count"
        ),
        pytest.param(record(PodStage.ENDED, (APP, WAITS), rejection=REJECTED), PodPhase.FAILED, id="rejected"),
        pytest.param(
            record(PodStage.ACTIVE, (APP, RUNS), rejection=REJECTED), PodPhase.RUNNING, id="rejected at restart"
        ),
        pytest.param(
            record(PodStage.ENDED, (APP, DONE), rejection=REJECTED), PodPhase.SUCCEEDED, id="stopped well then"
        ),
        pytest.param(record(PodStage.ENDED, (APP, FAILED), rejection=REJECTED), PodPhase.FAILED, id="not so well"),
        pytest.param(record(PodStage.TERMINATING, (APP, RUNS)), PodPhase.RUNNING, id="being stopped"),
        pytest.param(
            record(PodStage.TERMINATING, (APP, FAILED)), PodPhase.RUNNING, id="deleted while it is started again"
        ),
        pytest.param(record(PodStage.TERMINATING, (APP, DONE), has_stopped=True), PodPhase.SUCCEEDED, id="stopped"),
        pytest.param(
            record(PodStage.TERMINATING, (APP, WAITS), failure=LATE, has_stopped=True), PodPhase.FAILED, id="late"
        ),
        pytest.param(record(PodStage.TERMINATING, (APP, WAITS)), PodPhase.PENDING, id="deleted before it began"),
    ],
)
def test_phase(pod: PodRecord, expected: PodPhase) -> None:
    assert phase(pod) is expected


def conditions(pod: PodRecord) -> dict[str, tuple[str, str]]:
    found: Any = pod_status(pod, runtime="process")["conditions"]
    return {each["type"]: (each["status"], each.get("reason", "")) for each in found}


def test_an_unscheduled_pod_has_one_condition() -> None:
    waiting = replace(record(PodStage.UNSCHEDULED, (APP, WAITS)), bound_at=None, unschedulable="words")
    assert conditions(waiting) == {"PodScheduled": ("False", "Unschedulable")}


def test_conditions_of_a_starting_pod() -> None:
    assert conditions(record(PodStage.ACTIVE, (INIT, RUNS), (APP, WAITS), sandbox_since=T0)) == {
        "PodReadyToStartContainers": ("True", ""),
        "Initialized": ("False", "ContainersNotInitialized"),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
        "PodScheduled": ("True", ""),
    }


@pytest.mark.parametrize(
    ("pod", "status", "since"),
    [
        pytest.param(record(PodStage.ACTIVE, (APP, WAITS)), "False", T0, id="being made"),
        pytest.param(record(PodStage.ACTIVE, (APP, WAITS), sandbox_since=LATER), "True", LATER, id="made"),
        pytest.param(record(PodStage.TERMINATING, (APP, RUNS), sandbox_since=LATER), "True", LATER, id="stopping"),
        pytest.param(record(PodStage.ENDED, (APP, DONE), sandbox_since=T0), "False", DONE.finished_at, id="over"),
        pytest.param(record(PodStage.ENDED, (APP, FAILED)), "False", T0, id="never made"),
    ],
)
def test_pod_is_ready_to_start_containers_while_it_has_a_sandbox(pod: PodRecord, status: str, since: datetime) -> None:
    shown: Any = pod_status(pod, runtime="process")["conditions"]
    assert shown[0] == {"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": timestamp(since)}


def test_conditions_of_a_succeeded_pod() -> None:
    assert conditions(record(PodStage.ENDED, (APP, DONE)))["Ready"] == ("False", "PodCompleted")


def test_conditions_of_a_failed_pod() -> None:
    found = conditions(record(PodStage.ENDED, (APP, FAILED)))
    assert (found["Ready"], found["ContainersReady"]) == (("False", "PodFailed"), ("False", "PodFailed"))


def test_a_running_pod_is_ready_since_its_last_start() -> None:
    later = Running(ContainerId("c_1"), T0 + timedelta(minutes=1))
    status: Any = pod_status(record(PodStage.ACTIVE, (APP, RUNS), (APP, later)), runtime="process")
    (ready,) = [each for each in status["conditions"] if each["type"] == "Ready"]
    assert ready == {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}


def test_a_rejected_pod_that_ended_well_does_not_tell_why() -> None:
    """Spec 4.7: only the event does."""
    status = pod_status(record(PodStage.ENDED, (APP, DONE), rejection=REJECTED), runtime="process")
    assert status["phase"] == "Succeeded"
    assert not status.keys() & {"reason", "message"}


def test_a_rejected_pod_has_no_container_statuses() -> None:
    status = pod_status(record(PodStage.ENDED, (APP, WAITS), rejection=REJECTED), runtime="process")
    assert status["message"] == "Pod was rejected: no"
    assert "containerStatuses" not in status


def test_a_container_that_waits_shows_how_it_ended() -> None:
    crashed = ContainerRecord(APP, FAILED, attempt=1).waiting("CrashLoopBackOff", "back-off 10s")
    pod = record(PodStage.ACTIVE, (APP, RUNS)).with_container(ContainerName("c0"), crashed)
    status: Any = pod_status(pod, runtime="process")
    assert status["containerStatuses"] == [
        {
            "name": "c0",
            "image": "i",
            "imageID": "i@1",
            "ready": False,
            "started": False,
            "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {
                "terminated": {
                    "exitCode": 1,
                    "reason": "Error",
                    "startedAt": "2026-01-01T00:00:00Z",
                    "finishedAt": "2026-01-01T00:00:05Z",
                    "containerID": "process://c_0",
                }
            },
            "containerID": "process://c_0",
        }
    ]


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, QosClass.BEST_EFFORT),
        ({"example.com/g": "1"}, {"example.com/g": "1"}, QosClass.BEST_EFFORT),
        ({"cpu": "1"}, {}, QosClass.BURSTABLE),
        ({"cpu": "1", "memory": "1"}, {"cpu": "1", "memory": "1"}, QosClass.GUARANTEED),
        ({"cpu": "1", "memory": "1"}, {"cpu": "2", "memory": "1"}, QosClass.BURSTABLE),
    ],
)
def test_quality_of_service(requests: dict[str, str], limits: dict[str, str], expected: QosClass) -> None:
    def amounts(texts: dict[str, str]) -> dict[str, Quantity]:
        return {name: Quantity.parse(text) for name, text in texts.items()}

    container = Container(ContainerName("c"), requests=amounts(requests), limits=amounts(limits))
    assert qos_class(Pod("p", PodSpec(containers=(container,)))) is expected


def test_every_stage_has_its_row() -> None:
    assert set(TRANSITIONS) == set(PodStage)


def test_what_cannot_happen_is_an_error() -> None:
    with pytest.raises(ValueError, match="a pod that is gone cannot bind"):
        advance(PodStage.GONE, PodStep.BIND)
