"""Pods and events on disk: a later plugbay finds the pods that an earlier one ran."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plugbay.manifest import pod_from_v1
from plugbay.model.ids import ContainerName
from plugbay.model.nodes import NodeInput
from plugbay.model.requests import ContainerKind
from plugbay.model.taints import Effect, Taint
from plugbay.objects.table import ObjectKey, StoredObject
from plugbay.pods.events import Event, EventType, ObjectRef
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import (
    ClientCondition,
    ContainerRecord,
    Deletion,
    Disruption,
    Failure,
    PodRecord,
    Rejection,
    Running,
    Startup,
    Terminated,
    Waiting,
)
from plugbay.pods.store.database import open_pod_store
from plugbay.runtimes.port import ContainerId
from tests.unit.database_dumps import assert_same, restore

GOLDEN: Final = Path(__file__).parents[3] / "golden/pods/store"
EARLY: Final = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
LATE: Final = datetime(2026, 1, 2, 3, 5, 0, tzinfo=UTC)
END: Final = Terminated(ContainerId("c1"), 137, "Error", LATE, EARLY, "out of soil", "sha256:1")
POD: Final = pod_from_v1(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "burrow", "namespace": "lab", "uid": "6f1c2d3e"},
        "spec": {
            "initContainers": [{"name": "prepare", "image": "a"}],
            "containers": [
                {"name": "digger", "image": "b", "resources": {"limits": {"example.com/gopher": "1"}}},
                {"name": "idle", "image": "c"},
            ],
        },
    }
)
RECORD: Final = PodRecord(
    POD,
    EARLY,
    {
        ContainerName("prepare"): ContainerRecord(ContainerKind.INIT, END, replace(END, exit_code=0), 3),
        ContainerName("digger"): ContainerRecord(
            ContainerKind.APP, Running(ContainerId("c2"), LATE, Startup.POST_START, "sha256:2", LATE, "b"), END, 1
        ),
        ContainerName("idle"): ContainerRecord(ContainerKind.APP, Waiting("CrashLoopBackOff", "wait 10 s")),
    },
    stage=PodStage.ENDED,
    bound_at=EARLY,
    started_at=LATE,
    deletion=Deletion(LATE, 30),
    rejection=Rejection("UnexpectedAdmissionError", "no gopher"),
    failure=Failure("DeviceFailed", "g1 is unhealthy"),
    disruption=Disruption("PreemptionByScheduler", "for a better one", LATE),
    sandbox_since=LATE,
    has_stopped=True,
    conditions=(ClientCondition("example.com/fed", "True", "Fed", "a nut", EARLY, LATE),),
    gates_since=LATE,
    managed=(
        {
            "manager": "kubectl",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:depth": {}}}},
        },
    ),
)
NOT_KEPT: Final = {"unschedulable", "nominated_node", "health", "ips", "runtime_problem", "version"}
EVENT: Final = Event(
    "burrow.17", ObjectRef("Pod", "lab", "burrow", "6f1c2d3e", "spec.containers{digger}"), EventType.WARNING,
    "Failed", "no soil", "kubelet", 3, EARLY, LATE, 9,
)  # fmt: skip


NODE: Final = NodeInput(
    {"disk": "ssd"},
    {"example.com/note": "any text"},
    (Taint("dedicated", Effect.NO_EXECUTE, "lab", "2026-01-02T03:04:05Z"), Taint("slow", Effect.PREFER_NO_SCHEDULE)),
    LATE,
    {"example.com/dongle": 2},
    {"Dusty": {"type": "Dusty", "status": "False"}},
    ({"manager": "kubectl-label", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:disk": {}}}}},),
    EARLY,
)


CONFIG: Final = StoredObject(
    ObjectKey("", "configmaps", "lab", "soil"),
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "soil", "namespace": "lab", "uid": "1", "resourceVersion": "12"},
        "data": {"depth": "3 m", "größe": "\U0001f573"},
    },
)


async def load(path: Path) -> tuple[PodRecord, Event, NodeInput | None, tuple[StoredObject, ...]]:
    async with open_pod_store(path) as store:
        content = store.load()
    (pod,), (event,) = content.pods, content.events
    return pod, event, content.node, content.objects


async def test_pods_and_events_are_written_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(RECORD)
        store.save_event(EVENT)
        store.save_object(*CONFIG)
        store.save_node(NODE)
    assert_same(path, GOLDEN / "pods.sql")


async def test_pods_and_events_of_an_earlier_plugbay_are_read(tmp_path: Path) -> None:
    restore(GOLDEN / "pods.sql", tmp_path / "pods.db")
    assert await load(tmp_path / "pods.db") == (RECORD, EVENT, NODE, (CONFIG,))


async def test_a_store_from_before_cordons_is_read(tmp_path: Path) -> None:
    restore(GOLDEN / "pods-1.sql", tmp_path / "pods.db")
    pod, event, node, _ = await load(tmp_path / "pods.db")
    assert (pod.uid, pod.stage, node) == (RECORD.uid, PodStage.ENDED, None)
    assert (event.serial, event.message) == (0, "no soil")


async def test_a_store_from_before_other_objects_is_read_with_its_cordon(tmp_path: Path) -> None:
    restore(GOLDEN / "pods-2.sql", tmp_path / "pods.db")
    pod, event, node, objects = await load(tmp_path / "pods.db")
    digger = RECORD.containers[ContainerName("digger")]
    assert isinstance(digger.state, Running)
    unprobed = replace(digger, state=replace(digger.state, changed_at=None, image=None))
    before = replace(
        RECORD.with_container(ContainerName("digger"), unprobed),
        disruption=None,
        conditions=(),
        gates_since=None,
        managed=(),
    )
    assert (pod, event, objects) == (before, EVENT, ())
    assert node == NodeInput(cordoned_since=LATE)


async def test_a_store_from_before_node_settings_is_read_with_its_cordon(tmp_path: Path) -> None:
    restore(GOLDEN / "pods-3.sql", tmp_path / "pods.db")
    _, _, node, objects = await load(tmp_path / "pods.db")
    assert (node, objects) == (NodeInput(cordoned_since=LATE), (CONFIG,))


def test_the_golden_record_says_something_of_each_field() -> None:
    defaults = {field.name: field.default for field in fields(PodRecord) if field.name not in NOT_KEPT}
    assert not [name for name, default in defaults.items() if getattr(RECORD, name) == default]
