from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.printers.pod_status import summarize

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-01-01T11:00:00Z"}}
INITIALIZED = {"type": "Initialized", "status": "True"}
READY = {"type": "Ready", "status": "True"}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


def status(name: str, state: dict[str, Any], *, ready: bool = False, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": ready, "restartCount": restarts, **more}


def pod(
    *apps: dict[str, Any],
    phase: str = "Running",
    inits: tuple[dict[str, Any], ...] = (),
    sidecars: tuple[str, ...] = (),
    conditions: tuple[dict[str, Any], ...] = (),
    deleted: bool = False,
    reason: str = "",
) -> dict[str, Any]:
    init_specs = [
        {"name": each["name"], **({"restartPolicy": "Always"} if each["name"] in sidecars else {})} for each in inits
    ]
    metadata = {"name": "p"} | ({"deletionTimestamp": "2026-01-01T12:00:00Z"} if deleted else {})
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": each["name"]} for each in apps], "initContainers": init_specs},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": list(apps),
            "initContainerStatuses": list(inits),
            **({"reason": reason} if reason else {}),
        },
    }


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "pending": (pod(phase="Pending"), "0/0", "Pending"),
    "rejected": (pod(phase="Failed", reason="UnexpectedAdmissionError"), "0/0", "UnexpectedAdmissionError"),
    "creating": (pod(status("a", waiting("ContainerCreating")), phase="Pending"), "0/1", "ContainerCreating"),
    "running": (pod(status("a", RUNNING, ready=True)), "1/1", "Running"),
    "one of two ready": (pod(status("a", RUNNING, ready=True), status("b", RUNNING)), "1/2", "Running"),
    "completed": (pod(status("a", ended(0, "Completed")), phase="Succeeded"), "0/1", "Completed"),
    "error": (pod(status("a", ended(1, "Error")), phase="Failed"), "0/1", "Error"),
    "exit code only": (pod(status("a", ended(3)), phase="Failed"), "0/1", "ExitCode:3"),
    "signal only": (pod(status("a", ended(137, signal=9)), phase="Failed"), "0/1", "Signal:9"),
    "crash loop": (pod(status("a", waiting("CrashLoopBackOff"), restarts=3)), "0/1", "CrashLoopBackOff"),
    "first container that does not run speaks": (
        pod(status("a", waiting("CrashLoopBackOff")), status("b", ended(1, "Error"))),
        "0/2",
        "CrashLoopBackOff",
    ),
    "completed beside a running one": (
        pod(status("a", ended(0, "Completed")), status("b", RUNNING, ready=True), conditions=(READY,)),
        "1/2",
        "Running",
    ),
    "completed beside a running one, not ready": (
        pod(status("a", ended(0, "Completed")), status("b", RUNNING, ready=True)),
        "1/2",
        "NotReady",
    ),
    "terminating": (pod(status("a", RUNNING, ready=True), deleted=True), "1/1", "Terminating"),
    "deleted after its end": (
        pod(status("a", ended(0, "Completed")), phase="Succeeded", deleted=True),
        "0/1",
        "Completed",
    ),
    "init running": (
        pod(status("a", waiting("PodInitializing")), phase="Pending", inits=(status("i", RUNNING),)),
        "0/1",
        "Init:0/1",
    ),
    "second init running": (
        pod(
            status("a", waiting("PodInitializing")),
            phase="Pending",
            inits=(status("i", ended(0, "Completed")), status("j", waiting("PodInitializing"))),
        ),
        "0/1",
        "Init:1/2",
    ),
    "init failed": (
        pod(status("a", waiting("PodInitializing")), phase="Pending", inits=(status("i", ended(1, "Error")),)),
        "0/1",
        "Init:Error",
    ),
    "init failed without a reason": (
        pod(status("a", waiting("PodInitializing")), phase="Pending", inits=(status("i", ended(2)),)),
        "0/1",
        "Init:ExitCode:2",
    ),
    "init crash loop": (
        pod(status("a", waiting("PodInitializing")), inits=(status("i", waiting("CrashLoopBackOff")),)),
        "0/1",
        "Init:CrashLoopBackOff",
    ),
    "inits done": (
        pod(status("a", RUNNING, ready=True), inits=(status("i", ended(0, "Completed"), ready=True),)),
        "1/1",
        "Running",
    ),
    "sidecar counts": (
        pod(
            status("a", RUNNING, ready=True),
            inits=(status("s", RUNNING, ready=True, started=True),),
            sidecars=("s",),
            conditions=(INITIALIZED,),
        ),
        "2/2",
        "Running",
    ),
    "sidecar died in an initialized pod": (
        pod(
            status("a", RUNNING, ready=True),
            inits=(status("s", ended(1, "Error"), started=False),),
            sidecars=("s",),
            conditions=(INITIALIZED,),
        ),
        "1/2",
        "Init:Error",
    ),
    "nothing known": ({}, "0/0", "Unknown"),
}


@pytest.mark.parametrize(("value", "readiness", "expected"), CASES.values(), ids=CASES)
def test_status_reads_as_in_kubectl(value: dict[str, Any], readiness: str, expected: str) -> None:
    summary = summarize(value)
    assert (summary.readiness, summary.status) == (readiness, expected)


def test_restarts_say_when_the_last_one_was() -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:57:00Z"}}
    older = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T10:00:00Z"}}
    value = pod(
        status("a", RUNNING, ready=True, restarts=2, lastState=last),
        status("b", RUNNING, ready=True, restarts=1, lastState=older),
    )
    assert summarize(value).restarts_text(NOW) == "3 (3m ago)"


def test_restarts_without_a_known_moment_are_a_number() -> None:
    assert summarize(pod(status("a", RUNNING, restarts=2))).restarts_text(NOW) == "2"


def test_restarts_of_init_containers_count_until_they_are_done() -> None:
    inits = (status("i", RUNNING, restarts=4),)
    assert summarize(pod(status("a", waiting("PodInitializing"), restarts=1), inits=inits)).restarts == 4
    assert summarize(pod(status("a", RUNNING, restarts=1), inits=inits, conditions=(INITIALIZED,))).restarts == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(st.fixed_dictionaries({"spec": JSON, "status": JSON, "metadata": JSON}))
def test_an_object_of_any_shape_is_shown(value: dict[str, Any]) -> None:
    assert summarize(value).status
