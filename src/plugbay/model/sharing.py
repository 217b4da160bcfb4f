"""How many containers may have a device at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_REPLICAS: Final = 10_000
"""More would make lists that no kubelet takes."""


@dataclass(frozen=True, slots=True)
class Exclusive:
    """One container."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """A device for as many containers as it has replicas; the kubelet sees each replica as a device.

    Nothing keeps the containers from hurting each other: that is between them and the device.

    Attributes:
        count: 1 to 10,000.
    """

    count: int


Sharing = Exclusive | Replicas
EXCLUSIVE: Final = Exclusive()
