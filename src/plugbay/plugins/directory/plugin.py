"""The directory plugin."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from plugbay.errors import InvalidDeviceId, PathUnusable, UsageError
from plugbay.model.devices import Device
from plugbay.model.edit_checks import is_env_name
from plugbay.model.ids import parse_resource_name
from plugbay.plugins.directory.discover import device_files
from plugbay.sdk.author.plugin import DevicePlugin

logger = logging.getLogger(__name__)


class DirectoryPlugin(DevicePlugin):
    """Every file in a directory is a device; its name is the ID.

    The directory may be missing, or be removed and made again, at any time; without it there are no devices.

    Args:
        resource_name: the resource it serves.
        path: the directory.
        env: variable that tells a container the IDs of its devices, in ID order, joined by commas.

    Raises:
        InvalidResourceName: no kubelet would accept the name.
        UsageError: ``env`` is not a name for an environment variable.
    """

    def __init__(self, resource_name: str, path: Path, *, env: str) -> None:
        if not is_env_name(env):
            raise UsageError(f"env: {env!r} is not a name for an environment variable, such as CARDS")
        self.resource_name = parse_resource_name(resource_name)
        self.watch = path
        self._path = path
        self._env = env
        self._warned: set[str] = set()

    def discover(self) -> Iterator[Device]:
        try:
            files = list(device_files(self._path))
        except (PermissionError, NotADirectoryError) as error:
            raise PathUnusable(str(self._path), f"cannot be listed: {error.strerror}") from error
        for found in files:
            if isinstance(found, InvalidDeviceId):
                self._warn(found)
            else:
                yield Device(found, env={self._env: found})

    def _warn(self, error: InvalidDeviceId) -> None:
        if error.device_id not in self._warned:
            self._warned.add(error.device_id)
            logger.warning("%s holds a file that is not a device: %s", self._path, error)
