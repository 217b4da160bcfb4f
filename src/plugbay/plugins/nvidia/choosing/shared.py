"""The choice of replicas and of MIG devices: by how many replicas of their physical device are allocated. Pure.

Where the reference rolls dice, the devices that come first in the request are taken, so equal requests get equal
answers.

Source: k8s-device-plugin 0.20 ``internal/rm/allocate.go``, ``distributedAlloc`` and ``packedAlloc``; spec 5.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heapify, heapreplace
from typing import Final

from plugbay.errors import AllocationError
from plugbay.model.sharing import SEPARATOR

SharedChoice = Callable[[Sequence[str], Sequence[str], Sequence[str], int], list[str]]
"""Chooses ``(listed, available, must_include, size)``, see `distributed`."""


def distributed(listed: Sequence[str], available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
    """Replicas of the physical devices of which the fewest are allocated, one after the other.

    Required devices come first, in their order, even if they are more than ``size``; they count as allocated. Available
    IDs that the resource does not have are left out. Devices with equal counts take turns.

    Args:
        listed: all IDs of the resource, whatever their health.

    Raises:
        AllocationError: too few are available.
    """
    return _greedy(listed, available, must_include, size, 1)


def packed(listed: Sequence[str], available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
    """As `distributed`, with the physical devices of which the most are allocated."""
    return _greedy(listed, available, must_include, size, -1)


def shared_choice(policy: str) -> SharedChoice:
    """The choice of the reference for the name of a policy; an unknown one means `distributed`."""
    return packed if policy == _PACKED else distributed


_PACKED: Final = "packed"


def _greedy(
    listed: Sequence[str], available: Sequence[str], must_include: Sequence[str], size: int, sign: int
) -> list[str]:
    known, required = set(listed), set(must_include)
    candidates = [each for each in dict.fromkeys(available) if each in known and each not in required]
    needed = size - len(must_include)
    if len(candidates) < needed:
        raise AllocationError("not enough available devices to satisfy allocation")
    if needed <= 0:
        return list(must_include)
    free: dict[str, list[str]] = {}
    for each in candidates:
        free.setdefault(_physical(each), []).append(each)
    totals = Counter(map(_physical, known))
    # A physical device is its allocated replicas, those picked in this call, its place in the request, and its ID.
    heap = [(sign * (totals[name] - len(left)), 0, place, name) for place, (name, left) in enumerate(free.items())]
    heapify(heap)
    chosen: list[str] = []
    while len(chosen) < needed:
        allocated, picked, place, name = heap[0]
        left = free[name]
        chosen.append(left[picked])
        taken = picked + 1
        following = allocated + sign if taken < len(left) else _EXHAUSTED
        heapreplace(heap, (following, taken, place, name))
    return [*must_include, *chosen]


_EXHAUSTED: Final = 1 << 62
"""Sorts a physical device without free replicas behind all others."""


def _physical(listed: str) -> str:
    return listed.partition(SEPARATOR)[0]
