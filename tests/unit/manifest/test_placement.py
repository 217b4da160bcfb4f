"""Where a pod may be placed: v1 and back, and what may change of it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import ImmutablePod
from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.manifest.update import updated
from plugbay.model.placement import (
    ANYWHERE,
    ORDINARY,
    Expression,
    InclusionPolicy,
    LabelSelector,
    NodeTerm,
    Placement,
    PodTerm,
    PreemptionPolicy,
    SpreadConstraint,
)
from plugbay.model.pods import Pod
from plugbay.model.selectors import Operator
from plugbay.model.taints import Effect, Toleration, TolerationOperator
from plugbay.testing.pod_values import pod

keys = st.sampled_from(["app", "example.com/tier", "kubernetes.io/hostname"])
texts = st.sampled_from(["", "a", "web-2"])
labels = st.dictionaries(keys, texts, max_size=2)
sets = st.builds(
    Expression,
    keys,
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(texts, min_size=1, max_size=2).map(tuple),
)
presences = st.builds(Expression, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]))
bounds = st.builds(
    Expression, keys, st.sampled_from([Operator.GREATER, Operator.LESS]), st.sampled_from([("3",), ("-1",)])
)
selectors = st.builds(LabelSelector, labels, st.lists(sets | presences, max_size=2).map(tuple))
names = st.builds(
    Expression, st.just("metadata.name"), st.sampled_from([Operator.IN, Operator.NOT_IN]), st.just(("n",))
)
node_terms = st.builds(NodeTerm, st.lists(sets | presences | bounds, max_size=2).map(tuple), st.lists(names).map(tuple))
pod_terms = st.builds(
    PodTerm, selectors, keys, st.just(()) | st.just(("lab",)), st.none() | selectors, st.just(()) | st.just(("app",))
)
effects = st.none() | st.sampled_from(Effect)
tolerations = (
    st.builds(Toleration, keys, st.just(None) | st.just(TolerationOperator.EQUAL), texts, effects)
    | st.builds(Toleration, st.just("") | keys, st.just(TolerationOperator.EXISTS), effect=effects)
    | st.builds(Toleration, keys, effect=st.just(Effect.NO_EXECUTE), seconds=st.integers(-1, 9))
)
policies = st.none() | st.sampled_from(InclusionPolicy)
spreads = st.builds(
    SpreadConstraint, st.integers(1, 3), keys, selectors, st.none() | st.integers(1, 3), policies, policies
) | st.builds(SpreadConstraint, st.just(1), keys, is_required=st.just(False))
placements = st.builds(
    Placement,
    labels,
    st.none() | st.lists(node_terms, min_size=1, max_size=2).map(tuple),
    st.lists(pod_terms, max_size=2).map(tuple),
    st.lists(pod_terms, max_size=1).map(tuple),
    st.lists(tolerations, max_size=3).map(tuple),
    st.lists(spreads, max_size=2).map(tuple),
    st.lists(keys, unique=True, max_size=2).map(tuple),
    st.sampled_from(["", "default-scheduler", "volcano"]),
    st.none() | st.integers(-5, 5),
    st.sampled_from(["", "system-node-critical"]),
    st.none() | st.sampled_from(PreemptionPolicy),
)


def placed(placement: Placement) -> Pod:
    there = pod()
    return replace(there, spec=replace(there.spec, placement=placement))


@given(placements)
def test_a_placement_survives_v1(placement: Placement) -> None:
    there = placed(placement)
    assert pod_from_v1(pod_to_v1(there)) == there


def test_pods_that_are_placed_as_most_share_one_value() -> None:
    assert pod_from_v1(pod_to_v1(placed(replace(ORDINARY)))).spec.placement is ORDINARY
    assert pod_from_v1(pod_to_v1(placed(ANYWHERE))).spec.placement is ANYWHERE


def test_preferences_are_shown_again_and_change_nothing() -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    v1: Any = pod_to_v1(placed(ANYWHERE))
    v1["spec"]["affinity"] = affinity
    read = pod_from_v1(v1)
    assert read.spec.placement == ANYWHERE
    assert pod_to_v1(read) == v1


# --- what may change ------------------------------------------------------------------------------------------------


@given(placements)
def test_what_was_filled_in_may_be_left_out(placement: Placement) -> None:
    there = placed(replace(placement, priority=0, scheduler="default-scheduler", preemption=PreemptionPolicy.LOWER))
    wanted = placed(replace(there.spec.placement, priority=None, scheduler="", preemption=None))
    assert updated(there, wanted) == there


def test_default_tolerations_may_be_left_out() -> None:
    assert updated(placed(ORDINARY), placed(ANYWHERE)) == placed(ORDINARY)


def test_tolerations_are_added_and_never_taken_away() -> None:
    one, other = Toleration("a", value="1"), Toleration("b", value="2")
    there = placed(replace(ORDINARY, tolerations=(*ORDINARY.tolerations, one)))
    after = updated(there, placed(Placement(tolerations=(one, other))))
    assert set(after.spec.placement.tolerations) == {*ORDINARY.tolerations, one, other}
    with pytest.raises(ImmutablePod, match=r"spec\.tolerations"):
        updated(there, placed(Placement(tolerations=(other,))))


def test_gates_go_and_do_not_come() -> None:
    gated = placed(replace(ORDINARY, gates=("a", "b")))
    assert updated(gated, placed(Placement(gates=("b",)))).spec.placement.gates == ("b",)
    with pytest.raises(ImmutablePod, match=r"spec\.schedulingGates"):
        updated(gated, placed(Placement(gates=("a", "b", "c"))))


def test_only_a_gated_pod_is_placed_more_narrowly() -> None:
    term = NodeTerm((Expression("disk", Operator.EXISTS),))
    wanted = Placement(gates=("a",), node_selector={"disk": "ssd"}, node_terms=(term,))
    after = updated(placed(replace(ORDINARY, gates=("a",))), placed(wanted)).spec.placement
    assert (after.node_selector, after.node_terms) == ({"disk": "ssd"}, (term,))
    with pytest.raises(ImmutablePod) as caught:
        updated(placed(ORDINARY), placed(replace(wanted, gates=())))
    assert sorted(caught.value.fields) == ["spec.affinity", "spec.nodeSelector"]
    with pytest.raises(ImmutablePod, match=r"spec\.nodeSelector"):
        updated(placed(replace(wanted, gates=("a",))), placed(replace(wanted, node_selector={})))
