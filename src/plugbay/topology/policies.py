"""The policies of the topology manager: what becomes of the hints for a container or a pod.

Source: kubelet 1.36 ``cm/topologymanager/policy_*.go``; spec 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from plugbay.topology.hints import Hint, Hints
from plugbay.topology.masks import Fitness, Mask, narrowness
from plugbay.topology.merge import hint_lists, merge


class Kind(Enum):
    """The value of ``topologyManagerPolicy``."""

    NONE = "none"
    """Nobody is asked for hints, and everything is given out wherever it lies."""
    BEST_EFFORT = "best-effort"
    """Hints are followed where that is possible."""
    RESTRICTED = "restricted"
    """Who cannot have a preferred hint is refused."""
    SINGLE_NUMA_NODE = "single-numa-node"
    """Who cannot have everything from one node is refused."""


class Scope(Enum):
    """What is looked at together."""

    CONTAINER = "container"
    """Each container by itself, after those before it have got theirs."""
    POD = "pod"
    """The whole pod: all its containers get the same affinity."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy makes of the hints of all resources.

    Attributes:
        affinity: what the resources are to be aligned with, if they are given at all.
    """

    affinity: Hint
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """A policy with its scope and options, for one machine.

    Attributes:
        default: all nodes of the machine.
        fitness: which of two masks is the better one; `narrowness` unless close nodes are preferred.
    """

    kind: Kind = Kind.NONE
    scope: Scope = Scope.CONTAINER
    default: Mask = 0
    fitness: Fitness = narrowness

    def decide(self, resources: Iterable[Hints]) -> Verdict:
        """The verdict on what all resources of a container or pod, of all hint providers, say of their request."""
        lists = hint_lists(resources)
        match self.kind:
            case Kind.NONE:
                return Verdict(Hint(None, True), is_admitted=True)
            case Kind.BEST_EFFORT:
                return Verdict(merge(lists, default=self.default, fitness=self.fitness), is_admitted=True)
            case Kind.RESTRICTED:
                merged = merge(lists, default=self.default, fitness=self.fitness)
                return Verdict(merged, is_admitted=merged.preferred)
            case Kind.SINGLE_NUMA_NODE:
                return self._on_one_node(lists)
            case _:
                assert_never(self.kind)

    def _on_one_node(self, lists: Sequence[Sequence[Hint]]) -> Verdict:
        single = [[hint for hint in hints if _is_single(hint)] for hints in lists]
        merged = merge(single, default=self.default, fitness=narrowness)  # distances say nothing about one node
        if merged.mask == self.default:  # nobody cares, or the machine has but one node
            merged = Hint(None, merged.preferred)
        return Verdict(merged, is_admitted=merged.preferred)


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
