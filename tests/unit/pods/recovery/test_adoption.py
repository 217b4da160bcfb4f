from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.model.requests import ContainerKind
from plugbay.pods.record import ContainerRecord, Running, Terminated, Waiting, new_record
from plugbay.pods.recovery.adoption import adopt
from plugbay.runtimes.port import ContainerId, ContainerState, RunState

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = T0 + timedelta(hours=1)
NAME = ContainerName("c")


def instance(attempt: int, state: RunState, exit_code: int | None = None) -> ContainerState:
    return ContainerState(
        ContainerId(f"c_{attempt}"),
        PodUid("u"),
        NAME,
        attempt,
        state,
        pid=1,
        started_at=T0,
        finished_at=T0 + timedelta(seconds=1) if state is RunState.EXITED else None,
        exit_code=exit_code,
        image_id="i@1",
    )


def end(attempt: int, code: int = 1) -> Terminated:
    reason = "Completed" if code == 0 else "Error"
    return Terminated(ContainerId(f"c_{attempt}"), code, reason, T0 + timedelta(seconds=1), T0, image_id="i@1")


def container(state: Waiting | Running | Terminated, attempt: int, last: Terminated | None = None) -> ContainerRecord:
    return ContainerRecord(ContainerKind.APP, state, last, attempt)


RUNS_0 = Running(ContainerId("c_0"), T0, image_id="i@1", image="i")
WAITS = Waiting("ContainerCreating")
BACKS_OFF = Waiting("CrashLoopBackOff")


@pytest.mark.parametrize(
    ("known", "instances", "expected"),
    [
        pytest.param(container(RUNS_0, 0), [instance(0, RunState.RUNNING)], container(RUNS_0, 0), id="runs as it did"),
        pytest.param(
            container(replace(RUNS_0, image="h"), 0),
            [instance(0, RunState.RUNNING)],
            container(replace(RUNS_0, image="h"), 0),
            id="runs with the image of before",
        ),
        pytest.param(
            container(replace(RUNS_0, image=None), 0),
            [instance(0, RunState.RUNNING)],
            container(RUNS_0, 0),
            id="runs, and its image was not recorded",
        ),
        pytest.param(container(WAITS, -1), [], container(WAITS, -1), id="never started"),
        pytest.param(
            container(WAITS, -1), [instance(0, RunState.RUNNING)], container(RUNS_0, 0), id="started, not yet recorded"
        ),
        pytest.param(
            container(RUNS_0, 0), [instance(0, RunState.EXITED, 1)], container(end(0), 0), id="ended meanwhile"
        ),
        pytest.param(
            container(end(0), 0, None), [instance(0, RunState.EXITED, 1)], container(end(0), 0), id="ended before"
        ),
        pytest.param(
            container(BACKS_OFF, 0, end(0)),
            [instance(0, RunState.EXITED, 1)],
            container(BACKS_OFF, 0, end(0)),
            id="its end is accounted for",
        ),
        pytest.param(
            container(BACKS_OFF, 0, end(0)),
            [instance(0, RunState.EXITED, 1), instance(1, RunState.EXITED, 0)],
            container(end(1, 0), 1, end(0)),
            id="restarted and ended, not yet recorded",
        ),
        pytest.param(
            container(RUNS_0, 0),
            [],
            container(
                Terminated(
                    ContainerId("c_0"),
                    137,
                    "ContainerStatusUnknown",
                    NOW,
                    T0,
                    "The container could not be located when the pod was terminated",
                    "i@1",
                ),
                0,
            ),
            id="the runtime has lost it",
        ),
    ],
)
def test_the_runtime_knows_what_became_of_a_container(
    known: ContainerRecord, instances: list[ContainerState], expected: ContainerRecord
) -> None:
    pod = Pod("p", PodSpec(containers=(Container(NAME, image="i"),)), uid=PodUid("u"))
    record = new_record(pod, created_at=T0).with_container(NAME, known)
    assert adopt(record, instances, now=NOW).containers[NAME] == expected


@pytest.mark.parametrize(
    ("known", "attempt", "expected"),
    [
        pytest.param(container(RUNS_0, 0), 0, container(RUNS_0, 0), id="ran, and may still"),
        pytest.param(container(end(0), 0), 0, container(end(0), 0), id="had ended"),
        pytest.param(
            container(WAITS, -1),
            0,
            container(RUNS_0, 0),
            id="was just started",
        ),
    ],
)
def test_what_cannot_be_read_is_as_it_was_or_runs(
    known: ContainerRecord, attempt: int, expected: ContainerRecord
) -> None:
    pod = Pod("p", PodSpec(containers=(Container(NAME, image="i"),)), uid=PodUid("u"))
    record = new_record(pod, created_at=T0).with_container(NAME, known)
    assert adopt(record, [instance(attempt, RunState.UNKNOWN)], now=NOW).containers[NAME] == expected
