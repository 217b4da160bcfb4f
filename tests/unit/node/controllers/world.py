"""A namespace in memory, in which controllers take their steps one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from plugbay.documents import Json
from plugbay.node.api.stored.workloads.rows import WORKLOADS
from plugbay.node.controllers.actions import (
    Action,
    Children,
    CreateObject,
    CreatePod,
    DeleteObject,
    EditPod,
    RemovePod,
    ReplaceObject,
    Tell,
)
from plugbay.node.controllers.daemon_sets import FailedPods
from plugbay.node.controllers.kinds import DEPLOYMENTS, JOBS, REPLICA_SETS, Controller, daemon_sets
from plugbay.node.controllers.seen_pods import SeenPod, annotations_of, labels_of, owner_references
from plugbay.objects.metadata import born, succeeded
from plugbay.pods.status import PodPhase, timestamp
from plugbay.printers import v1

ROWS = {each.plural: each for each in WORKLOADS}
START = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE: Json = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def template(image: str, **spec: Any) -> Json:
    return {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


class World:
    """Objects and pods of one namespace.

    Attributes:
        refusal: while it is set, pods cannot be made.
        told: the reasons of events.
        again_s: what the last step of each object said about its next one.
    """

    def __init__(self) -> None:
        self.now = START
        self.objects: dict[tuple[str, str], Json] = {}
        self.pods: dict[str, SeenPod] = {}
        self.specs: dict[str, Json] = {}
        self.refusal = ""
        self.told: list[str] = []
        self.again_s: dict[tuple[str, str], float | None] = {}
        self.runs_here = True
        self.failed = FailedPods()
        self._serial = count(1)
        daemons = daemon_sets("n1", lambda uid: self.failed)
        self._controllers: dict[str, Controller] = {
            each.plural: each for each in (REPLICA_SETS, DEPLOYMENTS, daemons, JOBS)
        }

    # --- clients ------------------------------------------------------------------------------------------------

    def create(self, plural: str, value: Json) -> Json:
        row = ROWS[plural]
        serial = next(self._serial)
        made = born(
            {"apiVersion": row.api_version, "kind": row.kind, **value},
            namespace="default",
            uid=f"u{serial}",
            now=timestamp(self.now),
            suffix=f"{serial:05}",
            has_generation=True,
        )
        assert row.stored is not None
        made = row.stored.prepare(made, None)
        assert list(row.stored.check(made, None)) == []
        self.objects[plural, v1.name(made)] = made
        return made

    def edit(self, plural: str, name: str, **spec: object) -> None:
        before = self.objects[plural, name]
        row = ROWS[plural]
        assert row.stored is not None
        wanted = row.stored.prepare({**before, "spec": {**v1.mapping(before, "spec"), **spec}}, before)
        assert list(row.stored.check(wanted, before)) == []
        self.objects[plural, name] = succeeded(before, wanted, has_generation=True)

    def value(self, plural: str, name: str = "d") -> Any:
        return self.objects[plural, name]

    def of(self, plural: str) -> list[Any]:
        return [value for (kind, _), value in self.objects.items() if kind == plural]

    # --- pods ---------------------------------------------------------------------------------------------------

    def change(self, name: str, **fields: Any) -> None:
        self.pods[name] = replace(self.pods[name], **fields)
        self._sweep()

    def ready(self, name: str) -> None:
        self.change(name, phase=PodPhase.RUNNING, is_bound=True, ready_since=self.now)

    def end(self, name: str, phase: PodPhase, **fields: Any) -> None:
        self.change(name, phase=phase, ready_since=None, ended_at=self.now, **fields)

    def stop(self, name: str) -> None:
        """Let a pod that is being deleted come to its end."""
        assert self.pods[name].is_deleting
        if not self.pods[name].is_over:
            self.change(name, phase=PodPhase.FAILED, ready_since=None, ended_at=self.now)
        if name in self.pods and not self.pods[name].finalizers:
            del self.pods[name]

    def active(self) -> list[SeenPod]:
        return [each for each in self.pods.values() if each.is_active]

    def available(self) -> list[SeenPod]:
        return [each for each in self.active() if each.is_available(0, self.now)]

    def _sweep(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod.is_deleting and pod.is_over and not pod.finalizers:
                del self.pods[name]

    # --- controllers --------------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def step(self, plural: str, name: str) -> bool:
        """Take the next step for one object; whether anything has changed."""
        before = (dict(self.objects), dict(self.pods))
        if (plural, name) not in self.objects:
            return False
        controller = self._controllers[plural]
        plan = controller.plan(self.objects[plural, name], self._children(), self.now)
        problem = ""
        for action in plan.actions:
            problem = self._carry_out(action) or problem
        if (plural, name) not in self.objects:
            return True
        value = self.objects[plural, name]
        outcome = controller.status(value, self._children(), self.now, problem=problem)
        self.told += [each.reason for each in outcome.events]
        self.objects[plural, name] = {**value, "status": outcome.status}
        waits = [each for each in (plan.again_s, outcome.again_s) if each is not None]
        self.again_s[plural, name] = min(waits, default=None)
        return before != (self.objects, self.pods)

    def settle(self) -> None:
        """Take steps until nothing changes any more: ReplicaSets first."""
        for _ in range(200):
            order = sorted(self.objects, key=lambda each: (each[0] != "replicasets", each))
            changed = [self.step(*each) for each in order if each[0] in self._controllers]
            if not any(changed):
                return
        raise AssertionError("the controllers do not come to rest")

    def _children(self) -> Children:
        stored: Mapping[str, Any] = {name: self.of(name) for name in ("replicasets", "controllerrevisions")}
        return Children(list(self.pods.values()), stored, self.runs_here, self.runs_here)

    def _carry_out(self, action: Action) -> str:
        match action:
            case CreatePod(value):
                return self._create_pod(value)
            case RemovePod(pod):
                if pod.name in self.pods:
                    self.change(pod.name, is_deleting=True)
            case EditPod(pod, owners, finalizers):
                if pod.name in self.pods:
                    self.change(pod.name, owners=owners, finalizers=finalizers)
            case CreateObject(plural, value):
                self.create(plural, value)
            case ReplaceObject(plural, value):
                before = self.objects[plural, v1.name(value)]
                self.objects[plural, v1.name(value)] = succeeded(before, value, has_generation=True)
            case DeleteObject(plural, value):
                del self.objects[plural, v1.name(value)]
            case Tell(reason):
                self.told.append(reason)
                if reason == "FailedDaemonPod":
                    self.failed = self.failed.after(self.now)
        return ""

    def _create_pod(self, value: Json) -> str:
        if self.refusal:
            return self.refusal
        serial = next(self._serial)
        name = f"{v1.text(value, 'metadata', 'generateName')}{serial}"
        self.specs[name] = v1.mapping(value, "spec")
        self.pods[name] = SeenPod(
            "default",
            name,
            f"u{serial}",
            self.now,
            labels=labels_of(value),
            annotations=annotations_of(value),
            owners=owner_references(value),
            finalizers=tuple(v1.texts(value, "metadata", "finalizers")),
        )
        return ""


def conditions(value: Any) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {each["type"]: (each["status"], each["reason"]) for each in value["status"].get("conditions", [])}
