"""The topology manager's settings as an operator writes them, and the checks a kubelet makes at its start.

Source: kubelet 1.36 ``cm/topologymanager/topology_manager.go``, ``NewManager``, and ``policy_options.go``; spec 5.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from plugbay.errors import UnusableTopology, UsageError, quote
from plugbay.model.topology import NumaTopology
from plugbay.topology.masks import closeness, mask_of, narrowness
from plugbay.topology.policies import PolicyKind, TopologyPolicy, TopologyScope
from plugbay.values import dataclass

PREFER_CLOSEST: Final = "prefer-closest-numa-nodes"
MAX_ALLOWABLE: Final = "max-allowable-numa-nodes"
USUAL_MAX_NODES: Final = 8
"""NUMA nodes the kubelet supports by default; ``max-allowable-numa-nodes`` cannot be lower."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS: Final = 18
"""Digits of a number that certainly fits into a Go int; some numbers with one digit more fit, too."""


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The settings as texts, unchecked: a kubelet looks at scope and options only if the policy is not ``none``.

    Attributes:
        policy: a `PolicyKind` by its value.
        scope: a `TopologyScope` by its value.
        options: by name.
    """

    policy: str = PolicyKind.NONE.value
    scope: str = TopologyScope.CONTAINER.value
    options: Mapping[str, str] = field(default_factory=dict)


DEFAULT_SETTINGS: Final = TopologySettings()
"""A kubelet's defaults: the policy ``none``."""


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options of a policy.

    Attributes:
        prefers_closest: whether the set with the smallest distances is the best among sets of as many nodes.
        max_nodes: a machine with more nodes is refused.
    """

    prefers_closest: bool = False
    max_nodes: int = USUAL_MAX_NODES


def make_policy(settings: TopologySettings, machine: NumaTopology) -> TopologyPolicy:
    """Make the policy that ``settings`` ask for on ``machine``.

    Raises:
        UnusableTopology: with the kubelet's text, in the order of its checks.
    """
    if settings.policy == PolicyKind.NONE.value:
        return TopologyPolicy()
    options = parse_options(settings.options)
    if options.prefers_closest and machine.distances.keys() != set(machine.nodes):
        raise UnusableTopology("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if len(machine.nodes) > options.max_nodes:
        raise UnusableTopology(f"unsupported on machines with more than {options.max_nodes} NUMA Nodes")
    if settings.policy not in {kind.value for kind in PolicyKind}:
        raise UnusableTopology(f"unknown policy: {quote(settings.policy)}")
    if settings.scope not in {scope.value for scope in TopologyScope}:
        raise UnusableTopology(f"unknown scope: {quote(settings.scope)}")
    return TopologyPolicy(
        PolicyKind(settings.policy),
        TopologyScope(settings.scope),
        default=mask_of(machine.nodes),
        fitness=closeness(machine.distances) if options.prefers_closest else narrowness,
    )


def parse_options(options: Mapping[str, str]) -> PolicyOptions:
    """Read the options of a kubelet's ``topologyManagerPolicyOptions``.

    Raises:
        UnusableTopology: an option has an unknown name or a value that is not allowed.
    """
    for name in options:
        if name not in (PREFER_CLOSEST, MAX_ALLOWABLE):
            raise UnusableTopology(f"unknown Topology Manager Policy option: {quote(name)}")
    return PolicyOptions(
        prefers_closest=_boolean(options.get(PREFER_CLOSEST, "false")),
        max_nodes=_max_nodes(options.get(MAX_ALLOWABLE, str(USUAL_MAX_NODES))),
    )


def split_options(text: str) -> dict[str, str]:
    """Read ``NAME=VALUE,...`` as a kubelet's flag takes it; if a name has several values, the last one counts.

    Raises:
        UsageError: a part is not a pair.
    """
    options = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UsageError(
                f"topology manager policy options: malformed pair {quote(pair.strip())}, expect string=string"
            )
        options[name] = value
    return options


def _boolean(value: str) -> bool:
    if value not in _TRUE | _FALSE:
        raise UnusableTopology(
            f"bad value for option {quote(PREFER_CLOSEST)}: strconv.ParseBool: parsing {quote(value)}: invalid syntax"
        )
    return value in _TRUE


def _max_nodes(value: str) -> int:
    problem = ""
    if not _INTEGER.fullmatch(value):
        problem = "invalid syntax"
    elif len(value.lstrip("+-0")) > _MOST_DIGITS:
        problem = "value out of range"
    if problem:
        raise UnusableTopology(
            f"unable to convert policy option to integer {quote(MAX_ALLOWABLE)}: "
            f"strconv.Atoi: parsing {quote(value)}: {problem}"
        )
    number = int(value[-_MOST_DIGITS:]) if value[0] != "-" else -1
    if number < USUAL_MAX_NODES:
        raise UnusableTopology(f"the minimum value of {quote(MAX_ALLOWABLE)} should not be less than {USUAL_MAX_NODES}")
    return number
