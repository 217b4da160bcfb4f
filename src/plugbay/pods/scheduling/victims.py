"""Which pods make room for a more important one. Pure.

Source: Kubernetes 1.36 ``scheduler/framework/plugins/defaultpreemption/default_preemption.go``,
``scheduler/util/utils.go`` (MoreImportantPod). There are no disruption budgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from plugbay.model.pods import Pod
from plugbay.pods.record import PodRecord
from plugbay.pods.scheduling.fitting import NO_VICTIMS, Misfit, Outlook, misfit

NOT_ELIGIBLE = "not eligible due to preemptionPolicy=Never."


def priority(pod: Pod) -> int:
    return pod.spec.placement.priority or 0


def victims(pod: Pod, view: Outlook, there: Iterable[PodRecord], *, now: datetime) -> list[PodRecord] | Misfit:
    """The pods that have to go for ``pod``: as few and as unimportant as possible, the most important first.

    Args:
        there: the records of the pods on the node.

    Returns:
        The reason why none could go, or why that would not help, instead.
    """
    candidates = [record for record in there if priority(record.pod) < priority(pod)]
    if not candidates:
        return Misfit((NO_VICTIMS,))
    gone = {record.uid for record in candidates}
    if (left := misfit(pod, replace(view, without=gone))) is not None:
        return left
    chosen = []
    for record in sorted(candidates, key=lambda each: (-priority(each.pod), each.started_at or now)):
        gone.discard(record.uid)
        if misfit(pod, replace(view, without=gone)) is not None:
            gone.add(record.uid)
            chosen.append(record)
    return chosen
