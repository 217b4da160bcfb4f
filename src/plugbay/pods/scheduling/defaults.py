"""The defaults of a new pod's placement, as an API server fills them in: priority, tolerations, scheduler. Pure.

Source: Kubernetes 1.36 ``plugin/pkg/admission/priority/admission.go``, ``defaulttolerationseconds/admission.go``,
``pkg/apis/core/v1/defaults.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plugbay.errors import PodForbidden
from plugbay.model.placement import ANYWHERE, DEFAULT_SCHEDULER, ORDINARY, PreemptionPolicy
from plugbay.model.pods import Pod
from plugbay.model.taints import with_default_tolerations
from plugbay.values import dataclass

SYSTEM_CRITICAL: Final = 2_000_000_000
"""Pods of this priority and above are critical to a kubelet."""


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A class of pods by their importance.

    Attributes:
        is_default: whether it counts for pods that name no class.
    """

    name: str
    value: int
    preemption: PreemptionPolicy = PreemptionPolicy.LOWER
    is_default: bool = False


BUILT_IN_CLASSES: Final[Mapping[str, PriorityClass]] = {
    each.name: each
    for each in (
        PriorityClass("system-cluster-critical", SYSTEM_CRITICAL),
        PriorityClass("system-node-critical", SYSTEM_CRITICAL + 1000),
    )
}


def filled_in(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """``pod`` with the placement that an API server gives it.

    Raises:
        PodForbidden: it names a class that does not exist, or a priority that its class does not have.
    """
    default = _default_class(classes)
    if pod.spec.placement is ANYWHERE and default is None:
        return replace(pod, spec=replace(pod.spec, placement=ORDINARY))
    placement = pod.spec.placement
    chosen = classes.get(placement.priority_class) if placement.priority_class else default
    if placement.priority_class and chosen is None:
        raise PodForbidden(pod.name, f"no PriorityClass with name {placement.priority_class} was found")
    value = chosen.value if chosen else 0
    policy = chosen.preemption if chosen else PreemptionPolicy.LOWER
    computed = "must not be provided in pod spec; priority admission controller computed"
    if placement.priority not in (None, value):
        problem = f"the integer value of priority ({placement.priority}) {computed} {value}"
        raise PodForbidden(pod.name, f"{problem} from the given PriorityClass name")
    if placement.preemption not in (None, policy):
        problem = f"the string value of PreemptionPolicy ({placement.preemption.value}) {computed} {policy.value}"
        raise PodForbidden(pod.name, f"{problem} from the given PriorityClass name")
    filled = replace(
        placement,
        priority=value,
        priority_class=chosen.name if chosen else "",
        preemption=policy,
        scheduler=placement.scheduler or DEFAULT_SCHEDULER,
        tolerations=with_default_tolerations(placement.tolerations),
    )
    return replace(pod, spec=replace(pod.spec, placement=ORDINARY if filled == ORDINARY else filled))


def _default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """The class for pods that name none; if several want to be it, the lowest value counts."""
    return min((each for each in classes.values() if each.is_default), key=lambda each: each.value, default=None)
