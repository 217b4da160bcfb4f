from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import UsageError
from plugbay.manager.gates import GATES, FeatureGates, Gate, GateStage, Lock, changed_in_vain, parse_feature_gates

FREE = sorted((gate for gate, spec in GATES.items() if spec.lock is Lock.NONE), key=lambda gate: gate.value)


def test_every_gate_has_a_row() -> None:
    assert set(GATES) == set(Gate)


def test_defaults_are_those_of_the_table() -> None:
    gates = FeatureGates()
    assert {gate: gates.is_enabled(gate) for gate in Gate} == {gate: spec.default for gate, spec in GATES.items()}
    assert parse_feature_gates("") == gates


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        pytest.param("ResourceHealthStatus=false", {Gate.RESOURCE_HEALTH_STATUS: False}, id="one"),
        pytest.param(
            "ResourceHealthStatus=0,PodLevelResourceManagers=T",
            {Gate.RESOURCE_HEALTH_STATUS: False, Gate.POD_LEVEL_RESOURCE_MANAGERS: True},
            id="go-booleans",
        ),
        pytest.param(" ResourceHealthStatus = false ,", {Gate.RESOURCE_HEALTH_STATUS: False}, id="spaces"),
        pytest.param("PodLevelResourceManagers=true,PodLevelResourceManagers=false", {}, id="the-last-counts"),
        pytest.param("KubeletPodResourcesGet=true", {}, id="locked-to-what-it-is"),
        pytest.param(
            "AllAlpha=true,PodLevelResourceManagers=false",
            {Gate.TOPOLOGY_MANAGER_POLICY_ALPHA_OPTIONS: True, Gate.DEVICE_MANAGER_DEALLOCATE: True},
            id="a-name-wins-over-its-stage",
        ),
        pytest.param(
            "ResourceHealthStatus=true,AllBeta=false",
            {
                gate: False
                for gate, spec in GATES.items()
                if spec.stage is GateStage.BETA and gate is not Gate.RESOURCE_HEALTH_STATUS
            },
            id="in-any-order",
        ),
    ],
)
def test_text_changes_the_defaults(text: str, changed: dict[Gate, bool]) -> None:
    gates = parse_feature_gates(text)
    assert {gate: gates.is_enabled(gate) for gate in Gate if gates.is_enabled(gate) != GATES[gate].default} == changed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("Nope=true", "unrecognized feature gate: Nope", id="unknown"),
        pytest.param("resourceHealthStatus=true", "unrecognized feature gate: resourceHealthStatus", id="case"),
        pytest.param("=true", "unrecognized feature gate: ", id="no-name"),
        pytest.param("ResourceHealthStatus", "malformed pair, expect string=bool", id="no-value"),
        pytest.param(
            "ResourceHealthStatus=yes",
            'invalid value of ResourceHealthStatus: yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
            id="no-boolean",
        ),
        pytest.param(
            "KubeletPodResourcesGet=false",
            "cannot set feature gate KubeletPodResourcesGet to false, feature is locked to true",
            id="locked",
        ),
    ],
)
def test_bad_text_is_refused_in_the_kubelets_words(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_feature_gates(text)
    assert str(caught.value) == problem


@given(st.dictionaries(st.sampled_from(FREE), st.booleans()))
def test_every_gate_named_has_the_value_given_and_no_other_changes(values: dict[Gate, bool]) -> None:
    gates = parse_feature_gates(",".join(f"{gate.value}={str(value).lower()}" for gate, value in values.items()))
    assert all(gates.is_enabled(gate) is values.get(gate, spec.default) for gate, spec in GATES.items())


def test_gates_about_what_we_do_not_have_change_nothing() -> None:
    gates = parse_feature_gates("ResourceHealthStatus=false,DRAExtendedResource=false,PodLevelResourceManagers=true")
    assert changed_in_vain(gates) == [Gate.DRA_EXTENDED_RESOURCE, Gate.POD_LEVEL_RESOURCE_MANAGERS]
    assert changed_in_vain(parse_feature_gates("")) == []
