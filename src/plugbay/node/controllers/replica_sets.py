"""ReplicaSets: as many pods as they want. Pure.

Source: Kubernetes 1.36 ``pkg/controller/replicaset/replica_set.go``, ``replica_set_utils.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.label_selectors import selector_of
from plugbay.node.controllers.actions import (
    APPS,
    Children,
    ControlPlan,
    CreatePod,
    RemovePod,
    StatusOutcome,
    claimed,
    soonest,
)
from plugbay.node.controllers.conditions import made_condition, with_condition, without_condition
from plugbay.node.controllers.seen_pods import Claim, SeenPod, first_to_delete, until_available_s
from plugbay.node.controllers.templates import controller_reference, pod_of_template
from plugbay.ops.backoff import Delays
from plugbay.pods.status import PodPhase
from plugbay.printers import v1
from plugbay.values import dataclass

KIND: Final = "ReplicaSet"
FAILED_PODS: Final = Delays(1.0, 900.0)
"""The waits before a pod that failed is made again, as of DaemonSets.

A cluster's ReplicaSet does not wait, as a scheduler that knows of several nodes picks another one.
"""
_REMEMBERED: Final = timedelta(hours=1)
_MOST_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class _Spec:
    replicas: int
    min_ready_s: int
    template: Json


def replica_set_plan(value: Json, children: Children, now: datetime) -> ControlPlan:
    """Adopt and release pods, then make or delete as many as are too few or too many."""
    if v1.at(value, "metadata", "deletionTimestamp"):
        return ControlPlan()
    claim, spec = _claim(value), _spec(value)
    owner = controller_reference(APPS, KIND, value)
    actions = claimed(claim, children.pods, owner)
    mine = [*claim.owned(children.pods), *claim.adoptable(children.pods)]
    active = [each for each in mine if each.is_active]
    missing = spec.replicas - len(active)
    if missing < 0:
        surplus = first_to_delete(active)[: min(-missing, _MOST_AT_ONCE)]
        return ControlPlan([*actions, *map(RemovePod, surplus)])
    if missing > 0 and (rest_s := _rest_s(mine, now)):
        return ControlPlan(actions, again_s=rest_s)
    pod = pod_of_template(spec.template, v1.namespace(value), owner)
    return ControlPlan([*actions, *[CreatePod(pod)] * min(missing, _MOST_AT_ONCE)])


def _rest_s(pods: Iterable[SeenPod], now: datetime) -> float:
    """How long to wait before a new pod takes the place of one that failed."""
    ends = [each.ended_at or each.created_at for each in pods if each.phase is PodPhase.FAILED]
    recent = [end for end in ends if now - end < _REMEMBERED]
    if not recent:
        return 0.0
    return max(0.0, (max(recent) + timedelta(seconds=FAILED_PODS.after(len(recent))) - now).total_seconds())


def replica_set_status(value: Json, children: Children, now: datetime, *, problem: str = "") -> StatusOutcome:
    """``problem`` is the reason why pods could not be made or deleted."""
    spec = _spec(value)
    mine = _claim(value).owned(children.pods)
    active = [each for each in mine if each.is_active]
    wanted = v1.mapping(spec.template, "metadata", "labels").items()
    counts = {
        "fullyLabeledReplicas": sum(wanted <= each.labels.items() for each in active),
        "readyReplicas": sum(each.ready_since is not None for each in active),
        "availableReplicas": sum(each.is_available(spec.min_ready_s, now) for each in active),
        "terminatingReplicas": sum(each.is_deleting and not each.is_over for each in mine),
        "observedGeneration": v1.number(value, "metadata", "generation"),
    }
    conditions = v1.objects(value, "status", "conditions")
    if problem:
        failure = made_condition("ReplicaFailure", "True", "FailedCreate", problem, now, moment="")
        conditions = with_condition(conditions, failure)
    else:
        conditions = without_condition(conditions, "ReplicaFailure")
    status: Json = {"replicas": len(active), **{name: count for name, count in counts.items() if count}}
    if conditions:
        status["conditions"] = conditions
    return StatusOutcome(status, soonest(until_available_s(active, spec.min_ready_s, now)))


def _claim(value: Json) -> Claim:
    is_deleting = bool(v1.at(value, "metadata", "deletionTimestamp"))
    return Claim(v1.uid(value), selector_of(v1.mapping(value, "spec", "selector")), is_deleting=is_deleting)


def _spec(value: Json) -> _Spec:
    replicas = v1.at(value, "spec", "replicas")
    return _Spec(
        replicas if isinstance(replicas, int) else 1,
        v1.number(value, "spec", "minReadySeconds"),
        v1.mapping(value, "spec", "template"),
    )
