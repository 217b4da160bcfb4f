from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation import bitsets

ranks = st.sets(st.integers(0, 300))


@given(ranks)
def test_members_gives_back_what_from_ranks_took(chosen: set[int]) -> None:
    assert list(bitsets.members(bitsets.from_ranks(chosen))) == sorted(chosen)


@given(ranks)
def test_select_picks_the_items_at_the_ranks(chosen: set[int]) -> None:
    items = [f"item {rank}" for rank in range(301)]
    assert bitsets.select(bitsets.from_ranks(chosen), items) == [items[rank] for rank in sorted(chosen)]


@given(st.lists(st.booleans(), max_size=300))
def test_from_flags_is_the_set_of_true_positions(flags: list[bool]) -> None:
    assert bitsets.from_flags(flags) == bitsets.from_ranks(rank for rank, flag in enumerate(flags) if flag)


@given(ranks, st.integers(-1, 301))
def test_take_lowest_takes_the_lowest_and_no_more_than_asked(chosen: set[int], count: int) -> None:
    taken = bitsets.take_lowest(bitsets.from_ranks(chosen), count)
    assert list(bitsets.members(taken)) == sorted(chosen)[: max(count, 0)]


def test_many_ranks_are_the_same_set_in_any_order() -> None:
    chosen = [*range(999, 0, -3), 999]
    assert bitsets.from_ranks(chosen) == sum(1 << rank for rank in set(chosen))
    assert bitsets.from_ranks([]) == 0
