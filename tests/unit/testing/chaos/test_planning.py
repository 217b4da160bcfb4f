"""Plans of chaos by seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import UsageError
from plugbay.testing.chaos.planning import ALWAYS, kinds_of, make_plan
from plugbay.testing.chaos.steps import RANGES, StepKind

seeds = st.integers(0, 2**32)


def test_plan_of_a_seed_is_for_ever() -> None:
    """A seed in a bug report has to mean the same tomorrow: change this only with a word in the changelog."""
    assert [str(step) for step in make_plan(42, length=8)] == [
        "freeze 0.14",
        "remake-directory 0.22",
        "terminate",
        "kill",
        "check",
        "restart 0.42",
        "restart 0.22",
        "restart 0.2",
    ]


@given(seeds)
def test_same_seed_makes_the_same_plan(seed: int) -> None:
    assert make_plan(seed) == make_plan(seed)


@given(seeds, st.sets(st.sampled_from([kind for kind in StepKind if kind not in ALWAYS])))
def test_plan_has_only_the_kinds_that_are_wanted(seed: int, kinds: set[StepKind]) -> None:
    assert {step.kind for step in make_plan(seed, length=30, kinds=kinds)} <= kinds | ALWAYS


@given(seeds)
def test_amounts_are_in_their_ranges(seed: int) -> None:
    for step in make_plan(seed, length=30):
        if step.kind in RANGES:
            assert RANGES[step.kind].low <= step.amount <= RANGES[step.kind].high
        else:
            assert step.amount == 0


@given(seeds)
def test_calm_comes_only_where_it_ends_something(seed: int) -> None:
    is_disturbed = False
    for step in make_plan(seed, length=40):
        if step.kind is StepKind.CALM:
            assert is_disturbed
        if step.kind in (StepKind.CALM, StepKind.CHECK):
            is_disturbed = False
        is_disturbed |= step.kind in (StepKind.SLOW, StepKind.HANG, StepKind.REFUSE)


def test_every_kind_comes_in_some_plan() -> None:
    assert {step.kind for seed in range(20) for step in make_plan(seed)} == set(StepKind)


def test_names_of_kinds() -> None:
    assert kinds_of(["kill", "crash"]) == {StepKind.KILL, StepKind.CRASH}
    assert kinds_of([]) == set(StepKind) - ALWAYS
    with pytest.raises(UsageError, match='there is no fault "calm"; choose from restart, crash'):
        kinds_of(["calm"])
