"""The checks at start, in the kubelet's order and words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from plugbay.errors import UnusableTopology, UsageError
from plugbay.model.topology import NumaTopology, pretended_nodes
from plugbay.topology.policies import PolicyKind, TopologyPolicy, TopologyScope
from plugbay.topology.settings import PolicyOptions, TopologySettings, make_policy, parse_options, split_options

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def settings(
    policy: str = "restricted", scope: str = "container", options: Mapping[str, str] = NO_OPTIONS
) -> TopologySettings:
    return TopologySettings(policy, scope, options)


def test_policy_of_two_nodes() -> None:
    policy = make_policy(settings("single-numa-node", "pod"), pretended_nodes(2))
    assert (policy.kind, policy.scope, policy.default) == (PolicyKind.SINGLE_NUMA_NODE, TopologyScope.POD, 0b11)


def test_without_a_policy_nothing_else_is_looked_at() -> None:
    unchecked = settings("none", "galaxy", {"nonsense": "x"})
    assert make_policy(unchecked, NumaTopology(tuple(range(99)))) == TopologyPolicy()


@pytest.mark.parametrize(
    ("wanted", "machine", "text"),
    [
        pytest.param(
            settings("x", "y", {"z": "1"}),
            pretended_nodes(9),
            'unknown Topology Manager Policy option: "z"',
            id="options-come-first",
        ),
        pytest.param(
            settings("x", "y", {"prefer-closest-numa-nodes": "true"}),
            NumaTopology(tuple(range(9))),
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
            id="then-distances",
        ),
        pytest.param(
            settings("x", "y"),
            pretended_nodes(9),
            "unsupported on machines with more than 8 NUMA Nodes",
            id="s117-then-nodes",
        ),
        pytest.param(settings("x", "y"), pretended_nodes(2), 'unknown policy: "x"', id="then-the-policy"),
        pytest.param(settings(scope="y"), pretended_nodes(2), 'unknown scope: "y"', id="then-the-scope"),
        pytest.param(
            settings(options={"prefer-closest-numa-nodes": "yes"}),
            pretended_nodes(1),
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "yes": invalid syntax',
            id="boolean",
        ),
        *(
            pytest.param(
                settings(options={"max-allowable-numa-nodes": value}),
                pretended_nodes(1),
                'unable to convert policy option to integer "max-allowable-numa-nodes": '
                f'strconv.Atoi: parsing "{value}": {problem}',
                id=f"integer-{number}",
            )
            for number, (value, problem) in enumerate(
                [
                    ("8.5", "invalid syntax"),
                    ("", "invalid syntax"),
                    ("1_0", "invalid syntax"),
                    ("٩", "invalid syntax"),
                    ("9" * 5_000, "value out of range"),
                    ("-" + "9" * 5_000, "value out of range"),
                ]
            )
        ),
        *(
            pytest.param(
                settings(options={"max-allowable-numa-nodes": value}),
                pretended_nodes(1),
                'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
                id=f"s117-at-least-8-not-{value}",
            )
            for value in ("7", "0", "-9")
        ),
    ],
)
def test_what_cannot_work_is_refused(wanted: TopologySettings, machine: NumaTopology, text: str) -> None:
    with pytest.raises(UnusableTopology) as caught:
        make_policy(wanted, machine)
    assert str(caught.value) == text


@pytest.mark.parametrize(("value", "max_nodes"), [("9", 9), ("+9", 9), ("0" * 5_000 + "64", 64)])
def test_s117_more_nodes_can_be_allowed(value: str, max_nodes: int) -> None:
    options = {"max-allowable-numa-nodes": value}
    assert parse_options(options) == PolicyOptions(max_nodes=max_nodes)
    assert make_policy(settings(options=options), pretended_nodes(9)).default == 0x1FF


@pytest.mark.parametrize(("text", "closest"), [("t", (0, 2)), ("0", (0, 1))])
def test_close_nodes_are_preferred_if_that_is_said(text: str, closest: tuple[int, int]) -> None:
    distances = {0: {0: 10, 1: 31, 2: 11}, 1: {0: 31, 1: 10, 2: 31}, 2: {0: 11, 1: 31, 2: 10}}
    policy = make_policy(
        settings("best-effort", options={"prefer-closest-numa-nodes": text}), NumaTopology((0, 1, 2), distances)
    )
    assert min(0b011, 0b101, key=policy.fitness) == sum(1 << node for node in closest)


def test_options_are_written_as_for_a_kubelet() -> None:
    written = "prefer-closest-numa-nodes=true, max-allowable-numa-nodes = 9,"
    assert split_options(written) == {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "9"}
    assert split_options("") == {}
    with pytest.raises(UsageError, match='malformed pair "prefer-closest-numa-nodes", expect string=string'):
        split_options("prefer-closest-numa-nodes")
