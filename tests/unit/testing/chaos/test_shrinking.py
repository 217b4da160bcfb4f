"""Shrinking: short, failing, and with few trials."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from plugbay.testing.chaos.shrinking import Trials, shrink

Fails = Callable[[tuple[int, ...]], bool]


def shrunk(failing: list[int], fails: Fails) -> tuple[tuple[int, ...], int]:
    """The result, and the number of trials."""
    search: Trials[int] = shrink(failing)
    trials = 0
    try:
        candidate = next(search)
        while True:
            trials += 1
            candidate = search.send(fails(candidate))
    except StopIteration as end:
        return end.value, trials


def has_in_order(wanted: list[int]) -> Fails:
    def fails(candidate: tuple[int, ...]) -> bool:
        rest = iter(candidate)
        return all(item in rest for item in wanted)

    return fails


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60, unique=True), st.data())
def test_only_what_is_needed_is_left(items: list[int], data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.sampled_from(items), min_size=1, max_size=4))
    wanted = [item for item in items if item in needed]
    result, trials = shrunk(items, has_in_order(wanted))
    assert list(result) == wanted
    assert trials <= 8 * (len(wanted) + 1) * 7


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.randoms())
def test_no_single_item_of_the_result_can_be_left_out(items: list[int], dice: object) -> None:
    def fails(candidate: tuple[int, ...]) -> bool:
        return sum(candidate) >= sum(items) / 2 and len(candidate) > 0

    result, _ = shrunk(items, fails)
    assert fails(result)
    assert not any(fails(result[:at] + result[at + 1 :]) for at in range(len(result)))


def test_what_fails_without_any_step_is_found_at_once() -> None:
    assert shrunk(list(range(50)), lambda _: True) == ((), 1)


def test_what_never_fails_again_stays_as_it_is() -> None:
    result, _ = shrunk([1, 2, 3], lambda _: False)
    assert result == (1, 2, 3)


def test_nothing_shrinks_to_nothing_without_a_trial() -> None:
    assert shrunk([], lambda _: True) == ((), 0)
