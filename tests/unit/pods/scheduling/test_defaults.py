"""What an API server fills in of a new pod's placement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.errors import PodForbidden
from plugbay.model.placement import ANYWHERE, ORDINARY, Placement, PreemptionPolicy
from plugbay.model.pods import Pod
from plugbay.model.taints import DEFAULT_TOLERATIONS, Toleration, TolerationOperator
from plugbay.pods.scheduling.defaults import BUILT_IN_CLASSES, PriorityClass, filled_in
from plugbay.testing.pod_values import pod

NEVER = PreemptionPolicy.NEVER
CLASSES = {
    **BUILT_IN_CLASSES,
    "high": PriorityClass("high", 1000),
    "polite": PriorityClass("polite", 10, NEVER),
}


def placed(placement: Placement) -> Pod:
    there = pod()
    return replace(there, spec=replace(there.spec, placement=placement))


def test_most_pods_share_one_placement() -> None:
    assert filled_in(placed(ANYWHERE), CLASSES).spec.placement is ORDINARY
    assert filled_in(placed(Placement(priority=0)), CLASSES).spec.placement is ORDINARY


def test_the_class_brings_priority_and_policy() -> None:
    filled = filled_in(placed(Placement(priority_class="polite")), CLASSES).spec.placement
    assert (filled.priority, filled.preemption) == (10, NEVER)
    critical = filled_in(placed(Placement(priority_class="system-node-critical")), CLASSES).spec.placement
    assert critical.priority == 2000001000


def test_one_class_counts_for_pods_that_name_none() -> None:
    classes = {**CLASSES, "usual": PriorityClass("usual", 7, is_default=True)}
    filled = filled_in(placed(ANYWHERE), classes).spec.placement
    assert (filled.priority, filled.priority_class) == (7, "usual")


@pytest.mark.parametrize(
    ("placement", "problem"),
    [
        (Placement(priority_class="none"), "no PriorityClass with name none was found"),
        (
            Placement(priority_class="high", priority=5),
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 1000 from the given PriorityClass name",
        ),
        (
            Placement(priority_class="high", preemption=NEVER),
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
    ids=["unknown", "priority", "policy"],
)
def test_a_pod_cannot_choose_its_priority(placement: Placement, problem: str) -> None:
    with pytest.raises(PodForbidden) as caught:
        filled_in(placed(placement), CLASSES)
    assert str(caught.value) == f'pods "p" is forbidden: {problem}'


def test_what_the_pod_says_stays() -> None:
    toleration = Toleration("gpu", TolerationOperator.EXISTS)
    filled = filled_in(placed(Placement(scheduler="volcano", tolerations=(toleration,))), CLASSES).spec.placement
    assert (filled.scheduler, filled.tolerations) == ("volcano", (toleration, *DEFAULT_TOLERATIONS))
    assert filled_in(placed(filled), CLASSES).spec.placement == filled
