from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.taints import (
    DEFAULT_TOLERATIONS,
    KEEPS_AWAY,
    Effect,
    Taint,
    Toleration,
    TolerationOperator,
    tolerated_for_s,
    untolerated,
    with_default_tolerations,
)

EXISTS = TolerationOperator.EXISTS
GPU = Taint("gpu", Effect.NO_SCHEDULE, "a100")
SLOW = Taint("slow", Effect.NO_EXECUTE)
RATHER_NOT = Taint("rather-not", Effect.PREFER_NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("gpu", value="a100"), True),
        (Toleration("gpu", TolerationOperator.EQUAL, "a100", Effect.NO_SCHEDULE), True),
        (Toleration("gpu", value="h100"), False),
        (Toleration("gpu"), False),
        (Toleration("gpu", EXISTS), True),
        (Toleration("gpu", EXISTS, effect=Effect.NO_EXECUTE), False),
        (Toleration(operator=EXISTS), True),
        (Toleration(operator=EXISTS, effect=Effect.NO_SCHEDULE), True),
        (Toleration("cpu", EXISTS), False),
    ],
    ids=str,
)
def test_a_toleration_tolerates(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(GPU) is tolerates


def test_a_preference_keeps_no_pod_away() -> None:
    assert untolerated((RATHER_NOT,), (), KEEPS_AWAY) is None
    assert untolerated((RATHER_NOT, SLOW, GPU), (), KEEPS_AWAY) == SLOW
    assert untolerated((SLOW, GPU), (Toleration("slow", EXISTS),), KEEPS_AWAY) == GPU


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ((), 0),
        ((Toleration("slow", EXISTS),), None),
        ((Toleration("slow", EXISTS, effect=Effect.NO_EXECUTE, seconds=5),), 5),
        ((Toleration("slow", EXISTS, effect=Effect.NO_EXECUTE, seconds=-5),), 0),
        ((Toleration("slow", EXISTS), Toleration("slow", EXISTS, effect=Effect.NO_EXECUTE, seconds=5)), 5),
    ],
    ids=str,
)
def test_a_pod_may_stay_for(tolerations: tuple[Toleration, ...], seconds: float | None) -> None:
    assert tolerated_for_s((GPU, RATHER_NOT, SLOW), tolerations) == seconds


def test_other_taints_drive_no_pod_away() -> None:
    assert tolerated_for_s((GPU, RATHER_NOT), ()) is None


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        ((), 2),
        ((Toleration("gpu", EXISTS),), 2),
        ((Toleration(operator=EXISTS),), 0),
        ((Toleration(operator=EXISTS, effect=Effect.NO_EXECUTE),), 0),
        ((Toleration(operator=EXISTS, effect=Effect.NO_SCHEDULE),), 2),
        ((Toleration("node.kubernetes.io/not-ready", EXISTS, effect=Effect.NO_EXECUTE, seconds=1),), 1),
        ((Toleration("node.kubernetes.io/unreachable"),), 1),
    ],
    ids=str,
)
def test_defaults_are_added_where_nothing_is_said(tolerations: tuple[Toleration, ...], added: int) -> None:
    filled = with_default_tolerations(tolerations)
    assert filled[: len(tolerations)] == tolerations
    assert len(filled) == len(tolerations) + added
    assert set(filled[len(tolerations) :]) <= set(DEFAULT_TOLERATIONS)


@given(st.lists(st.builds(Toleration, st.sampled_from(["", "a", "node.kubernetes.io/not-ready"]), st.just(EXISTS))))
def test_defaults_are_added_once(tolerations: list[Toleration]) -> None:
    filled = with_default_tolerations(tuple(tolerations))
    assert with_default_tolerations(filled) == filled
