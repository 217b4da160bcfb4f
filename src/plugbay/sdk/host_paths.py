"""Paths of the host that devices name and that are not there: a container with such a device cannot start."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.sdk.waiting import wait_first
from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

REASON: Final = "HostPathMissing"


def missing_paths(device: Device) -> tuple[str, ...]:
    """The host's paths of ``device`` that do not exist where this process runs; asks the disk."""
    edits = device.edits
    named = [*(node.host_path for node in edits.device_nodes), *(mount.host_path for mount in edits.mounts)]
    return tuple(path for path in dict.fromkeys(named) if not os.path.exists(path))


def judged(device: Device, missing: Iterable[str]) -> Device:
    """``device``, unhealthy for want of the paths ``missing``, if there are any and it is not unhealthy already."""
    if not missing or not device.health.is_healthy:
        return device
    return device.with_health(unhealthy(REASON, f"{', '.join(missing)} does not exist"))


class HostPaths:
    """What is missing of one plugin's devices.

    Args:
        judges: whether devices that miss something are unhealthy.
    """

    def __init__(self, resource: str, *, judges: bool) -> None:
        self._resource = resource
        self._judges = judges
        self._missing: Mapping[DeviceId, tuple[str, ...]] = {}
        self._looked = asyncio.Event()

    async def checked(self, devices: list[Device]) -> list[Device]:
        """``devices`` as they are to be listed; the log tells of what is missing, once for each change."""
        found = await asyncio.to_thread(lambda: {device.id: missing_paths(device) for device in devices})
        missing = {device: paths for device, paths in found.items() if paths}
        if missing != self._missing:
            self._tell(missing)
            self._missing = missing
        self._looked.set()
        if not self._judges:
            return devices
        return [judged(device, missing.get(device.id, ())) for device in devices]

    async def follow(self, watches: Watches, appeared: Callable[[str], object]) -> NoReturn:
        """Say when something missing may be there, until cancelled."""
        while True:
            self._looked.clear()
            paths = {Path(path) for missing in self._missing.values() for path in missing}
            with watches.watch(paths) as changes:
                if not any([await asyncio.to_thread(path.exists) for path in paths]):
                    await wait_first(changes.__anext__, self._looked.wait)
                if not self._looked.is_set():
                    appeared("paths of the host that were missing")
                    await self._looked.wait()

    def _tell(self, missing: Mapping[DeviceId, tuple[str, ...]]) -> None:
        for device, paths in missing.items():
            if self._missing.get(device) != paths:
                logger.warning(
                    "%s: device %s: %s does not exist where the plugin runs; %s",
                    self._resource,
                    device,
                    ", ".join(paths),
                    "it is unhealthy" if self._judges else "if the host does not have it, no container can start",
                )
        for device in self._missing.keys() - missing.keys():
            logger.info("%s: all paths of device %s exist now", self._resource, device)
