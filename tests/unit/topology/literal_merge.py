"""The merge as a kubelet does it, every combination after the other: what ours is compared with.

Written from spec 5.6 and 5.7, in their order and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from plugbay.topology.hints import Hint

Distances = Mapping[int, Mapping[int, int]]


def literal_merge(lists: Sequence[Sequence[Hint]], nodes: Sequence[int], distances: Distances | None) -> Hint:
    """``distances`` is None unless close nodes are preferred."""
    default = sum(1 << node for node in nodes)
    sizes = [[_size(hint.mask) for hint in hints if hint.mask is not None] for hints in lists]
    best_size = max([min(each) for each in sizes if each], default=0)
    current: Hint | None = None
    for combination in product(*lists):
        masks = [hint.mask for hint in combination if hint.mask is not None]
        merged = default
        for mask in masks:
            merged &= mask
        preferred = all(hint.preferred for hint in combination) and all(mask == masks[0] for mask in masks)
        current = _better(current, Hint(merged, preferred), best_size, distances)
    return current or Hint(default, False)


def _better(current: Hint | None, candidate: Hint, best: int, distances: Distances | None) -> Hint | None:
    assert candidate.mask is not None
    if candidate.mask == 0:
        return current
    if current is None:
        return candidate
    assert current.mask is not None
    if candidate.preferred != current.preferred:
        return candidate if candidate.preferred else current
    c, d = _size(current.mask), _size(candidate.mask)
    if not current.preferred and c <= best and (c, d) != (best, best):
        if c == best:
            return current
        if d > best:
            return current
        if d == best or d > c:
            return candidate
        if d < c:
            return current
    return candidate if _is_fitter(candidate.mask, current.mask, distances) else current


def _is_fitter(candidate: int, current: int, distances: Distances | None) -> bool:
    if _size(candidate) != _size(current):
        return _size(candidate) < _size(current)
    if distances is not None and _average(candidate, distances) != _average(current, distances):
        return _average(candidate, distances) < _average(current, distances)
    return candidate < current


def _size(mask: int) -> int:
    return f"{mask:b}".count("1")


def _average(mask: int, distances: Distances) -> float:
    nodes = [node for node in range(64) if mask >> node & 1]
    pairs = [distances[one][other] for one in nodes for other in nodes]
    return sum(pairs) / len(pairs)
