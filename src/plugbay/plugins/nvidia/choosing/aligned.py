"""The choice of whole GPUs: the best connected ones, so that those that stay free are well connected too. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from plugbay.allocation.partition.choice import best_group
from plugbay.errors import AllocationError
from plugbay.plugins.nvidia.choosing.scores import pair_scores
from plugbay.plugins.nvidia.survey import GpuUuid, LinkMatrix

_REMEMBERED = 256


def aligned(links: LinkMatrix, available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
    """The best effort of go-gpuallocator, without its defects: see `best_group`.

    The result is in the order of ``available``, and empty for a request that cannot be met: for less than one GPU, for
    more than are available, or with required GPUs that are too many or not available.

    Raises:
        AllocationError: a UUID is not one of the GPUs of ``links``.

    Source: k8s-device-plugin 0.20 ``internal/rm/allocate.go``, ``alignedAlloc``; spec 5.4.
    """
    for kind, uuids in (("available", available), ("required", must_include)):
        for uuid in uuids:
            if uuid not in links.uuids:
                raise AllocationError(f"unable to retrieve list of {kind} devices: no device with uuid: {uuid}")
    offered = list(dict.fromkeys(available))
    required = set(must_include)
    if size <= 0 or size > len(offered) or len(required) > size or not required <= set(offered):
        return []
    scores = pair_scores(links, [GpuUuid(uuid) for uuid in offered])
    places = _best_group(scores, tuple(place for place, uuid in enumerate(offered) if uuid in required), size)
    return [offered[place] for place in places]


@lru_cache(maxsize=_REMEMBERED)
def _best_group(scores: tuple[tuple[int, ...], ...], required: tuple[int, ...], size: int) -> tuple[int, ...]:
    """As `best_group`; an answer takes up to 20 ms, and nodes with equal links have equal ones."""
    return best_group(scores, required, size)
