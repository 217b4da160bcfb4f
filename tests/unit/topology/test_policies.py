"""The policies' verdicts."""

from __future__ import annotations

import pytest

from plugbay.topology.hints import Hint, Hints
from plugbay.topology.policies import PolicyKind, PolicyVerdict, TopologyPolicy

NODE_0 = Hint(0b01, True)
NODE_1 = Hint(0b10, True)
BOTH = Hint(0b11, True)
BOTH_AT_WORST = Hint(0b11, False)
ANYWHERE = Hint(None, True)
NOWHERE = Hint(None, False)

EITHER = (NODE_0, NODE_1, BOTH_AT_WORST)
"""One device on each of two nodes, one asked for."""


@pytest.mark.parametrize(
    ("resources", "best_effort", "restricted", "single"),
    [
        pytest.param([EITHER], (NODE_0, True), (NODE_0, True), (NODE_0, True), id="one-of-either"),
        pytest.param([(BOTH,)], (BOTH, True), (BOTH, True), (NOWHERE, False), id="both"),
        pytest.param(
            [(BOTH_AT_WORST,)], (BOTH_AT_WORST, True), (BOTH_AT_WORST, False), (NOWHERE, False), id="s102-one-in-use"
        ),
        pytest.param([None], (BOTH, True), (BOTH, True), (ANYWHERE, True), id="s099-no-topology"),
        pytest.param([()], (BOTH_AT_WORST, True), (BOTH_AT_WORST, False), (NOWHERE, False), id="all-in-use"),
        pytest.param([], (BOTH, True), (BOTH, True), (ANYWHERE, True), id="nothing-asked-for"),
        pytest.param(
            [(BOTH,), None], (BOTH, True), (BOTH, True), (NOWHERE, False), id="s114-both-beside-one-who-does-not-care"
        ),
        pytest.param(
            [(NODE_0,), (NODE_1,)],
            (BOTH_AT_WORST, True),
            (BOTH_AT_WORST, False),
            (NOWHERE, False),
            id="s113-nothing-in-common",
        ),
    ],
)
def test_verdicts_on_two_nodes(
    resources: list[Hints], best_effort: tuple[Hint, bool], restricted: tuple[Hint, bool], single: tuple[Hint, bool]
) -> None:
    def verdict(kind: PolicyKind) -> PolicyVerdict:
        return TopologyPolicy(kind, default=0b11).decide(resources)

    assert verdict(PolicyKind.BEST_EFFORT) == PolicyVerdict(*best_effort)
    assert verdict(PolicyKind.RESTRICTED) == PolicyVerdict(*restricted)
    assert verdict(PolicyKind.SINGLE_NUMA_NODE) == PolicyVerdict(*single)
    assert verdict(PolicyKind.NONE) == PolicyVerdict(ANYWHERE, True)


def test_s115_one_node_satisfies_single_numa_node_and_nobody_has_to_care() -> None:
    policy = TopologyPolicy(PolicyKind.SINGLE_NUMA_NODE, default=0b1)
    assert policy.decide([(NODE_0,), None]) == PolicyVerdict(ANYWHERE, True)
    assert policy.decide([()]) == PolicyVerdict(NOWHERE, False)
