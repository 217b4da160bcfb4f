"""Hints: on which NUMA nodes a request can be met.

Source: kubelet 1.36 ``cm/devicemanager/topology_hints.go``, ``generateDeviceTopologyHints``; spec 5.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final

from plugbay.topology.masks import Mask, mask_of
from plugbay.values import dataclass

MOST_SETS: Final = 2**12
"""The most sets of NUMA nodes that are all looked at: those of 12 nodes, since every node doubles their number. A
kubelet looks at all of them, however long that takes."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes on which a request can be met.

    Attributes:
        mask: nodes on which the request can be met together; None for any place.
        preferred: whether a request of this size would need as many nodes on a machine whose units are all free.
    """

    mask: Mask | None
    preferred: bool


_EVERYTHING: Final = -1
"""All units there are, as a set."""

Hints = Sequence[Hint] | None
"""The hints for one resource's request. None means that the place does not matter, empty that it cannot be met."""

DONT_CARE: Final = Hint(None, True)
IMPOSSIBLE: Final = Hint(None, False)


def generate_hints(
    by_node: Mapping[int, int], machine: Sequence[int], *, required: int, available: int, reusable: int = 0
) -> tuple[Hint, ...]:
    """Make a hint for every set of nodes on which a request can be met, smallest sets first, then in node order.

    With more than 12 nodes, make hints for the smaller sets only, and for the fullest sets of each larger size.

    The units of a resource are sets, a bit per unit.

    Args:
        by_node: node to the units that lie on it, used or not, healthy or not.
        machine: the machine's nodes; other nodes in ``by_node`` do not count.
        required: the size of the request.
        available: units that are free.
        reusable: units that the pod has already and would use up first: a hint must cover all of them. The caller
            leaves out units without a known place.
    """
    everywhere = by_node.keys() & set(machine)
    nodes = sorted(everywhere) if everywhere else list(machine)
    smallest = len(nodes)
    masks: list[Mask] = []
    usable = available | reusable
    for subset in _subsets(nodes, by_node, usable=usable, reusable=reusable):
        units = 0
        for node in subset:
            units |= by_node.get(node, 0)
        if len(subset) < smallest and units.bit_count() >= required:
            smallest = len(subset)
        if reusable & ~units == 0 and (units & usable).bit_count() >= required:
            masks.append(mask_of(subset))
    return tuple(Hint(mask, mask.bit_count() == smallest) for mask in masks)


def _subsets(
    nodes: Sequence[int], by_node: Mapping[int, int], *, usable: int, reusable: int
) -> Iterator[tuple[int, ...]]:
    """The sets of nodes to look at, by size, then in the order of ``nodes``."""
    size, sets = 1, len(nodes)
    while size <= len(nodes) and sets < MOST_SETS:
        yield from combinations(nodes, size)
        size += 1
        sets += comb(len(nodes), size)
    if size > len(nodes):
        return
    orders = (_fullest_first(nodes, by_node, _EVERYTHING), _fullest_first(nodes, by_node, reusable, usable))
    for larger in range(size, len(nodes) + 1):
        yield from sorted({tuple(sorted(order[:larger])) for order in orders})


def _fullest_first(nodes: Sequence[int], by_node: Mapping[int, int], *wanted: int) -> list[int]:
    """Order the nodes so that each adds the most units to those before it: first units of ``wanted[0]``, and so on.

    Where no unit lies on two nodes, the first few hold more than any other as many.
    """
    order: list[int] = []
    left = {node: by_node.get(node, 0) for node in nodes}
    while left:
        fullest = max(left, key=lambda node: [(left[node] & units).bit_count() for units in wanted])
        order.append(fullest)
        held = left.pop(fullest)
        left = {node: units & ~held for node, units in left.items()}
    return order
