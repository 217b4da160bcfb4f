"""DaemonSets: one pod on the node, if the node is one for it. Pure.

Source: Kubernetes 1.36 ``pkg/controller/daemon/daemon_controller.go``, ``update.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.label_selectors import selector_of
from plugbay.node.controllers.actions import (
    APPS,
    Action,
    Children,
    ControlPlan,
    CreatePod,
    RemovePod,
    StatusOutcome,
    Tell,
    claimed,
    soonest,
)
from plugbay.node.controllers.deployments.seen import part
from plugbay.node.controllers.revisions import REVISIONS, current_hash, revision_actions
from plugbay.node.controllers.seen_pods import Claim, SeenPod, until_available_s
from plugbay.node.controllers.templates import controller_reference, pod_of_template, with_labels
from plugbay.ops.backoff import Delays
from plugbay.pods.status import PodPhase
from plugbay.printers import v1
from plugbay.values import dataclass

KIND: Final = "DaemonSet"
REVISION_LABEL: Final = "controller-revision-hash"
GENERATION_LABEL: Final = "pod-template-generation"
GENERATION: Final = "deprecated.daemonset.template.generation"
FAILED_PODS: Final = Delays(1.0, 900.0)
"""The waits before a pod that failed is deleted and made again."""
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class FailedPods:
    """The failed pods of a DaemonSet that were deleted so far, so that the next one waits longer."""

    count: int = 0
    last_at: datetime | None = None

    def rest_s(self, now: datetime) -> float:
        """How long the next one has to wait."""
        if self.last_at is None:
            return 0.0
        due = self.last_at + timedelta(seconds=FAILED_PODS.after(self.count))
        return max(0.0, (due - now).total_seconds())

    def after(self, now: datetime) -> FailedPods:
        """One more was deleted. Those of long ago are forgotten."""
        is_old = self.last_at is not None and now - self.last_at > timedelta(seconds=2 * FAILED_PODS.most_s)
        return FailedPods(1 if is_old else self.count + 1, now)


_NONE_FAILED: Final = FailedPods()


@dataclass(frozen=True, slots=True)
class _Update:
    """The way to a new template: how many pods may be there twice, and whether the one pod may be missing."""

    is_rolling: bool
    surge: int
    unavailable: int
    min_ready_s: int


def daemon_set_plan(
    value: Json, children: Children, now: datetime, *, node: str, failed: FailedPods = _NONE_FAILED
) -> ControlPlan:
    """Keep the history of templates, adopt and release pods, then have the right pod on the node.

    Args:
        node: its name.
        failed: the failed pods that were deleted before.
    """
    if v1.at(value, "metadata", "deletionTimestamp"):
        return ControlPlan()
    owner = controller_reference(APPS, KIND, value)
    claim = _claim(value)
    mine = [*claim.owned(children.pods), *claim.adoptable(children.pods)]
    actions: list[Action] = [
        *revision_actions(value, children.stored.get(REVISIONS, ()), mine, owner),
        *claimed(claim, children.pods, owner),
    ]
    digest = current_hash(value, children.stored.get(REVISIONS, ()))
    if not children.stays_here:
        return ControlPlan([*actions, *(RemovePod(each) for each in mine if not each.is_deleting)])
    if not mine:
        return ControlPlan([*actions, _creation(value, digest)] if children.runs_here else actions)
    steps, again_s = _kept(value, mine, digest, now, node=node, failed=failed)
    if not steps and again_s is None and children.runs_here:
        steps, again_s = _updated(value, mine, digest, now)
    return ControlPlan([*actions, *steps], again_s)


def _kept(
    value: Json, mine: Sequence[SeenPod], digest: str, now: datetime, *, node: str, failed: FailedPods
) -> tuple[list[Action], float | None]:
    """Delete what has ended, and of several pods all but the oldest."""
    update = _update(value)
    steps: list[Action] = []
    running: list[SeenPod] = []
    waits: list[float] = []
    for each in (each for each in mine if not each.is_deleting):
        name = f"{each.namespace}/{each.name} on node {node}"
        if each.phase is PodPhase.FAILED and (rest_s := failed.rest_s(now)):
            waits.append(rest_s)
        elif each.phase is PodPhase.FAILED:
            steps += [Tell("FailedDaemonPod", f"Found failed daemon pod {name}, will try to kill it", is_warning=True)]
            steps += [RemovePod(each)]
        elif each.phase is PodPhase.SUCCEEDED:
            steps += [Tell("SucceededDaemonPod", f"Found succeeded daemon pod {name}, will try to delete it")]
            steps += [RemovePod(each)]
        else:
            running.append(each)
    running.sort(key=lambda each: (each.created_at, each.name))
    if update.surge:
        steps += map(RemovePod, _beside_the_first(running, digest, update, now))
    else:
        steps += map(RemovePod, running[1:])
    return steps, min(waits, default=None)


def _beside_the_first(running: Sequence[SeenPod], digest: str, update: _Update, now: datetime) -> list[SeenPod]:
    """Keep one pod of the new template and one of an old one; the old one goes when the new one is available."""
    new = [each for each in running if _is_new(each, digest)]
    old = [each for each in running if not _is_new(each, digest)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (old[0].ready_since is None or new[0].is_available(update.min_ready_s, now)):
        surplus.append(old[0])
    return surplus


def _updated(value: Json, mine: Sequence[SeenPod], digest: str, now: datetime) -> tuple[list[Action], float | None]:
    """Replace a pod of an old template, as far as the strategy lets go of it."""
    update = _update(value)
    live = [each for each in mine if each.is_active]
    if not update.is_rolling or any(_is_new(each, digest) for each in live):
        return [], until_available_s(live, update.min_ready_s, now)
    old = [each for each in live if not _is_new(each, digest)]
    if not old or len(live) < len(mine):
        return [], None  # another pod is still on its way out
    if update.surge:
        return [_creation(value, digest)], None
    is_available = old[0].is_available(update.min_ready_s, now)
    return ([RemovePod(old[0])] if not is_available or update.unavailable else []), None


def daemon_set_status(value: Json, children: Children, now: datetime, *, problem: str = "") -> StatusOutcome:
    """``problem`` is told by an event; a DaemonSet has no condition for it."""
    mine = _claim(value).owned(children.pods)
    live = [each for each in mine if not each.is_deleting]
    there = [each for each in mine if not (each.is_deleting and each.is_over)]
    update = _update(value)
    digest = current_hash(value, children.stored.get(REVISIONS, ()))
    first = sorted(live, key=lambda each: (each.created_at, each.name))
    wanted = int(children.runs_here)
    ready = wanted and any(each.ready_since is not None for each in live)
    available = wanted and any(each.is_available(update.min_ready_s, now) for each in live)
    updated = wanted and any(_is_new(each, digest) for each in first)
    counts = {
        "updatedNumberScheduled": int(updated),
        "numberAvailable": int(available),
        "numberUnavailable": wanted - int(available),
        "observedGeneration": v1.number(value, "metadata", "generation"),
        "collisionCount": v1.number(value, "status", "collisionCount"),
    }
    status: Json = {
        "currentNumberScheduled": int(bool(wanted and there)),
        "numberMisscheduled": int(bool(not wanted and there)),
        "desiredNumberScheduled": wanted,
        "numberReady": int(ready),
        **{name: count for name, count in counts.items() if count},
    }
    return StatusOutcome(status, soonest(until_available_s(live, update.min_ready_s, now)))


def _is_new(pod: SeenPod, digest: str) -> bool:
    return pod.labels.get(REVISION_LABEL) == digest


def _creation(value: Json, digest: str) -> CreatePod:
    return CreatePod(daemon_pod(value, digest))


def daemon_pod(value: Json, digest: str = "") -> Json:
    """The v1 Pod that a DaemonSet makes: it tolerates what is wrong with a node."""
    generation = str(v1.mapping(value, "metadata", "annotations").get(GENERATION, "1"))
    template = with_labels(
        v1.mapping(value, "spec", "template"), {REVISION_LABEL: digest, GENERATION_LABEL: generation}
    )
    spec = v1.mapping(template, "spec")
    added = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for name, effect in (
            *_TOLERATED,
            *((("network-unavailable", "NoSchedule"),) if spec.get("hostNetwork") else ()),
        )
    ]
    given = v1.objects(spec, "tolerations")
    tolerations = [*given, *(each for each in added if each not in given)]
    template = {**template, "spec": {**spec, "tolerations": tolerations}}
    return pod_of_template(template, v1.namespace(value), controller_reference(APPS, KIND, value))


def _claim(value: Json) -> Claim:
    is_deleting = bool(v1.at(value, "metadata", "deletionTimestamp"))
    return Claim(v1.uid(value), selector_of(v1.mapping(value, "spec", "selector")), is_deleting=is_deleting)


def _update(value: Json) -> _Update:
    strategy = v1.mapping(value, "spec", "updateStrategy")
    rolling = v1.mapping(strategy, "rollingUpdate")
    surge = part(rolling.get("maxSurge"), 1, up=True, default=0)
    return _Update(
        v1.text(strategy, "type") != "OnDelete",
        surge,
        part(rolling.get("maxUnavailable"), 1, up=True, default=1),
        v1.number(value, "spec", "minReadySeconds"),
    )
