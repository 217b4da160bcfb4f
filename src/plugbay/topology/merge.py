"""The merge of several resources' hints into one hint.

A kubelet goes through every combination of one hint per resource and keeps the best: 255 hints for each of 6 resources
make 10^14 of them. Its comparison is a total order on (nodes in common, preferred), so that it is enough to know which
of these can occur: at most one for each set of nodes.

Source: kubelet 1.36 ``cm/topologymanager/policy.go``; spec 5.6, 5.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import and_, or_
from typing import Final

from plugbay.topology.hints import DONT_CARE, IMPOSSIBLE, Hint, Hints
from plugbay.topology.masks import Fitness, Mask

_FEW_PAIRS: Final = 1024
"""The number of pairs of masks that take less time to go through than to split."""


def hint_lists(resources: Iterable[Hints]) -> list[Sequence[Hint]]:
    """The hint lists to merge: at least one, each with at least one hint."""
    lists = [(DONT_CARE,) if hints is None else hints or (IMPOSSIBLE,) for hints in resources]
    return lists or [(DONT_CARE,)]


def merge(lists: Sequence[Sequence[Hint]], *, default: Mask, fitness: Fitness) -> Hint:
    """Find the best hint that can be made of one hint from each list.

    Its nodes are those that all chosen hints have in common; it is preferred if each of them is, and all name the same
    nodes.

    Args:
        lists: see `hint_lists`; if one has become empty, nothing is possible.
        default: all nodes of the machine.
        fitness: orders masks from better to worse, other things being equal.
    """
    if agreed := _agreed(lists, default):
        return Hint(min(agreed, key=fitness), True)
    if common := _common(lists, default):
        return Hint(min(common, key=partial(_inferiority, _best_size(lists), fitness)), False)
    return Hint(default, False)


def _agreed(lists: Sequence[Sequence[Hint]], default: Mask) -> set[Mask]:
    """Masks that are preferred in every list."""
    preferred = [{hint.mask for hint in hints if hint.preferred} for hints in lists]
    named = {mask for masks in preferred for mask in masks if mask is not None}
    agreed = {mask & default for mask in named if all(mask in masks or None in masks for masks in preferred)}
    if all(None in masks for masks in preferred):
        agreed.add(default)
    return agreed - {0}


def _common(lists: Sequence[Sequence[Hint]], default: Mask) -> set[Mask]:
    """The masks that one mask of each list can have in common."""
    common = {default}
    for hints in lists:
        common = _meets(common, {default if hint.mask is None else hint.mask & default for hint in hints}) - {0}
    return common


def _meets(some: set[Mask], others: set[Mask]) -> set[Mask]:
    """``{a & b for a in some for b in others}``, in less time than there are pairs.

    The others are split by a node until each part is small. Masks that lack the node meet ``some`` without the node,
    and these are fewer.
    """
    if len(some) * len(others) <= _FEW_PAIRS or len(others) == 1:
        return {one & other for one in some for other in others}
    telling = reduce(or_, others) ^ reduce(and_, others)
    node = 1 << (telling.bit_length() - 1)
    having = {mask for mask in others if mask & node}
    return _meets(some, having) | _meets({mask & ~node for mask in some}, others - having)


def _best_size(lists: Sequence[Sequence[Hint]]) -> int:
    """A lower bound for the size of a mask that satisfies each list: the narrowest mask of the most demanding list."""
    sizes = ([hint.mask.bit_count() for hint in hints if hint.mask is not None] for hints in lists)
    return max((min(each) for each in sizes if each), default=0)


def _inferiority(best_size: int, fitness: Fitness, mask: Mask) -> tuple[int, ...]:
    """Order masks that are not preferred: masks of the best size first, then smaller masks, the largest first."""
    size = mask.bit_count()
    if size == best_size:
        return (0, 0, *fitness(mask))
    return (1, -size, *fitness(mask)) if size < best_size else (2, 0, *fitness(mask))
