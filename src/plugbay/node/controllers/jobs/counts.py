"""The pods of a Job that have ended, counted once each whatever becomes of them. Pure.

A pod keeps its finalizer until the status names its UID; the UID becomes a number only when the finalizer is gone.

Source: Kubernetes 1.36 ``pkg/controller/job/job_controller.go`` (``trackJobStatusAndRemoveFinalizers``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.documents import Json
from plugbay.node.controllers.jobs.failure_policy import FailureAction, judge_failure
from plugbay.node.controllers.jobs.indexes import index_of, read_indexes, write_indexes
from plugbay.node.controllers.jobs.seen import TRACKING, SeenJob
from plugbay.node.controllers.seen_pods import SeenPod
from plugbay.pods.status import PodPhase
from plugbay.printers import v1
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """The ended pods of a Job, with those that are counted only now.

    Attributes:
        succeeded: numbers of pods; of an Indexed Job, of indexes.
        indexes: those completed.
        uncounted: UIDs by ``succeeded`` and ``failed``.
        verdict: the message of the rule that fails the Job; empty if there is none.
        released: pods whose finalizer has done its duty: the status names them, or they do not count.
    """

    succeeded: int
    failed: int
    indexes: frozenset[int]
    uncounted: Mapping[str, tuple[str, ...]]
    verdict: str
    released: tuple[SeenPod, ...]

    @property
    def fields(self) -> Json:
        """These counts as they stand in the status: without the pods that still are uncounted."""
        waiting = {name: len(uids) for name, uids in self.uncounted.items()}
        fields: Json = {"uncountedTerminatedPods": {n: list(uids) for n, uids in self.uncounted.items() if uids}}
        if self.indexes:
            fields["completedIndexes"] = write_indexes(self.indexes)
        succeeded = self.succeeded - (0 if self.indexes else waiting["succeeded"])
        for name, number in (("succeeded", succeeded), ("failed", self.failed - waiting["failed"])):
            if number:
                fields[name] = number
        return fields


def counted(job: SeenJob, pods: Iterable[SeenPod]) -> Counted:
    """``pods`` are the Job's."""
    tracked = {each.uid: each for each in pods if TRACKING in each.finalizers}
    uncounted: dict[str, tuple[str, ...]] = {}
    totals: dict[str, int] = {}
    for name in ("succeeded", "failed"):
        waiting = job.uncounted(name)
        uncounted[name] = tuple(uid for uid in waiting if uid in tracked)
        totals[name] = v1.number(job.status, name) + len(waiting)
    indexes = set(read_indexes(v1.text(job.status, "completedIndexes")))
    known = {uid for uids in uncounted.values() for uid in uids}
    verdict = ""
    released = [tracked[uid] for uid in known]
    for pod in (each for each in tracked.values() if each.uid not in known):
        name = _outcome(pod, job)
        index = index_of(pod) if job.is_indexed else None
        judged = judge_failure(pod, job.rules)
        if not name:
            continue
        if name == "failed" and judged.action is FailureAction.FAIL_JOB:
            verdict = verdict or judged.message
        if (name == "failed" and judged.action is FailureAction.IGNORE) or (name == "succeeded" and index in indexes):
            released.append(pod)
            continue
        totals[name] += 1
        uncounted[name] += (pod.uid,)
        if name == "succeeded" and index is not None:
            indexes.add(index)
    succeeded = len(indexes) if job.is_indexed else totals["succeeded"]
    return Counted(succeeded, totals["failed"], frozenset(indexes), uncounted, verdict, tuple(released))


def _outcome(pod: SeenPod, job: SeenJob) -> str:
    """``succeeded`` or ``failed``; empty for a pod that may still do either."""
    if pod.phase is PodPhase.SUCCEEDED:
        return "succeeded"
    # What is being deleted cannot succeed any more; a pod that never started does not even come to fail.
    is_lost = pod.is_deleting and (not job.replaces_failed_only or pod.phase is PodPhase.PENDING)
    if pod.phase is PodPhase.FAILED or is_lost:
        return "failed"
    return ""
