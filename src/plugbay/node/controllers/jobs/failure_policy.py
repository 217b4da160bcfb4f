"""The policy for failed pods of a Job: which failures count, and which end the Job. Pure.

Source: Kubernetes 1.36 ``pkg/controller/job/pod_failure_policy.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from plugbay.documents import Json
from plugbay.node.controllers.seen_pods import SeenPod
from plugbay.pods.status import PodPhase
from plugbay.printers import v1
from plugbay.values import dataclass


class FailureAction(Enum):
    FAIL_JOB = "FailJob"
    IGNORE = "Ignore"
    COUNT = "Count"


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """The consequence of a pod's failure; ``message`` tells why the Job fails, if it does."""

    action: FailureAction
    message: str = ""


COUNTED = PodVerdict(FailureAction.COUNT)


def judge_failure(pod: SeenPod, rules: Sequence[Json]) -> PodVerdict:
    """The first rule that fits decides; without one the failure counts."""
    if pod.phase is not PodPhase.FAILED:
        return COUNTED
    for index, rule in enumerate(rules):
        if (why := _fitting(pod, rule)) is not None:
            action = FailureAction(v1.text(rule, "action"))
            return PodVerdict(action, f"{why} matching {action.value} rule at index {index}")
    return COUNTED


def _fitting(pod: SeenPod, rule: Json) -> str | None:
    """The reason why a rule fits; None if it does not."""
    if exits := v1.mapping(rule, "onExitCodes"):
        for name, code in pod.exit_codes.items():
            if code and v1.text(exits, "containerName") in ("", name) and _holds(exits, code):
                return f"Container {name} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
        return None
    for wanted in v1.objects(rule, "onPodConditions"):
        kind = v1.text(wanted, "type")
        if (kind, v1.text(wanted, "status") or "True") in pod.conditions:
            return f"Pod {pod.namespace}/{pod.name} has condition {kind}"
    return None


def _holds(exits: Json, code: int) -> bool:
    values = exits.get("values")
    is_listed = isinstance(values, list) and code in values
    return is_listed == (v1.text(exits, "operator") == "In")
