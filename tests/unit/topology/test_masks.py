"""Sets of NUMA nodes."""

from hypothesis import given
from hypothesis import strategies as st

from plugbay.topology.masks import closeness, mask_of, narrowness, nodes_of

MASKS = st.integers(1, 2**64 - 1)


@given(st.sets(st.integers(0, 63)))
def test_a_mask_holds_the_nodes_it_was_made_of(nodes: set[int]) -> None:
    assert list(nodes_of(mask_of(nodes))) == sorted(nodes)


@given(MASKS, MASKS)
def test_fewer_nodes_are_fitter_and_then_the_smaller_value(one: int, other: int) -> None:
    fewer = one.bit_count() < other.bit_count() or (one.bit_count() == other.bit_count() and one < other)
    assert (narrowness(one) < narrowness(other)) == fewer


def test_close_nodes_are_fitter_than_far_ones_but_not_than_fewer() -> None:
    fitness = closeness({0: {0: 10, 1: 31, 2: 11}, 1: {0: 31, 1: 10, 2: 31}, 2: {0: 11, 1: 31, 2: 10}})
    assert fitness(0b101) < fitness(0b011)
    assert fitness(0b010) < fitness(0b101)
    assert fitness(0b011) < fitness(0b110), "equal distances: the smaller value"
