"""The policies of the topology manager: from the hints for a container or a pod to a verdict.

Source: kubelet 1.36 ``cm/topologymanager/policy_*.go``; spec 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import assert_never

from plugbay.topology.hints import Hint, Hints
from plugbay.topology.masks import Fitness, Mask, narrowness
from plugbay.topology.merge import hint_lists, merge
from plugbay.values import dataclass


class PolicyKind(Enum):
    """The value of ``topologyManagerPolicy``."""

    NONE = "none"
    """Resource managers are not asked for hints, and everything is given out wherever it lies."""
    BEST_EFFORT = "best-effort"
    """Hints are followed where that is possible."""
    RESTRICTED = "restricted"
    """A pod that cannot have a preferred hint is refused."""
    SINGLE_NUMA_NODE = "single-numa-node"
    """A pod that cannot have everything from one node is refused."""


class TopologyScope(Enum):
    """The unit that is aligned as a whole."""

    CONTAINER = "container"
    """Each container by itself, after the containers before it have got their devices."""
    POD = "pod"
    """The whole pod: all its containers get the same affinity."""


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """A policy's decision on the hints of all resources.

    Attributes:
        affinity: the nodes to align the resources with, if they are given at all.
    """

    affinity: Hint
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """A policy with its scope and options, for one machine.

    Attributes:
        default: all nodes of the machine.
        fitness: orders masks from better to worse; `narrowness` unless close nodes are preferred.
    """

    kind: PolicyKind = PolicyKind.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    default: Mask = 0
    fitness: Fitness = narrowness

    def decide(self, resources: Iterable[Hints]) -> PolicyVerdict:
        """Decide on the hints of all hint providers for all resources of a container or pod."""
        lists = hint_lists(resources)
        match self.kind:
            case PolicyKind.NONE:
                return PolicyVerdict(Hint(None, True), is_admitted=True)
            case PolicyKind.BEST_EFFORT:
                return PolicyVerdict(merge(lists, default=self.default, fitness=self.fitness), is_admitted=True)
            case PolicyKind.RESTRICTED:
                merged = merge(lists, default=self.default, fitness=self.fitness)
                return PolicyVerdict(merged, is_admitted=merged.preferred)
            case PolicyKind.SINGLE_NUMA_NODE:
                return self._on_one_node(lists)
            case _:
                assert_never(self.kind)

    def _on_one_node(self, lists: Sequence[Sequence[Hint]]) -> PolicyVerdict:
        single = [[hint for hint in hints if _is_single(hint)] for hints in lists]
        merged = merge(single, default=self.default, fitness=narrowness)  # distances do not matter for a single node
        if merged.mask == self.default:  # no resource cares, or the machine has only one node
            merged = Hint(None, merged.preferred)
        return PolicyVerdict(merged, is_admitted=merged.preferred)


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
