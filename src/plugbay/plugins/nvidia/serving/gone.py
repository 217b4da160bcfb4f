"""Devices that do not exist any more, and that pods still hold: they stay in the list, unhealthy. Pure.

A kubelet shows a held device that is not in the list as healthy: the status of its pod would not tell that a MIG device
was destroyed. Once no pod holds the device, it leaves the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice, all_devices
from plugbay.plugins.nvidia.serving.sight import Sight
from plugbay.plugins.nvidia.survey import Survey

Assigned: TypeAlias = Mapping[ResourceName, Collection[DeviceId]]
"""The IDs that a kubelet has given to pods, by resource."""
_DESCRIBED: Final = (DeviceKind.GPU, DeviceKind.MIG)
"""The devices that the driver describes one by one."""


def gone_devices(before: Sight | None, sight: Sight) -> tuple[tuple[ResourceName, NvidiaDevice], ...]:
    """The devices of the last look that the driver does not know any more, those of lost GPUs excepted."""
    if before is None or sight.survey is None:
        return ()
    known = {*_ids_of(sight.survey), *(device.id for device in sight.devices())}
    return tuple(
        (name, device)
        for name, device in all_devices(before.resources)
        if device.kind in _DESCRIBED and device.id not in known
    )


def held_devices(
    devices: Iterable[tuple[ResourceName, NvidiaDevice]], assigned: Assigned | None
) -> Iterator[tuple[ResourceName, NvidiaDevice]]:
    """Those that a pod holds, or may hold.

    Args:
        assigned: None when it cannot be known; then each may be held.
    """
    for name, device in devices:
        if assigned is None or not set(assigned.get(name, ())).isdisjoint(device.listed_ids()):
            yield name, device


def _ids_of(survey: Survey) -> Iterator[str]:
    for gpu in survey.gpus:
        yield gpu.uuid
        for mig in gpu.mig_devices:
            yield mig.uuid
