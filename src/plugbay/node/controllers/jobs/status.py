"""The status of a Job. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job/job_controller.go`` (``trackJobStatusAndRemoveFinalizers``,
``enactJobFinished``, ``ensureJobConditionStatus``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.node.controllers.actions import Children, StatusOutcome, Tell
from plugbay.node.controllers.conditions import find_condition, made_condition, with_condition
from plugbay.node.controllers.jobs.counts import Counted, counted
from plugbay.node.controllers.jobs.ending import SUCCESS, JobEnding, deadline_left_s, ending
from plugbay.node.controllers.jobs.seen import TRACKING, SeenJob
from plugbay.node.controllers.seen_pods import SeenPod
from plugbay.pods.status import timestamp
from plugbay.printers import v1

_SECOND: Final = "lastProbeTime"


def job_status(value: Json, children: Children, now: datetime, *, problem: str = "") -> StatusOutcome:
    """``problem`` is told by an event; a Job has no condition for it."""
    job = SeenJob(value)
    if job.is_finished or job.is_deleting:
        return StatusOutcome(job.status)
    pods = job.claim.owned(children.pods)
    counts = counted(job, pods)
    conditions, events = _with_suspension(job, now)
    started_at = job.status.get("startTime")
    was_suspended = (find_condition(v1.objects(job.status, "conditions"), "Suspended") or {}).get("status") == "True"
    if not job.is_suspended and (started_at is None or was_suspended):
        started_at = timestamp(now)
    status: Json = {"conditions": conditions} if conditions else {}
    if started_at is not None:
        status["startTime"] = started_at
    status |= _numbers(pods) | counts.fields
    if (end := ending(job, counts, pods, now)) is not None:
        finished, more = _finished(job, end, counts, pods, conditions, now)
        return StatusOutcome({**status, **finished}, events=[*events, *more])
    running = SeenJob({**value, "status": status})
    return StatusOutcome(status, deadline_left_s(running, now), events)


def _numbers(pods: Sequence[SeenPod]) -> Json:
    active = [each for each in pods if each.is_active]
    numbers: Json = {
        "ready": sum(each.ready_since is not None for each in active),
        "terminating": sum(each.is_deleting and not each.is_over for each in pods),
    }
    return {"active": len(active), **numbers} if active else numbers


def _with_suspension(job: SeenJob, now: datetime) -> tuple[list[Json], list[Tell]]:
    conditions = v1.objects(job.status, "conditions")
    before = (find_condition(conditions, "Suspended") or {}).get("status")
    if job.is_suspended and before != "True":
        made = made_condition("Suspended", "True", "JobSuspended", "Job suspended", now, moment=_SECOND)
        return with_condition(conditions, made), [Tell("Suspended", "Job suspended")]
    if not job.is_suspended and before == "True":
        made = made_condition("Suspended", "False", "JobResumed", "Job resumed", now, moment=_SECOND)
        return with_condition(conditions, made), [Tell("Resumed", "Job resumed")]
    return conditions, []


def _finished(
    job: SeenJob, end: JobEnding, counts: Counted, pods: Sequence[SeenPod], conditions: list[Json], now: datetime
) -> tuple[Json, list[Tell]]:
    """Add an end to the status: at first its target, and the end itself when no pod is left to wait for."""
    conditions = with_condition(
        conditions, made_condition(end.target, "True", end.reason, end.message, now, moment=_SECOND)
    )
    is_waiting = any(not each.is_over or TRACKING in each.finalizers for each in pods)
    if is_waiting or any(counts.uncounted.values()):
        return {"conditions": conditions}, []
    done = made_condition(end.final, "True", end.reason, end.message, now, moment=_SECOND)
    fields: Json = {"conditions": with_condition(conditions, done)}
    if end.target == SUCCESS:
        fields["completionTime"] = timestamp(now)
        return fields, [Tell("Completed", "Job completed")]
    return fields, [Tell(end.reason, end.message, is_warning=True)]
