"""Paths of the host that devices name and that are not there.

No container starts with a device node that is missing; of a missing mount most engines make an empty directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping, Set
from pathlib import Path
from typing import Final, NoReturn

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.ops.tasks import first
from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

REASON: Final = "HostPathMissing"


def missing_paths(device: Device, root: str = "") -> tuple[str, ...]:
    """The host's paths of ``device`` that do not exist below ``root``, where this process sees them; asks the disk."""
    return tuple(path for path in named_paths(device) if not os.path.exists(root + path))


def named_paths(device: Device) -> tuple[str, ...]:
    """The host's paths of ``device``, each once."""
    edits = device.edits
    named = [*(node.host_path for node in edits.device_nodes), *(mount.host_path for mount in edits.mounts)]
    return tuple(dict.fromkeys(named))


def judged(device: Device, missing: Iterable[str]) -> Device:
    """Return ``device``, made unhealthy by the paths ``missing``, if any, unless it is unhealthy already."""
    if not missing or not device.health.is_healthy:
        return device
    return device.with_health(unhealthy(REASON, f"{', '.join(missing)} does not exist"))


class HostPaths:
    """The paths that are missing of one plugin's devices.

    Args:
        judges: whether devices that miss something are unhealthy.
        root: the directory below which this process sees the host's files, without a slash at its end.
    """

    def __init__(self, resource: str, *, judges: bool, root: str = "") -> None:
        self._resource = resource
        self._root = root
        self._judges = judges
        self._missing: Mapping[DeviceId, tuple[str, ...]] = {}
        self._watched: frozenset[str] = frozenset()
        self._looked = asyncio.Event()

    async def checked(self, devices: list[Device]) -> list[Device]:
        """Return ``devices`` as they are to be listed; the log tells of missing paths, once for each change."""
        # A device that is unhealthy for another reason is not given, and its paths may be gone with it.
        looked_at = devices if self._judges else [device for device in devices if device.health.is_healthy]
        found = await asyncio.to_thread(lambda: {device.id: missing_paths(device, self._root) for device in looked_at})
        missing = {device: paths for device, paths in found.items() if paths}
        if missing != self._missing:
            self._tell(missing, there=found.keys())
            self._missing = missing
        named = found if not self._judges else {device.id: named_paths(device) for device in devices}
        self._watched = frozenset(path for paths in named.values() for path in paths)
        self._looked.set()
        if not self._judges:
            return devices
        return [judged(device, missing.get(device.id, ())) for device in devices]

    async def follow(self, watches: Watches, changed: Callable[[str], object]) -> NoReturn:
        """Say when a path has appeared or, where devices are judged by theirs, one is gone; until cancelled."""
        while True:
            self._looked.clear()
            missing = {self._root + path for paths in self._missing.values() for path in paths}
            watched = [self._root + path for path in self._watched]
            with watches.watch(map(Path, watched)) as changes:
                if not await asyncio.to_thread(_differ, watched, missing):
                    await first(changes.__anext__(), self._looked.wait())
                if not self._looked.is_set():
                    changed("paths of the host")
                    await self._looked.wait()

    def _tell(self, missing: Mapping[DeviceId, tuple[str, ...]], *, there: Set[DeviceId]) -> None:
        for device, paths in missing.items():
            if self._missing.get(device) != paths:
                logger.warning(
                    "%s: device %s: missing where the plugin runs: %s; %s",
                    self._resource,
                    device,
                    ", ".join(paths),
                    "the device is unhealthy"
                    if self._judges
                    else "if the host does not have it, no container starts with a device node that is missing, and a "
                    "mount shows an empty directory",
                )
        for device in (self._missing.keys() - missing.keys()) & there:
            logger.info("%s: all paths of device %s exist now", self._resource, device)


def _differ(paths: Iterable[str], missing: Container[str]) -> bool:
    return any(os.path.exists(path) is (path in missing) for path in paths)
