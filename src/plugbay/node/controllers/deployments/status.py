"""The status of a Deployment. Pure.

Source: Kubernetes 1.36 ``pkg/controller/deployment/{progress,sync}.go``, ``util/deployment_util.go``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from plugbay.documents import Json
from plugbay.node.controllers.actions import Children, StatusOutcome
from plugbay.node.controllers.conditions import (
    condition,
    find_condition,
    made_condition,
    with_condition,
    without_condition,
)
from plugbay.node.controllers.deployments.plan import SETS, name_is_taken
from plugbay.node.controllers.deployments.seen import SeenDeployment, SeenReplicaSet, newest_of
from plugbay.printers import v1

PROGRESSING: Final = "Progressing"
_DONE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"


def deployment_status(value: Json, children: Children, now: datetime, *, problem: str = "") -> StatusOutcome:
    """The status, and when the deadline of its progress comes."""
    deployment = SeenDeployment(value)
    sets = deployment.owned(children.stored.get(SETS, ()))
    new = newest_of(deployment, sets)
    status = _counts(deployment, sets, new)
    conditions = _with_availability(v1.objects(value, "status", "conditions"), deployment, status, now)
    conditions = _with_pause(conditions, deployment, now)
    if deployment.progress_deadline_s is None:
        conditions = without_condition(conditions, PROGRESSING)
    elif not deployment.is_paused and not deployment.is_deleting:
        conditions = _with_progress(conditions, deployment, status, new, now)
    failures = [
        failure for each in ([new] if new else []) + sets if (failure := condition(each.value, "ReplicaFailure"))
    ]
    if failures and v1.number(status, "updatedReplicas") < deployment.replicas:
        moment = failures[0].get("lastTransitionTime")
        conditions = with_condition(conditions, {**failures[0], "lastUpdateTime": moment})
    else:
        conditions = without_condition(conditions, "ReplicaFailure")
    status["conditions"] = conditions
    return StatusOutcome(status, _until_deadline_s(deployment, conditions, now))


def _counts(deployment: SeenDeployment, sets: list[SeenReplicaSet], new: SeenReplicaSet | None) -> Json:
    total = sum(each.replicas for each in sets)
    available = sum(each.count("availableReplicas") for each in sets)
    collisions = deployment.collisions + (new is None and name_is_taken(deployment, sets))
    counts = {
        "observedGeneration": v1.number(deployment.value, "metadata", "generation"),
        "replicas": sum(each.count("replicas") for each in sets),
        "updatedReplicas": new.count("replicas") if new else 0,
        "readyReplicas": sum(each.count("readyReplicas") for each in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total - available),
        "terminatingReplicas": sum(each.count("terminatingReplicas") for each in sets),
        "collisionCount": collisions,
    }
    return {name: count for name, count in counts.items() if count}


def _with_availability(conditions: list[Json], deployment: SeenDeployment, status: Json, now: datetime) -> list[Json]:
    enough = v1.number(status, "availableReplicas") >= deployment.replicas - deployment.max_unavailable
    text = "has" if enough else "does not have"
    return with_condition(
        conditions,
        made_condition(
            "Available",
            str(enough),
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {text} minimum availability.",
            now,
        ),
    )


def _with_pause(conditions: list[Json], deployment: SeenDeployment, now: datetime) -> list[Json]:
    """Progress is not judged while the Deployment is paused, and its deadline begins anew afterwards."""
    before = find_condition(conditions, PROGRESSING) or {}
    if deployment.progress_deadline_s is None or before.get("reason") == _TIMED_OUT:
        return conditions
    was_paused = before.get("reason") == _PAUSED
    if deployment.is_paused and not was_paused:
        return with_condition(conditions, made_condition(PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now))
    if was_paused and not deployment.is_paused:
        resumed = made_condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now)
        return with_condition(conditions, resumed)
    return conditions


def _with_progress(
    conditions: list[Json], deployment: SeenDeployment, status: Json, new: SeenReplicaSet | None, now: datetime
) -> list[Json]:
    before = find_condition(conditions, PROGRESSING)
    name = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.name}"'
    is_done = _is_complete(deployment, status)
    updated, replicas = v1.number(status, "updatedReplicas"), v1.number(status, "replicas")
    if before is not None and before.get("reason") == _DONE and updated == replicas:
        return conditions  # nothing of a rollout is under way
    if is_done:
        message = f"{name} has successfully progressed."
        return with_condition(conditions, made_condition(PROGRESSING, "True", _DONE, message, now))
    if before is None:
        reason = "NewReplicaSetCreated"
        message = f'Created new replica set "{new.name}"' if new else f"{name} is progressing."
        return with_condition(conditions, made_condition(PROGRESSING, "True", reason, message, now))
    if _has_progressed(deployment, status):
        made = made_condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{name} is progressing.", now)
        if before.get("status") == "True":
            made["lastTransitionTime"] = before.get("lastTransitionTime")
        return [*without_condition(conditions, PROGRESSING), made]
    if before.get("reason") == _TIMED_OUT or _deadline(deployment, before, now) <= now:
        message = f"{name} has timed out progressing."
        return with_condition(conditions, made_condition(PROGRESSING, "False", _TIMED_OUT, message, now))
    return conditions


def _is_complete(deployment: SeenDeployment, status: Json) -> bool:
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return {v1.number(status, name) for name in names} == {deployment.replicas}


def _has_progressed(deployment: SeenDeployment, status: Json) -> bool:
    before = v1.mapping(deployment.value, "status")

    def grew(name: str) -> bool:
        return v1.number(status, name) > v1.number(before, name)

    def old(counts: Json) -> int:
        return v1.number(counts, "replicas") - v1.number(counts, "updatedReplicas")

    return grew("updatedReplicas") or old(status) < old(before) or grew("readyReplicas") or grew("availableReplicas")


def _deadline(deployment: SeenDeployment, progressing: Json, now: datetime) -> datetime:
    since = v1.moment(progressing, "lastUpdateTime") or now
    return since + timedelta(seconds=deployment.progress_deadline_s or 0)


def _until_deadline_s(deployment: SeenDeployment, conditions: list[Json], now: datetime) -> float | None:
    progressing = find_condition(conditions, PROGRESSING)
    if progressing is None or deployment.is_paused or progressing.get("reason") in (_DONE, _TIMED_OUT):
        return None
    return max(0.1, (_deadline(deployment, progressing, now) - now).total_seconds())
