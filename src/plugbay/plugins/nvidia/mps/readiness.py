"""The plugin's question whether the daemon of a resource answers, at the start and from then on.

Source: k8s-device-plugin 0.20 ``internal/plugin/mps.go``; spec 8.4.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.choices import SharingStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.devices import ResourceDevices
from plugbay.plugins.nvidia.mps.programs import MPS_ROOT, PERCENTAGE, MpsPlace, MpsPrograms, tell_daemon
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_WAITING: Final = "error waiting for MPS daemon: error checking MPS daemon health"
_FALL: Final = 2
"""A daemon that has answered before counts as silent after so many questions without an answer: it may be busy."""


@dataclass(frozen=True, slots=True)
class MpsAnswers:
    """The daemons of a node, as they answered last.

    Attributes:
        waiting: the resources whose daemon has never answered, each with the reason; they are not offered.
        silent: those whose daemon answered before and does not any more, likewise; their devices are unhealthy.
        is_settled: whether every daemon answers, so that there is no need to ask again soon.
    """

    waiting: Mapping[ResourceName, str] = field(default_factory=dict)
    silent: Mapping[ResourceName, str] = field(default_factory=dict)
    is_settled: bool = True


class MpsReadiness:
    """Asks the daemons whether they answer, and remembers which of them have.

    Args:
        root: where the daemons' directories are, in the plugin's container.
    """

    def __init__(self, programs: MpsPrograms, root: Path = MPS_ROOT) -> None:
        self._root = root
        self._programs = programs
        self._failures: dict[ResourceName, int] = {}  # in a row, of the daemons that have answered once

    async def ask(self, resources: Iterable[ResourceDevices], configuration: Configuration) -> MpsAnswers:
        """Ask the daemon of each resource that is shared by MPS."""
        if configuration.sharing.strategy is not SharingStrategy.MPS:
            self._failures.clear()
            return MpsAnswers()
        waiting: dict[ResourceName, str] = {}
        silent: dict[ResourceName, str] = {}
        names = [each.name for each in resources if any(device.is_shared for device in each.devices.values())]
        self._failures = {name: count for name, count in self._failures.items() if name in names}
        for name in names:
            if not (problem := await self._problem_of(name)):
                self._answered(name)
            elif name not in self._failures:
                waiting[name] = f"{_WAITING}: {problem}"
            elif self._is_silent_after(name, problem):
                silent[name] = problem
        return MpsAnswers(waiting, silent, not waiting and not any(self._failures.values()))

    async def _problem_of(self, name: ResourceName) -> str:
        """Why a daemon does not answer; empty when it does."""
        try:
            await tell_daemon(self._programs, MpsPlace(self._root, name), PERCENTAGE)
        except GpusUnusable as error:
            return str(error)
        return ""

    def _answered(self, name: ResourceName) -> None:
        if self._failures.get(name, 0) >= _FALL:
            logger.info("the MPS daemon of %s answers again: its devices are offered", name)
        self._failures[name] = 0

    def _is_silent_after(self, name: ResourceName, problem: str) -> bool:
        self._failures[name] += 1
        if self._failures[name] == _FALL:
            logger.error(
                "the MPS daemon of %s does not answer any more: %s; its devices are unhealthy until it does, "
                "and what went wrong is in the log of the daemon's pod",
                name,
                problem,
            )
        return self._failures[name] >= _FALL
