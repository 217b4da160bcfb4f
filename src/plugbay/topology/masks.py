"""Sets of NUMA nodes as ints, and their order from better to worse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

Mask = int
"""Set of NUMA nodes, a bit per node."""
Fitness = Callable[[Mask], tuple[int, ...]]
"""A key that is smaller for the fitter of two masks, and equal only for the same mask."""


def mask_of(nodes: Iterable[int]) -> Mask:
    """The set of ``nodes``, none of them negative."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: Mask) -> Iterator[int]:
    """The nodes of a set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def narrowness(mask: Mask) -> tuple[int, ...]:
    """Prefer the mask with fewer nodes, then the mask with the smaller value."""
    return mask.bit_count(), mask


def closeness(distances: Mapping[int, Mapping[int, int]]) -> Fitness:
    """Prefer the mask with fewer nodes, then the mask whose nodes are closer together on average.

    The average is over all ordered pairs, a node with itself included; for masks of one size it orders as the sum does.

    Source: kubelet 1.36 ``cm/topologymanager/numa_info.go``.
    """

    def fitness(mask: Mask) -> tuple[int, ...]:
        nodes = tuple(nodes_of(mask))
        return len(nodes), sum(distances[one][other] for one in nodes for other in nodes), mask

    return fitness
