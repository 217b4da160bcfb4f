"""Whether a Job has reached its end, and why. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job/job_controller.go`` (``syncJob``, ``pastBackoffLimitOnFailure``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from plugbay.node.controllers.conditions import condition, is_true
from plugbay.node.controllers.jobs.counts import Counted
from plugbay.node.controllers.jobs.seen import SeenJob
from plugbay.node.controllers.seen_pods import SeenPod
from plugbay.printers import v1
from plugbay.values import dataclass

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"


@dataclass(frozen=True, slots=True)
class JobEnding:
    """``target`` is the condition that tells of the end while pods are still there: `SUCCESS` or `FAILURE`."""

    target: str
    reason: str
    message: str

    @property
    def final(self) -> str:
        """The condition of a Job that has ended."""
        return "Complete" if self.target == SUCCESS else "Failed"


def ending(job: SeenJob, counts: Counted, pods: Sequence[SeenPod], now: datetime) -> JobEnding | None:
    """The end that the Job comes to; None while it works. What was decided once stays."""
    for target in (FAILURE, SUCCESS):
        if is_true(job.value, target):
            known = condition(job.value, target) or {}
            return JobEnding(target, v1.text(known, "reason"), v1.text(known, "message"))
    if counts.verdict:
        return JobEnding(FAILURE, "PodFailurePolicy", counts.verdict)
    if counts.failed > job.backoff_limit or _restarted_too_often(job, pods):
        return JobEnding(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (left_s := deadline_left_s(job, now)) is not None and left_s <= 0:
        return JobEnding(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
    if job.is_suspended or any(each.is_active for each in pods):
        return None
    reached = counts.succeeded > 0 if job.completions is None else counts.succeeded >= job.completions
    if reached:
        return JobEnding(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def deadline_left_s(job: SeenJob, now: datetime) -> float | None:
    """The seconds until the deadline; None if there is none."""
    if job.deadline_s is None or job.started_at is None or job.is_suspended:
        return None
    return (job.started_at + timedelta(seconds=job.deadline_s) - now).total_seconds()


def _restarted_too_often(job: SeenJob, pods: Sequence[SeenPod]) -> bool:
    if not job.restarts_containers:
        return False
    restarts = sum(each.restarts for each in pods if not each.is_over)
    return restarts >= job.backoff_limit if job.backoff_limit else restarts > 0
