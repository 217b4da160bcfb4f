"""All MPS daemons of a node: each is kept running, and started anew when it ends.

Source: k8s-device-plugin 0.20 ``cmd/mps-control-daemon/main.go``; spec 8.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from plugbay.errors import DriverCallFailed, OperatorError
from plugbay.model.ids import ResourceName
from plugbay.ops.backoff import Backoff, Delays
from plugbay.ops.tasks import first
from plugbay.plugins.nvidia.mps.daemon import MpsDaemon
from plugbay.plugins.nvidia.mps.plan import MpsPlan
from plugbay.plugins.nvidia.mps.programs import READY, MpsPlace, MpsPrograms

logger = logging.getLogger(__name__)

RESTARTS: Final = Delays(1.0, 30.0, jitter=0.2)
_STEADY_S: Final = 60.0


class MpsControl:
    """Keeps the daemons of a node until it is asked to stop.

    ``.ready`` in their root exists while all of them answer, and while the configuration wants none.

    Args:
        find: gives the daemons that there should be.
        root: of their directories.
        restarts: the delays after failures.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[tuple[MpsPlan, ...]]],
        root: Path,
        programs: MpsPrograms,
        restarts: Delays = RESTARTS,
    ) -> None:
        self._find = find
        self._root = root
        self._programs = programs
        self._restarts = restarts
        self._wanted: frozenset[ResourceName] | None = None
        self._started: set[ResourceName] = set()
        self._stopped = asyncio.Event()
        self._reload = asyncio.Event()

    def stop(self) -> None:
        """End the daemons, and `run`, soon."""
        self._stopped.set()

    def reload(self) -> None:
        """End the daemons, and start those that there should be then. Programs that use them lose their GPUs."""
        self._reload.set()

    async def run(self) -> None:
        """Keep the daemons until `stop`."""
        await self._show_ready()
        try:
            await first(self._follow(), self._stopped.wait())
        finally:
            self._wanted = None
            await self._show_ready()

    async def _follow(self) -> None:
        backoff = Backoff(self._restarts, steady_s=_STEADY_S)
        while True:
            self._reload.clear()
            try:
                plans = await self._find()
            except (OperatorError, DriverCallFailed) as error:
                self._wanted = None
                await self._show_ready()
                delay_s = backoff.next_delay_s()
                logger.error("no MPS daemon is started: %s; trying again in %.1f s", error, delay_s)
                await first(self._reload.wait(), timeout_s=delay_s)
                continue
            backoff.reset()
            self._wanted = frozenset(plan.resource for plan in plans)
            await self._show_ready()
            if not plans:
                logger.info("no resource is shared by MPS; waiting until SIGHUP, with which the configuration is read")
            await first(self._reload.wait(), *map(self._keep, plans))

    async def _keep(self, plan: MpsPlan) -> None:
        async def told(is_started: bool) -> None:
            (self._started.add if is_started else self._started.discard)(plan.resource)
            await self._show_ready()

        daemon = MpsDaemon(plan, MpsPlace(self._root, plan.resource), self._programs, told)
        backoff, clock = Backoff(self._restarts, steady_s=_STEADY_S), asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                await daemon.run()
            except OperatorError as error:
                delay_s = backoff.next_delay_s(ran_s=clock() - began)
                logger.error(
                    "the MPS daemon of %s failed: %s; starting it again in %.1f s", plan.resource, error, delay_s
                )
                await asyncio.sleep(delay_s)

    async def _show_ready(self) -> None:
        ready = self._root / READY
        if self._wanted is not None and self._wanted <= self._started:
            await asyncio.to_thread(ready.touch)
        else:
            await asyncio.to_thread(ready.unlink, missing_ok=True)
