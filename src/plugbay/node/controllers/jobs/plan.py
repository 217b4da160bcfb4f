"""The next steps for a Job. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job/job_controller.go`` (``syncJob``, ``manageJob``), ``backoff_utils.go``,
``pkg/controller/ttlafterfinished``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from plugbay.documents import Json
from plugbay.node.controllers.actions import (
    BATCH,
    Action,
    Children,
    ControlPlan,
    CreatePod,
    DeleteObject,
    EditPod,
    RemovePod,
    claimed,
)
from plugbay.node.controllers.conditions import condition
from plugbay.node.controllers.jobs.counts import Counted, counted
from plugbay.node.controllers.jobs.ending import ending
from plugbay.node.controllers.jobs.indexes import free_indexes, index_of, indexed_template
from plugbay.node.controllers.jobs.seen import KIND, TRACKING, SeenJob
from plugbay.node.controllers.seen_pods import SeenPod, first_to_delete
from plugbay.node.controllers.templates import controller_reference, pod_of_template
from plugbay.ops.backoff import Delays
from plugbay.pods.status import PodPhase
from plugbay.printers import v1

FAILED_PODS: Final = Delays(10.0, 600.0)
"""The waits before a pod that failed is made again."""
_MOST_AT_ONCE: Final = 500


def job_plan(value: Json, children: Children, now: datetime) -> ControlPlan:
    """Let go of counted pods, then make and delete pods as the Job wants them now."""
    job = SeenJob(value)
    pods = job.claim.owned(children.pods)
    if job.is_deleting:
        return ControlPlan([_untracked(each) for each in pods if TRACKING in each.finalizers])
    if job.is_finished:
        return _finished(job, pods, now)
    counts = counted(job, pods)
    actions: list[Action] = [_untracked(each) for each in counts.released]
    owner = controller_reference(BATCH, KIND, value)
    # An adopted pod is counted as one that the Job has made.
    adopted = [replace(each, finalizers=(*each.finalizers, TRACKING)) for each in job.claim.adoptable(children.pods)]
    actions += claimed(job.claim, [*(each for each in children.pods if each.owners), *adopted], owner)
    active = [each for each in [*pods, *adopted] if each.is_active]
    if job.is_suspended:
        return ControlPlan([*actions, *_dropped(active)])
    if ending(job, counts, pods, now) is not None:
        return ControlPlan([*actions, *map(RemovePod, active)])
    return _managed(job, counts, pods, active, actions, now)


def _managed(
    job: SeenJob,
    counts: Counted,
    pods: Sequence[SeenPod],
    active: Sequence[SeenPod],
    actions: Sequence[Action],
    now: datetime,
) -> ControlPlan:
    surplus = _surplus(job, counts, active)
    if surplus:
        return ControlPlan([*actions, *_dropped(surplus)])
    missing = _wanted(job, counts, len(active)) - len(active)
    if job.replaces_failed_only:
        missing -= sum(each.is_deleting and not each.is_over for each in pods)
    if missing <= 0:
        return ControlPlan(actions)
    if rest_s := _rest_s(pods, now):
        return ControlPlan(actions, again_s=rest_s)
    return ControlPlan([*actions, *_creations(job, counts, active, min(missing, _MOST_AT_ONCE))])


def _wanted(job: SeenJob, counts: Counted, active: int) -> int:
    """The number of pods that should be at work."""
    if job.completions is None:
        return min(active, job.parallelism) if counts.succeeded else job.parallelism
    return max(0, min(job.completions - counts.succeeded, job.parallelism))


def _surplus(job: SeenJob, counts: Counted, active: Sequence[SeenPod]) -> list[SeenPod]:
    """Active pods that are too many, of an Indexed Job those first that nobody needs."""
    needless: list[SeenPod] = []
    if job.is_indexed:
        taken: set[int] = set(counts.indexes)
        for each in sorted(active, key=lambda pod: (pod.created_at, pod.name)):
            index = index_of(each)
            if index is None or index in taken or index >= (job.completions or 0):
                needless.append(each)
            else:
                taken.add(index)
    others = [each for each in active if each not in needless]
    return [*needless, *first_to_delete(others)[: max(0, len(others) - _wanted(job, counts, len(active)))]]


def _creations(job: SeenJob, counts: Counted, active: Sequence[SeenPod], number: int) -> list[Action]:
    owner = controller_reference(BATCH, KIND, job.value)
    finalizers = [*v1.texts(job.template, "metadata", "finalizers"), TRACKING]
    if not job.is_indexed:
        pod = pod_of_template(job.template, v1.namespace(job.value), owner, finalizers=finalizers)
        return [CreatePod(pod)] * number
    taken = counts.indexes | {index for each in active if (index := index_of(each)) is not None}
    made: list[Action] = []
    for index in free_indexes(job.completions or 0, taken, number):
        base = f"{job.name}-{index}"
        template = indexed_template(job.template, index)
        template["spec"] = {**v1.mapping(template, "spec"), "hostname": base}
        more = {"finalizers": finalizers, "generateName": f"{base}-"}
        made.append(CreatePod(pod_of_template(template, v1.namespace(job.value), owner, **more)))
    return made


def _rest_s(pods: Sequence[SeenPod], now: datetime) -> float:
    """How long to wait before a pod is made again: longer with each failure since the last success."""
    successes = [each.ended_at for each in pods if each.phase is PodPhase.SUCCEEDED and each.ended_at]
    failures = [each.ended_at for each in pods if each.phase is PodPhase.FAILED and each.ended_at]
    recent = [end for end in failures if not successes or end > max(successes)]
    if not recent:
        return 0.0
    return max(0.0, (max(recent) + timedelta(seconds=FAILED_PODS.after(len(recent))) - now).total_seconds())


def _finished(job: SeenJob, pods: Sequence[SeenPod], now: datetime) -> ControlPlan:
    actions: list[Action] = [_untracked(each) for each in pods if TRACKING in each.finalizers]
    if job.ttl_s is None:
        return ControlPlan(actions)
    ended = condition(job.value, "Complete") or condition(job.value, "Failed")
    left_s = ((v1.moment(ended, "lastTransitionTime") or now) + timedelta(seconds=job.ttl_s) - now).total_seconds()
    if left_s > 0:
        return ControlPlan(actions, again_s=left_s)
    return ControlPlan([*actions, DeleteObject("jobs", job.value, in_foreground=True)])


def _dropped(pods: Sequence[SeenPod]) -> list[Action]:
    """Delete pods without counting them as failed."""
    return [action for each in pods for action in (_untracked(each), RemovePod(each))]


def _untracked(pod: SeenPod) -> EditPod:
    return EditPod(pod, pod.owners, tuple(each for each in pod.finalizers if each != TRACKING))
