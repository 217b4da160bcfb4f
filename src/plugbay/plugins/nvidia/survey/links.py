"""How GPUs reach each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum

from plugbay.plugins.nvidia.survey.gpus import GpuUuid
from plugbay.values import dataclass


class P2PLevel(IntEnum):
    """The lowest part of the PCIe tree that two GPUs have in common; a lower number is nearer.

    Source: NVML ``nvmlGpuTopologyLevel_t``.
    """

    INTERNAL = 0
    """The same board."""
    SINGLE_SWITCH = 10
    MULTIPLE_SWITCHES = 20
    HOST_BRIDGE = 30
    NODE = 40
    """The same NUMA node, under different host bridges."""
    SYSTEM = 50
    """Different NUMA nodes."""


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The links between any two GPUs, in the order of ``uuids``.

    Rows are from the point of view of their GPU: a driver may report a link on one of its sides only.

    Attributes:
        uuids: the GPUs of rows and columns.
        levels: None on the diagonal, and where the driver gave an error or a level that we do not know.
        nvlinks: the active NVLinks from one GPU to the other; 0 on the diagonal. NVLinks to an NVSwitch lead to no
            GPU and do not count.
        switch_links: the active NVLinks of each GPU that lead to an NVSwitch.

    Raises:
        ValueError: the matrices are not square, or not of the size of ``uuids``.
    """

    uuids: tuple[GpuUuid, ...]
    levels: tuple[tuple[P2PLevel | None, ...], ...]
    nvlinks: tuple[tuple[int, ...], ...]
    switch_links: tuple[int, ...] = ()
    _places: dict[GpuUuid, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        for matrix in (self.levels, self.nvlinks):
            _check_square(matrix, len(self.uuids))
        if len(self.switch_links) not in (0, len(self.uuids)):
            raise ValueError(f"switch_links has {len(self.switch_links)} numbers for {len(self.uuids)} GPUs")
        object.__setattr__(self, "_places", {uuid: place for place, uuid in enumerate(self.uuids)})

    def level(self, one: GpuUuid, other: GpuUuid) -> P2PLevel | None:
        """The nearness of two GPUs; None when it is not known, as of a GPU that is not in the matrix."""
        if one not in self._places or other not in self._places:
            return None
        return self.levels[self._places[one]][self._places[other]]

    def nvlink_count(self, one: GpuUuid, other: GpuUuid) -> int:
        """The active NVLinks from ``one`` to ``other``; 0 for a GPU that is not in the matrix."""
        if one not in self._places or other not in self._places:
            return 0
        return self.nvlinks[self._places[one]][self._places[other]]


def _check_square(matrix: Sequence[Sequence[object]], size: int) -> None:
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise ValueError(f"a matrix of {len(matrix)} rows does not fit {size} GPUs")
