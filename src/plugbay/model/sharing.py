"""Sharing: how many containers may have a device at a time, and the names of its replicas."""

from __future__ import annotations

from typing import Final

from plugbay.model.ids import DeviceId
from plugbay.values import dataclass

SEPARATOR: Final = "::"
"""NVIDIA's device plugin uses the same separator, so monitors that know its IDs know ours."""
MAX_REPLICAS: Final = 10_000
"""The most replicas of a device. With more, a list would be too long for kubelets."""


@dataclass(frozen=True, slots=True)
class Exclusive:
    """One container at a time may have the device."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """A device for as many containers as it has replicas; the kubelet sees each replica as a device.

    The containers are not protected from each other, unless the device does it.

    Attributes:
        count: 1 to 10,000.
    """

    count: int


Sharing = Exclusive | Replicas
EXCLUSIVE: Final = Exclusive()


def replica_id(device: str, number: int) -> DeviceId:
    """The ID of one replica: ``gpu0::1``."""
    return DeviceId(f"{device}{SEPARATOR}{number}")


def physical_id(device: str) -> DeviceId:
    """The ID of the device behind a replica; any other ID is returned as it is."""
    head, separator, number = device.rpartition(SEPARATOR)
    return DeviceId(head) if separator and number.isdecimal() else DeviceId(device)
