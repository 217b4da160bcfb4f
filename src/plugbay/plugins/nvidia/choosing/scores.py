"""How good the connection of two GPUs is, as go-gpuallocator counts it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.plugins.nvidia.survey import GpuUuid, LinkMatrix, P2PLevel

_LEVELS: Final = {
    P2PLevel.INTERNAL: 60,
    P2PLevel.SINGLE_SWITCH: 50,
    P2PLevel.MULTIPLE_SWITCHES: 40,
    P2PLevel.HOST_BRIDGE: 30,
    P2PLevel.NODE: 20,
    P2PLevel.SYSTEM: 10,
}
_NVLINK: Final = 100
_MOST_NVLINKS: Final = 18


def pair_score(links: LinkMatrix, one: GpuUuid, other: GpuUuid) -> int:
    """The score of two different GPUs: their nearness on PCIe, and 100 for each of up to 18 NVLinks.

    With different counts of NVLinks the view of ``one`` is taken. Where one side reports none, the reference crashes
    (issue 448): there the link counts as broken, as it takes both ends to use one. A level that is not known scores
    nothing; the reference refuses all requests then.

    Source: go-gpuallocator 0.6.0 ``gpuallocator/besteffort_policy.go``, ``calculateGPUPairScore``.
    """
    level = links.level(one, other)
    nearness = 0 if level is None else _LEVELS[level]
    if not links.nvlink_count(other, one):
        return nearness
    return nearness + _NVLINK * min(links.nvlink_count(one, other), _MOST_NVLINKS)


def pair_scores(links: LinkMatrix, uuids: Sequence[GpuUuid]) -> tuple[tuple[int, ...], ...]:
    """The scores of all pairs by the place of both, from the view of the GPU that comes first; 0 on the diagonal."""
    return tuple(
        tuple(
            0 if one == other else pair_score(links, *(uuids[place] for place in sorted((one, other))))
            for other in range(len(uuids))
        )
        for one in range(len(uuids))
    )
