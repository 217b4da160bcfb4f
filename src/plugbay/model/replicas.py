"""Names of the replicas that one device is offered as."""

from __future__ import annotations

from typing import Final

from plugbay.model.ids import DeviceId

SEPARATOR: Final = "::"
"""As NVIDIA's device plugin writes it, so that monitors which know it know ours."""


def replica_id(device: str, number: int) -> DeviceId:
    """The ID of one replica: ``gpu0::1``."""
    return DeviceId(f"{device}{SEPARATOR}{number}")


def physical_id(device: str) -> DeviceId:
    """The ID of the device behind a replica; that of anything else is its own."""
    head, separator, number = device.rpartition(SEPARATOR)
    return DeviceId(head) if separator and number.isdecimal() else DeviceId(device)
