"""The face of this room: which devices of one plugin are in use, by what a kubelet calls.

`giving` says what has to be over before an Allocate; `sweep` looks for uses that are over while no kubelet asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import CheckpointUnread, PathUnusable
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import first, to_the_end
from plugbay.sdk.author.plugin import DevicePlugin, resource_of
from plugbay.sdk.author.release_settings import DIRECTORY_NAME
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.context import Context, NextLook, is_strict
from plugbay.sdk.release.ending import Ends
from plugbay.sdk.release.evidence.evidence import Evidence
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.giving import Giving
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.neighbours import adopt, listen
from plugbay.sdk.release.starts import Starts
from plugbay.sdk.release.sweep import Sweep
from plugbay.wire.plugin_server import Caller

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

UNKNOWN: Final = Caller()
"""A caller that says nothing of itself, as a stock kubelet does."""


class Release:
    """The uses of one plugin's devices, from Allocate to `release()`.

    Args:
        hooks: calls the author's hooks, one at a time for each use.
        starting: the calls of PreStartContainer that run.
        resend: sends the list of devices again, and returns to how many kubelets.

    Attributes:
        context: the ledger and the evidence; `ledger` and `evidence` are short for them.
        ending: ends uses.
        sweep: looks for uses that are over.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        paths: KubeletPaths,
        shared: Shared,
        hooks: ReleaseHooks,
        *,
        starting: Turns,
        resend: Callable[[], int],
    ) -> None:
        resource = resource_of(plugin)
        directory = shared.settings.directory or paths.device_plugins / DIRECTORY_NAME
        trouble = Trouble.RAISED if is_strict(plugin) else Trouble.LOGGED
        self.ledger = Ledger(Journal(Path(directory), resource, shared.boot), resource, trouble)
        self.evidence = Evidence(resource, self.ledger, shared, paths, resend)
        self.context = Context(plugin, resource, self.ledger, self.evidence, shared, NextLook())
        self.ending = Ends(self.context, hooks, starting)
        self.sweep = Sweep(self.context, self.ending)
        self._giving = Giving(self.context, self.ending)
        self._starts = Starts(self.context, self.ending)
        self._mode = None if plugin.modes is None else plugin.modes.mode(resource)
        self._watches: Watches | None = None

    # --- its life ---------------------------------------------------------------------------------------------------

    async def open(self, watches: Watches, stopping: asyncio.Event) -> None:
        """Take over what earlier processes have left.

        A plugin that insists on releases waits until that is possible, or until it is to stop.

        Args:
            watches: tell of new checkpoints, and of what other processes write.
        """
        self._watches = watches
        # To the end, or the thread would keep the journal after `close`.
        await self._try(lambda: to_the_end(asyncio.to_thread(self.ledger.open)), "%s: %s", stopping)
        self.evidence.open(watches)
        if self.ledger.is_ours:
            await self._try(lambda: adopt(self.context), "%s: cannot find out which devices pods have: %s", stopping)
        # A device that is not released yet keeps its hardware, whether its pod is gone or not.
        if self._mode is not None:
            self._mode.restore(unit for use in self.ledger.uses() for unit in use.units)
        self.ledger.heard = self._heard
        self.context.shared.pod_lists.checks[self.context.resource] = self.evidence.has_stored

    async def _try(self, step: Callable[[], Awaitable[None]], message: str, stopping: asyncio.Event) -> None:
        """Take ``step``; if the plugin insists on releases, again and again until it succeeds."""
        backoff, problem = Backoff(RETRIES), ""
        while not stopping.is_set():
            try:
                await step()
                return
            except (PathUnusable, CheckpointUnread) as error:
                if str(error) != problem:  # the same problem over and over is one line in the log
                    logger.error(message, self.context.resource, error)
                problem = str(error)
                if not self.context.is_strict:
                    return
            await first(stopping.wait(), timeout_s=backoff.next_delay_s())

    def _heard(self, gone: Collection[DeviceId], come: Collection[DeviceId]) -> None:
        """Other processes of the plugin have given ``come``, or released ``gone``."""
        if self._mode is not None:
            self._mode.release(gone)
            self._mode.restore(come)
        self.context.next_look.stirred.set()
        logger.debug("%s: another process: given %s, released %s", self.context.resource, sorted(come), sorted(gone))

    async def run(self) -> None:
        """Look for uses that are over, for what other processes write, and for pods that have devices.

        This goes on until it is cancelled.
        """
        resource, is_strict = self.context.resource, self.context.is_strict
        if self.ledger.is_open and self._watches is not None:
            async with asyncio.TaskGroup() as tasks:
                learning = self.evidence.learn(
                    self._watches, matters=lambda use: is_strict or self.evidence.looks_at(use)
                )
                tasks.create_task(learning, name=f"pods with {resource}")
                tasks.create_task(listen(self.ledger, self._watches), name=f"others' uses of {resource}")
                await self.sweep.run()

    def close(self) -> None:
        self.context.shared.pod_lists.checks.pop(self.context.resource, None)
        self.evidence.close()
        self.ledger.close()

    # --- calls of a kubelet -----------------------------------------------------------------------------------------

    async def stream_opened(self, caller: Caller = UNKNOWN) -> None:
        """A kubelet wants the list of devices, and has not got it yet.

        Args:
            caller: what the kubelet says of itself.
        """
        is_new = await self.evidence.meet(caller)
        if is_new and self.ledger.uses():  # what was found in the journal is not known to go on, either
            self.context.next_look.make_urgent()

    def giving(self, units: Mapping[DeviceId, DeviceId]) -> AbstractAsyncContextManager[None]:
        """Run the block, an answer to Allocate; see `Giving.giving`."""
        return self._giving.giving(units)

    def starting(self, units: Collection[DeviceId]) -> AbstractAsyncContextManager[None]:
        """Run the block, an answer to PreStartContainer; see `Starts.starting`."""
        return self._starts.starting(units)

    async def post_stopped(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called PostStopContainer: a container that had ``units`` has ended."""
        self.evidence.has_calls = True
        await self.ending.post_stopped(units, operation)

    async def deallocated(self, units: Collection[DeviceId], operation: OperationId) -> None:
        """The kubelet called Deallocate: the uses of ``units`` are over."""
        self.evidence.has_calls = True
        await self.ending.deallocated(units, operation)
