"""The node's predicates, in the kubelet's order and words."""

from __future__ import annotations

import pytest

from plugbay.model.ids import ResourceName
from plugbay.pods.record import Rejection
from plugbay.pods.scheduling.predicates import raised, resources_fit

GOPHER = "example.com/gopher"
ALLOCATABLE = {"cpu": 2000, "memory": 10, "pods": 2, GOPHER: 1}


@pytest.mark.parametrize(
    ("needed", "used", "reason"),
    [
        pytest.param({"cpu": 2000, "pods": 1, GOPHER: 1}, {}, None, id="fits"),
        pytest.param({GOPHER: 1}, {GOPHER: 1}, f"OutOf{GOPHER}", id="used-by-others"),
        pytest.param({GOPHER: 2, "memory": 11, "cpu": 2001, "pods": 1}, {"pods": 2}, "OutOfpods", id="pods-first"),
        pytest.param({GOPHER: 2, "memory": 11, "cpu": 2001}, {}, "OutOfcpu", id="then-cpu"),
        pytest.param({GOPHER: 2, "memory": 11}, {}, "OutOfmemory", id="then-memory"),
        pytest.param({"a.example/b": 9, GOPHER: 2}, {}, f"OutOf{GOPHER}", id="unknown-extended-resource-passes"),
        pytest.param({"hugepages-2Mi": 1}, {}, "OutOfhugepages-2Mi", id="other-unknown-resource-does-not"),
        pytest.param({GOPHER: 0, "hugepages-2Mi": 0}, {GOPHER: 5}, None, id="nothing-always-fits"),
    ],
)
def test_first_lack_rejects(needed: dict[str, int], used: dict[str, int], reason: str | None) -> None:
    rejection = resources_fit(needed, used=used, allocatable=ALLOCATABLE)
    assert (rejection.reason if rejection else None) == reason


def test_rejection_names_the_numbers() -> None:
    assert resources_fit({"cpu": 64000}, used={"cpu": 1}, allocatable=ALLOCATABLE) == Rejection(
        "OutOfcpu", "Node didn't have enough resource: cpu, requested: 64000, used: 1, capacity: 2000"
    )


def test_what_is_in_use_counts_as_allocatable() -> None:
    in_use = {ResourceName(GOPHER): 3, ResourceName("a.example/b"): 1}
    assert raised(ALLOCATABLE, in_use) == {**ALLOCATABLE, GOPHER: 3, "a.example/b": 1}
    assert raised({GOPHER: 5}, in_use)[GOPHER] == 5
