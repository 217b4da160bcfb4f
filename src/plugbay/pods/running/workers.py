"""The workers of all pods, each a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final

from plugbay.errors import PlugbayError
from plugbay.model.ids import PodUid
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.running.pod import PodWorker
from plugbay.pods.scheduling.binder import Binder

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""The wait before a pod's worker that failed is started again."""


class PodWorkers:
    """The pods in work. A fault in one pod's work ends neither the others nor the node.

    Args:
        make: a worker for a pod that is in the table.
        binder: told of each pod whose worker has ended.
        tasks: lives longer than every worker.
    """

    def __init__(self, make: Callable[[PodUid], PodWorker], binder: Binder, tasks: asyncio.TaskGroup) -> None:
        self._make = make
        self._binder = binder
        self._group = tasks
        self._workers: dict[PodUid, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._clearing: dict[PodUid, asyncio.Task[None]] = {}
        """Tasks that free what a pod held: one from a manifest may come back meanwhile under the same UID."""

    def start(self, uid: PodUid) -> None:
        """Start the worker of a pod; harmless twice."""
        if uid not in self._workers:
            worker = self._make(uid)
            self._workers[uid] = worker
            self._spawn(partial(self._run, uid, worker))

    def terminate(self, uid: PodUid) -> None:
        """Stop and remove a pod whose deletion is recorded."""
        if uid in self._workers:
            self._workers[uid].terminate()
        else:
            self.start(uid)

    def kill_sooner(self, uid: PodUid, grace_s: int) -> None:
        """Shorten the grace period of a deletion under way."""
        if uid in self._workers:
            self._spawn(partial(self._workers[uid].kill_sooner, grace_s))

    def look_at_devices(self, pods: Collection[PodUid]) -> None:
        """Tell the workers of these pods to look at the health of their devices."""
        for uid in self._workers.keys() & pods:
            self._workers[uid].look_at_devices()

    def look_at_fields(self, uid: PodUid) -> None:
        """Tell the worker of a pod, if it has one, that the pod has changed."""
        if uid in self._workers:
            self._workers[uid].look_at_fields()

    def clear(self, uid: PodUid, work: Callable[[], Awaitable[None]], *, comes_first: bool) -> None:
        """Free what an earlier run of the node left of a pod.

        Args:
            comes_first: whether a worker of the same pod waits for it.
        """
        task = self._spawn(work)
        if comes_first:
            self._clearing[uid] = task

    def keep_running(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` until `stop`. A fault in it ends the node: without it nothing would move."""
        self._track(self._group.create_task(work))

    async def stop(self) -> None:
        """Let go of all pods; what runs goes on running."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, uid: PodUid, worker: PodWorker) -> None:
        """Run a pod, and try again after a fault."""
        if (clearing := self._clearing.pop(uid, None)) is not None:
            await asyncio.wait([clearing])
        while True:
            try:
                await worker.run()
            except Exception as error:
                leaf = _leaf(error)
                logger.error(
                    "the work for pod %s failed; trying again in %d s: %s", uid, RETRY_S, leaf, exc_info=_ours(error)
                )
                if not worker.pod.is_open:
                    break
                worker.pod.warning("FailedSync", f"Error syncing pod, skipping: {leaf}")
                await worker.rest(RETRY_S)
            else:
                break
        del self._workers[uid]
        self._binder.vacate(uid)
        if worker.pod.is_open and worker.pod.record.stage is PodStage.TERMINATING:
            self.start(uid)  # deleted in the moment it ended

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return self._track(self._group.create_task(_guarded(work)))

    def _track(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _guarded(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:
        problem = "a task for the pods failed; its pod may keep what it holds until the node restarts: %s"
        logger.error(problem, _leaf(error), exc_info=_ours(error))


def _ours(error: Exception) -> Exception | None:
    """Return ``error`` if it is a fault of ours, whose traceback has to be logged; the text says enough of others."""
    return None if isinstance(_leaf(error), PlugbayError) else error


def _leaf(error: BaseException) -> BaseException:
    """The first real error inside exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
