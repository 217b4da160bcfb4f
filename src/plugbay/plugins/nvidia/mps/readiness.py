"""The plugin's question whether the daemon of a resource answers.

Source: k8s-device-plugin 0.20 ``internal/plugin/mps.go``; spec 8.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.choices import SharingStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.devices import ResourceDevices
from plugbay.plugins.nvidia.mps.programs import MPS_ROOT, PERCENTAGE, MpsPlace, MpsPrograms, tell_daemon

_WAITING: Final = "error waiting for MPS daemon: error checking MPS daemon health"


class MpsReadiness:
    """Remembers which daemons have answered: containers may have their devices from then on.

    Args:
        root: where the daemons' directories are, in the plugin's container.
    """

    def __init__(self, programs: MpsPrograms, root: Path = MPS_ROOT) -> None:
        self._root = root
        self._programs = programs
        self._ready: set[ResourceName] = set()

    async def waiting(
        self, resources: Iterable[ResourceDevices], configuration: Configuration
    ) -> dict[ResourceName, str]:
        """The resources that cannot be offered yet, each with the reason."""
        if configuration.sharing.strategy is not SharingStrategy.MPS:
            self._ready.clear()
            return {}
        problems: dict[ResourceName, str] = {}
        for resource in resources:
            if resource.name in self._ready or not any(each.is_shared for each in resource.devices.values()):
                continue
            try:
                await tell_daemon(self._programs, MpsPlace(self._root, resource.name), PERCENTAGE)
            except GpusUnusable as error:
                problems[resource.name] = f"{_WAITING}: {error}"
            else:
                self._ready.add(resource.name)
        return problems
