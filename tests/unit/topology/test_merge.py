"""The merge of hints: as every combination would have it, as a kubelet has it, and quick."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.topology import merge as merging
from plugbay.topology.hints import DONT_CARE, IMPOSSIBLE, Hint, Hints
from plugbay.topology.masks import Fitness, Mask, closeness, mask_of, narrowness
from plugbay.topology.merge import hint_lists, merge
from plugbay.topology.policies import PolicyKind, PolicyVerdict, TopologyPolicy
from tests.unit.topology.literal_merge import literal_merge

GOLDEN: Final = Path(__file__).parents[2] / "golden/numa-topology/merge-cases.json"


def hint(*nodes: int, preferred: bool) -> Hint:
    return Hint(mask_of(nodes), preferred)


# --- against a kubelet ----------------------------------------------------------------------------------------------


def golden_hint(written: Any) -> Hint:
    nodes = written["nodes"]
    return Hint(None if nodes is None else mask_of(nodes), written["preferred"])


def golden_hints(written: Any) -> Hints:
    return None if written is None else [golden_hint(each) for each in written]


def golden_fitness(case: Any) -> Fitness:
    if not case["prefer_closest"]:
        return narrowness
    return closeness({int(node): dict(enumerate(row)) for node, row in case["distances"].items()})


def test_kubelets_verdicts_are_ours() -> None:
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(cases) == 300
    for case in cases:
        policy = TopologyPolicy(
            PolicyKind(case["policy"]), default=mask_of(case["numa_nodes"]), fitness=golden_fitness(case)
        )
        resources = [golden_hints(hints) for provider in case["providers"] for hints in provider.values()]
        assert policy.decide(resources) == PolicyVerdict(golden_hint(case["result"]), case["admit"]), case


# --- against every combination --------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[list[Hint]], dict[int, dict[int, int]]]:
    """Nodes with gaps, up to four lists, some with hints without a mask or outside the machine, and distances."""
    nodes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(sorted))
    masks = st.sets(st.sampled_from([*nodes, 10])).map(mask_of)
    hints = st.builds(Hint, st.none() | masks, st.booleans())
    lists = draw(st.lists(st.lists(hints, max_size=6), min_size=1, max_size=4))
    far = st.sampled_from([11, 12, 20, 21])
    distances = {one: {other: 10 if one == other else draw(far) for other in nodes} for one in nodes}
    return nodes, lists, distances


@given(cases())
def test_fold_finds_what_every_combination_finds(case: tuple[list[int], list[list[Hint]], Any]) -> None:
    nodes, lists, distances = case
    default = mask_of(nodes)
    assert merge(lists, default=default, fitness=narrowness) == literal_merge(lists, nodes, None)
    assert merge(lists, default=default, fitness=closeness(distances)) == literal_merge(lists, nodes, distances)


@given(st.integers(0, 5).flatmap(lambda seed: st.permutations(range(6)).map(lambda order: (seed, order))))
def test_order_of_resources_is_irrelevant(seeded: tuple[int, Sequence[int]]) -> None:
    seed, order = seeded
    lists = [dense_hints(range(4), smallest=(number + seed) % 4 + 1) for number in range(6)]
    expected = merge(lists, default=0b1111, fitness=narrowness)
    assert merge([lists[index] for index in order], default=0b1111, fitness=narrowness) == expected


def dense_hints(nodes: Sequence[int], *, smallest: int) -> list[Hint]:
    """All sets of at least ``smallest`` nodes."""
    return [
        hint(*subset, preferred=size == smallest)
        for size in range(smallest, len(nodes) + 1)
        for subset in combinations(nodes, size)
    ]


@pytest.mark.parametrize("smallest", [(1, 1, 1, 1, 1, 1), (1, 2, 3, 4, 2, 1), (4, 4, 4, 4, 4, 5)], ids=str)
def test_eight_nodes_and_six_resources_have_an_answer(smallest: Sequence[int]) -> None:
    """10^14 combinations; the bench ``topology`` says how long it takes."""
    lists = [dense_hints(range(8), smallest=size) for size in smallest]
    merged = merge(lists, default=0xFF, fitness=narrowness)
    best = max(smallest)
    assert merged == Hint(mask_of(range(best)), len(set(smallest)) == 1)


# --- cases of the specification -------------------------------------------------------------------------------------


def test_s112_lists_that_agree_on_a_node_get_it() -> None:
    free = [hint(0, preferred=True), hint(1, preferred=True), hint(0, 1, preferred=False)]
    bound = [hint(0, preferred=True), hint(0, 1, preferred=False)]
    assert merge([free, bound], default=0b11, fitness=narrowness) == hint(0, preferred=True)


def test_s113_lists_without_a_common_node_get_all_nodes_unpreferred() -> None:
    apart = [[hint(0, preferred=True)], [hint(1, preferred=True)]]
    assert merge(apart, default=0b11, fitness=narrowness) == hint(0, 1, preferred=False)
    with_another = [[*apart[0], hint(0, 1, preferred=False)], apart[1]]
    assert merge(with_another, default=0b11, fitness=narrowness) == hint(1, preferred=False)


def test_s116_closer_nodes_win_if_that_is_wanted() -> None:
    distances = {0: {0: 10, 1: 21, 2: 11}, 1: {0: 21, 1: 10, 2: 21}, 2: {0: 11, 1: 21, 2: 10}}
    pairs = [[hint(0, 1, preferred=True), hint(0, 2, preferred=True)]]
    assert merge(pairs, default=0b111, fitness=narrowness) == hint(0, 1, preferred=True)
    assert merge(pairs, default=0b111, fitness=closeness(distances)) == hint(0, 2, preferred=True)


def test_a_list_that_became_empty_makes_everything_impossible() -> None:
    assert merge([[DONT_CARE], []], default=0b11, fitness=narrowness) == hint(0, 1, preferred=False)


def test_silence_and_impossibility_are_hints_too() -> None:
    assert hint_lists([]) == [(DONT_CARE,)]
    assert hint_lists([None, (), (hint(0, preferred=True),)]) == [
        (DONT_CARE,),
        (IMPOSSIBLE,),
        (hint(0, preferred=True),),
    ]


@given(*[st.sets(st.integers(0, 255), min_size=1, max_size=12)] * 2)
def test_sets_that_are_parted_meet_as_their_pairs_do(some: set[int], others: set[int]) -> None:
    """The short way is for sets that are larger than those of the other tests; here all are parted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_FEW_PAIRS", 1)
        met = merging._meets({Mask(each) for each in some}, {Mask(each) for each in others})
    assert met == {one & other for one in some for other in others}
