"""The NUMA nodes of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """The NUMA nodes of a machine.

    Attributes:
        nodes: their numbers, ascending.
        distances: node to node to distance, 10 being the node itself; empty where the machine does not tell.
    """

    nodes: tuple[int, ...]
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)


def pretended_nodes(count: int) -> NumaTopology:
    """Make ``count`` nodes from 0 on, with the distances that Linux assumes when the firmware gives none."""
    nodes = range(count)
    return NumaTopology(tuple(nodes), {one: {other: 10 if one == other else 20 for other in nodes} for one in nodes})


ONE_NODE: Final = pretended_nodes(1)
"""A machine whose kernel has no NUMA support."""
