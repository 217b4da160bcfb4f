"""Runs the node's pods: takes them in, starts a worker for each, finds them again after a restart."""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from plugbay.errors import InvalidManifest, PlugbayError, StoreUnusable
from plugbay.manager.operations import OperationKind
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod, with_identity
from plugbay.node.admission import Handler, admission_chain
from plugbay.node.adoption import adopt
from plugbay.node.binding import Binder
from plugbay.node.events import pod_ref
from plugbay.node.leftovers import by_pod, clear_away, leftovers
from plugbay.node.lifecycle import HOLDS_RESOURCES, Stage, Step
from plugbay.node.machine import Machine
from plugbay.node.parts import NodeParts
from plugbay.node.pod_worker import PodWorker
from plugbay.node.records import Deletion, PodRecord, new_record
from plugbay.node.runtimes.port import ContainerState
from plugbay.node.static_pods import is_static
from plugbay.node.updating import updated

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""Before a pod's worker that failed is started again."""
RELEASE_FAILED: Final = {
    OperationKind.POST_STOP: "FailedPostStopDevice",
    OperationKind.DEALLOCATE: "FailedDeallocateDevice",
}
"""Reasons of events."""
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of the API server's name suffixes: no vowels, no words."""


class PodEngine:
    """The node's pods in motion. Made by `run_engine`.

    Attributes:
        binder: gives pods their place.
        admission: what bound pods have to pass.
    """

    def __init__(self, parts: NodeParts, machine: Machine, *, handlers: Sequence[Handler]) -> None:
        self._parts = parts
        self._workers: dict[PodUid, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._clearing: dict[PodUid, asyncio.Task[None]] = {}
        """What frees all that a pod held: one from a manifest may come back meanwhile under the same UID."""
        self.binder = Binder(parts, machine, start=self._start_worker)
        self.admission = admission_chain(parts.devices, self.binder.misfit, others=handlers)

    async def create(self, pod: Pod) -> PodRecord:
        """Take in a new pod, durably. One with a node name needs no scheduler.

        Raises:
            PodExists: its namespace has a pod of this name.
            InvalidManifest: it is meant for another node.
            StoreUnusable: it could not be kept.
        """
        if pod.spec.node_name not in (None, self._parts.name):
            problem = f"names another node; the only one here is {self._parts.name}"
            raise InvalidManifest(problem, field="spec.nodeName", source=f"pod {pod.name}")
        suffix = "".join(secrets.choice(_NAME_ALPHABET) for _ in range(5))
        return await self._take_in(
            with_identity(replace(pod, uid=PodUid("")), uid=PodUid(str(uuid.uuid4())), suffix=suffix)
        )

    async def create_static(self, pod: Pod) -> PodRecord:
        """Take in a pod that brings its place and its identity along; see `static_pods`.

        Raises:
            PodExists: its namespace has a pod of this name.
            StoreUnusable: it could not be kept.
        """
        return await self._take_in(pod)

    async def _take_in(self, pod: Pod) -> PodRecord:
        record = new_record(pod, created_at=self._parts.clock.now())
        if pod.spec.node_name is not None:
            record = replace(record.after(Step.BIND), bound_at=record.created_at)
        record = self._parts.pods.add(record)
        try:
            await self._parts.pods.flush()
        except StoreUnusable:
            if record.uid in self._parts.pods:
                self._parts.pods.remove(record)
            raise
        if record.uid not in self._parts.pods or self._parts.pods[record.uid].stage is not record.stage:
            return record  # deleted meanwhile
        if record.stage is Stage.BOUND:
            self.binder.occupy(record)
            self._start_worker(record.uid)
        else:
            self.binder.enqueue(record.uid)
        return record

    async def update(self, record: PodRecord, wanted: Pod) -> PodRecord:
        """Have a pod that is there carry the labels and annotations of ``wanted``; nothing happens if it does.

        Raises:
            ImmutablePod: more than that would have to change.
            StoreUnusable: the change could not be kept.
        """
        record = self._parts.pods.put(replace(record, pod=updated(record.pod, wanted)))
        await self._parts.pods.flush()
        return record

    async def delete(self, namespace: str, name: str, *, grace_s: int | None = None) -> PodRecord:
        """Have a pod stopped and removed. A second call can only shorten the grace period.

        Args:
            grace_s: between SIGTERM and SIGKILL; 0 kills. None is the pod's own choice.

        Raises:
            PodNotFound: there is no such pod.
            StoreUnusable: the deletion could not be kept; it goes on nevertheless.
        """
        record = self._begin_deletion(self._parts.pods.named(namespace, name), grace_s)
        await self._parts.pods.flush()
        return record

    def _begin_deletion(self, record: PodRecord, grace_s: int | None) -> PodRecord:
        if grace_s is None:
            grace_s = record.pod.spec.termination_grace_period_s
        if record.stage in (Stage.UNSCHEDULED, Stage.ENDED):
            grace_s = 0
        self.binder.withdraw(record.uid)
        wanted = Deletion.at(self._parts.clock.now(), grace_s=grace_s)
        if record.deletion is None:
            record = self._parts.pods.put(replace(record.after(Step.DELETE), deletion=wanted))
            self._terminate(record)
        elif grace_s == 0 or wanted.deadline < record.deletion.deadline:
            # Also past the deadline there may be something to kill: what got a little more time for its turn's sake.
            earlier = min(wanted, record.deletion, key=lambda deletion: deletion.deadline)
            record = self._parts.pods.put(replace(record.after(Step.DELETE), deletion=earlier))
            if record.uid in self._workers:
                self._spawn(partial(self._workers[record.uid].kill_sooner, grace_s))
        return record

    async def drain(self, *, grace_s: int | None = None) -> list[PodRecord]:
        """Take no new pods, and have all stopped and removed but those that a manifest on the node keeps there.

        Returns:
            The pods that go; they are gone when nothing shows them any more.

        Raises:
            StoreUnusable: it could not be kept; it goes on nevertheless.
        """
        self._parts.cordon.draw()
        leaving = [record for record in self._parts.pods if not is_static(record.pod)]
        for record in leaving:
            self._begin_deletion(record, grace_s)
        await self._parts.pods.flush()
        return [self._parts.pods[record.uid] for record in leaving if record.uid in self._parts.pods]

    async def cordon(self) -> None:
        """Take no new pods.

        Raises:
            StoreUnusable: it could not be kept.
        """
        self._parts.cordon.draw()
        await self._parts.pods.flush()

    async def uncordon(self) -> None:
        """Take new pods again.

        Raises:
            StoreUnusable: it could not be kept.
        """
        self._parts.cordon.lift()
        self.binder.try_all()
        await self._parts.pods.flush()

    async def restore(self, instances: Iterable[ContainerState]) -> None:
        """Take up the stored pods and what the runtime still has of them; called once, before anything else."""
        there = by_pod(instances)
        for record in list(self._parts.pods):
            adopted = self._parts.pods.put(adopt(record, there.get(record.uid, ()), now=self._parts.clock.now()))
            if adopted.stage in HOLDS_RESOURCES and adopted.bound_at is not None:
                self.binder.occupy(adopted)
            if adopted.stage is Stage.UNSCHEDULED:
                self.binder.enqueue(adopted.uid)
            elif adopted.stage is not Stage.ENDED:
                self._start_worker(adopted.uid)
        for uid, left in (await leftovers(self._parts, there)).items():
            clearing = self._spawn(partial(clear_away, self._parts, uid, left))
            if uid not in self._parts.pods or self._parts.pods[uid].stage not in HOLDS_RESOURCES:
                self._clearing[uid] = clearing

    # --- workers ----------------------------------------------------------------------------------------------------

    def _start_worker(self, uid: PodUid) -> None:
        if uid not in self._workers:
            worker = PodWorker(self._parts, uid, admission=self.admission)
            self._workers[uid] = worker
            self._spawn(partial(self._run_worker, uid, worker))

    def _terminate(self, record: PodRecord) -> None:
        if record.uid in self._workers:
            self._workers[record.uid].terminate()
        else:
            self._start_worker(record.uid)

    async def _run_worker(self, uid: PodUid, worker: PodWorker) -> None:
        """Run a pod, and try again after a fault: one pod must not end the others."""
        if (clearing := self._clearing.pop(uid, None)) is not None:
            await asyncio.wait([clearing])
        while True:
            try:
                await worker.run()
            except Exception as error:
                leaf = _leaf(error)
                logger.error(
                    "running pod %s failed: %s; trying again in %d s", uid, leaf, RETRY_S, exc_info=_ours(error)
                )
                if uid not in self._parts.pods:
                    break
                pod = self._parts.pods[uid].pod
                self._parts.events.warning(pod_ref(pod), "FailedSync", f"Error syncing pod, skipping: {leaf}")
                await worker.rest(RETRY_S)
            else:
                break
        del self._workers[uid]
        self.binder.vacate(uid)
        if uid in self._parts.pods and self._parts.pods[uid].stage is Stage.TERMINATING:
            self._start_worker(uid)  # deleted in the moment it ended

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return self._track(self._parts.tasks.create_task(_guarded(work)))

    def _track(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Let go of all pods; what runs goes on running."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def start_background(self) -> None:
        """Bind pods as long as the engine lives. A fault in that ends the node: without it nothing would move."""
        self._track(self._parts.tasks.create_task(self.binder.bind_pods()))
        self._track(self._parts.tasks.create_task(self.binder.watch_devices()))
        self._track(self._parts.tasks.create_task(self._follow_health()))
        self._track(self._parts.tasks.create_task(self._follow_releases()))

    async def _follow_releases(self) -> None:
        async for notice in self._parts.devices.release_notices():
            if notice.pod in self._parts.pods:
                about = pod_ref(self._parts.pods[notice.pod].pod, notice.container or None)
                self._parts.events.warning(about, RELEASE_FAILED[notice.kind], notice.message)

    async def _follow_health(self) -> None:
        async for pods in self._parts.devices.health_notices():
            for uid in pods & self._workers.keys():
                self._workers[uid].look_at_devices()


@asynccontextmanager
async def run_engine(
    parts: NodeParts, machine: Machine, *, handlers: Sequence[Handler] = ()
) -> AsyncIterator[PodEngine]:
    """Pods run while the block runs. At its end their processes go on, to be adopted at the next start.

    Args:
        handlers: of admission, after the node's own.
    """
    engine = PodEngine(parts, machine, handlers=handlers)
    await engine.restore(await parts.runtime.list())
    engine.start_background()
    try:
        yield engine
    finally:
        await engine.stop()


async def _guarded(work: Callable[[], Awaitable[None]]) -> None:
    """A fault in one pod's affairs must not end the node."""
    try:
        await work()
    except Exception as error:
        logger.error("a background task of the pods failed: %s", _leaf(error), exc_info=_ours(error))


def _ours(error: Exception) -> Exception | None:
    """``error`` if it is a fault of ours, whose traceback has to be seen; what stands in the way is said in words."""
    return None if isinstance(_leaf(error), PlugbayError) else error


def _leaf(error: BaseException) -> BaseException:
    """The first real error inside exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
