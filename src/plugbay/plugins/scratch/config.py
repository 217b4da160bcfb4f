"""The settings of the scratch plugin."""

from __future__ import annotations

from typing import Final

import msgspec

from plugbay.errors import InvalidQuantity, UsageError
from plugbay.model.ids import ResourceName, parse_resource_name
from plugbay.model.quantity import Quantity
from plugbay.values import dataclass

BLOCK_BYTES: Final = 4096
"""Disks and partitions begin and end at multiples of it, as holes in a file can."""
_MAX_BYTES: Final = 2**63 - BLOCK_BYTES
"""The longest file; file systems take less."""
MAX_DISKS: Final = 1000
MAX_PARTITIONS: Final = 128
PARTITION: Final = "-partition"
"""The end of the second resource's name."""


class ScratchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of ``scratch`` in a config file, as on the command line.

    Attributes:
        resource: resource name of whole disks, such as ``example.com/scratch``.
        directory: where their files are; made when it is missing, and of this plugin alone. A relative one is looked
            for beside the config file.
        size: of each disk, such as ``10Gi``.
        count: how many disks.
        partitions: the number of partitions of a disk, as a second resource named ``R-partition``; 0 for none.
    """

    resource: str
    directory: str
    size: str
    count: int
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The number and sizes of disks and partitions.

    Attributes:
        size: bytes of a disk.
        partition_size: bytes of a partition; 0 when there are none.
    """

    resource: ResourceName
    size: int
    count: int
    partitions: int

    @property
    def partition_size(self) -> int:
        return self.size // self.partitions // BLOCK_BYTES * BLOCK_BYTES if self.partitions else 0


def layout_of(resource: str, *, size: str, count: int, partitions: int) -> Layout:
    """The layout of these settings, checked.

    Raises:
        InvalidResourceName: no kubelet would accept one of the names.
        UsageError: a number is out of range.
    """
    name = parse_resource_name(resource)
    if partitions:
        parse_resource_name(name + PARTITION)
    layout = Layout(name, _bytes(size), count, partitions)
    if not 1 <= count <= MAX_DISKS:
        raise UsageError(f"count: {count} is not between 1 and {MAX_DISKS}")
    if not 0 <= partitions <= MAX_PARTITIONS:
        raise UsageError(f"partitions: {partitions} is not between 0 and {MAX_PARTITIONS}")
    if partitions and not layout.partition_size:
        raise UsageError(f"partitions: {size} in {partitions} parts leaves less than {BLOCK_BYTES} bytes for each")
    return layout


def _bytes(text: str) -> int:
    try:
        size = Quantity.parse(text)
    except InvalidQuantity as error:
        raise UsageError(f"size: {error}") from error
    if size.to_int_ceil() > _MAX_BYTES:
        raise UsageError(f"size: {text} is more than a file can have")
    if not size.is_whole or size.to_int_ceil() < BLOCK_BYTES or size.to_int_ceil() % BLOCK_BYTES:
        raise UsageError(f"size: {text} is not a multiple of {BLOCK_BYTES} bytes, such as 64Mi")
    return size.to_int_ceil()
