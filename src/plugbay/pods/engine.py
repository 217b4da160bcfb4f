"""Runs the node's pods: takes them in, starts a worker for each, finds them again after a restart."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from plugbay.documents import Json
from plugbay.errors import InvalidManifest, PodExists, StoreUnusable
from plugbay.manifest.update import updated
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod, with_identity
from plugbay.model.releases import OperationKind
from plugbay.ops.clock import Clock
from plugbay.pods.admission import AdmissionChain, AdmissionHandler, admission_chain
from plugbay.pods.devices import DeviceFailure, DeviceSource
from plugbay.pods.events import pod_ref
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.node import Node
from plugbay.pods.record import ClientCondition, Deletion, PodRecord, is_static, new_record
from plugbay.pods.recovery.restore import restore
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.pod import PodWorker
from plugbay.pods.running.workers import PodWorkers
from plugbay.pods.scheduling.binder import Binder
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

RELEASE_FAILED: Final = {
    OperationKind.POST_STOP: "FailedPostStopDevice",
    OperationKind.DEALLOCATE: "FailedDeallocateDevice",
}
"""The reasons of the events that tell of it."""
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of the API server's name suffixes: without vowels there are no words."""


class PodEngine:
    """The node's pods in motion. Made by `run_engine`.

    Attributes:
        admission: the handlers that bound pods have to pass.
    """

    def __init__(
        self,
        node: Node,
        pods: PodTable,
        binder: Binder,
        workers: PodWorkers,
        *,
        admission: AdmissionChain,
        clock: Clock,
    ) -> None:
        self.admission = admission
        self._node = node
        self._pods = pods
        self._binder = binder
        self._workers = workers
        self._clock = clock

    async def create(self, pod: Pod, *, managed: tuple[Json, ...] = ()) -> PodRecord:
        """Take in a new pod, durably. A pod with a node name needs no scheduler.

        Args:
            managed: who owns which of its fields.

        Raises:
            PodExists: its namespace has a pod of this name.
            InvalidManifest: the pod is meant for another node.
            StoreUnusable: it could not be kept.
        """
        return await self._take_in(self._identified(pod), managed)

    def rehearse_create(self, pod: Pod, *, managed: tuple[Json, ...] = ()) -> PodRecord:
        """The record that `create` would make; nothing is taken in.

        Raises:
            PodExists, InvalidManifest: as `create` does.
        """
        pod = self._identified(pod)
        if self._pods.has(pod.namespace, pod.name):
            raise PodExists(pod.name)
        return replace(new_record(pod, created_at=self._clock.now()), managed=managed)

    def _identified(self, pod: Pod) -> Pod:
        if pod.spec.node_name not in (None, self._node.name):
            problem = f"names another node; the only one here is {self._node.name}"
            raise InvalidManifest(problem, field="spec.nodeName", source=f"pod {pod.name}")
        suffix = "".join(secrets.choice(_NAME_ALPHABET) for _ in range(5))
        return with_identity(replace(pod, uid=PodUid("")), uid=PodUid(str(uuid.uuid4())), suffix=suffix)

    async def create_static(self, pod: Pod) -> PodRecord:
        """Take in a pod that brings its place and its identity along; see `plugbay.pods.static`.

        Raises:
            PodExists: its namespace has a pod of this name.
            StoreUnusable: it could not be kept.
        """
        return await self._take_in(pod)

    async def _take_in(self, pod: Pod, managed: tuple[Json, ...] = ()) -> PodRecord:
        record = replace(new_record(pod, created_at=self._clock.now()), managed=managed)
        if pod.spec.node_name is not None:
            record = replace(record.after(PodStep.BIND), bound_at=record.created_at)
        record = self._pods.add(record)
        try:
            await self._pods.flush()
        except StoreUnusable:
            if record.uid in self._pods:
                self._pods.remove(record)
            raise
        if record.uid not in self._pods or self._pods[record.uid].stage is not record.stage:
            return record  # deleted meanwhile
        if record.stage is PodStage.BOUND:
            self._binder.occupy(record)
            self._workers.start(record.uid)
        else:
            self._binder.enqueue(record.uid)
        return record

    async def update(self, record: PodRecord, wanted: Pod, *, managed: tuple[Json, ...] | None = None) -> PodRecord:
        """Give an existing pod the metadata of ``wanted`` that may change; nothing happens if it has it.

        A deleted pod that lost its last finalizer disappears, when nothing of it runs any more.

        Args:
            managed: who owns which of its fields from now on; None leaves that.

        Raises:
            ImmutablePod: more than that would have to change.
            StoreUnusable: the change could not be kept.
        """
        record = self._pods.put(self.rehearse_update(record, wanted, managed=managed))
        self._workers.look_at_fields(record.uid)
        if record.stage is PodStage.GONE and not record.pod.finalizers:
            self._pods.remove(record)
        await self._pods.flush()
        return record

    def rehearse_update(self, record: PodRecord, wanted: Pod, *, managed: tuple[Json, ...] | None = None) -> PodRecord:
        """The record that `update` would make; nothing changes.

        Raises:
            ImmutablePod: as `update` does.
        """
        managed = record.managed if managed is None else managed
        return replace(record, pod=updated(record.pod, wanted), managed=managed)

    async def set_conditions(self, record: PodRecord, conditions: tuple[ClientCondition, ...]) -> PodRecord:
        """Keep the conditions that clients have set for a pod.

        Raises:
            StoreUnusable: the change could not be kept.
        """
        record = self._pods.put(replace(record, conditions=conditions))
        await self._pods.flush()
        return record

    async def delete(self, namespace: str, name: str, *, grace_s: int | None = None) -> PodRecord:
        """Start to stop and remove a pod. A second call can only shorten the grace period.

        Args:
            grace_s: between SIGTERM and SIGKILL; 0 kills. None is the pod's own choice.

        Raises:
            PodNotFound: a pod of this name does not exist.
            StoreUnusable: the deletion could not be kept; it goes on nevertheless.
        """
        record = self._begin_deletion(self._pods.named(namespace, name), grace_s)
        await self._pods.flush()
        return record

    def _begin_deletion(self, record: PodRecord, grace_s: int | None) -> PodRecord:
        if record.stage is PodStage.GONE:
            return record  # only its finalizers keep it
        if grace_s is None:
            grace_s = record.pod.spec.termination_grace_period_s
        if record.stage in (PodStage.UNSCHEDULED, PodStage.ENDED):
            grace_s = 0
        self._binder.withdraw(record.uid)
        wanted = Deletion.at(self._clock.now(), grace_s=grace_s)
        if record.deletion is None:
            record = self._pods.put(replace(record.after(PodStep.DELETE), deletion=wanted))
            self._workers.terminate(record.uid)
        elif grace_s == 0 or wanted.deadline < record.deletion.deadline:
            # Also past the deadline there may be something to kill: what got a little more time for its turn's sake.
            earlier = min(wanted, record.deletion, key=lambda deletion: deletion.deadline)
            record = self._pods.put(replace(record.after(PodStep.DELETE), deletion=earlier))
            self._workers.kill_sooner(record.uid, grace_s)
        return record

    async def drain(self, *, grace_s: int | None = None) -> list[PodRecord]:
        """Take no new pods, and have all stopped and removed but those that a manifest on the node keeps there.

        Returns:
            The pods that go; they are gone when nothing shows them any more.

        Raises:
            StoreUnusable: it could not be kept; it goes on nevertheless.
        """
        self._node.cordon()
        leaving = [each for each in self._pods if not is_static(each.pod) and each.stage is not PodStage.GONE]
        for record in leaving:
            self._begin_deletion(record, grace_s)
        await self._pods.flush()
        return [self._pods[record.uid] for record in leaving if record.uid in self._pods]

    async def cordon(self) -> None:
        """Take no new pods.

        Raises:
            StoreUnusable: it could not be kept.
        """
        self._node.cordon()
        await self._pods.flush()

    async def uncordon(self) -> None:
        """Take new pods again.

        Raises:
            StoreUnusable: it could not be kept.
        """
        self._node.uncordon()
        self._binder.try_all()
        await self._pods.flush()


@asynccontextmanager
async def run_engine(
    node: Node,
    pods: PodTable,
    events: EventLog,
    host: PodHost,
    devices: DeviceSource,
    *,
    clock: Clock,
    handlers: Sequence[AdmissionHandler] = (),
    on_device_failure: DeviceFailure = DeviceFailure.KEEP,
) -> AsyncIterator[PodEngine]:
    """Pods run while the block runs. At its end their processes go on, to be adopted at the next start.

    Args:
        handlers: asked for admission after the node's own.
    """
    binder = Binder(node, pods, events, devices, clock)
    admission = admission_chain(devices, binder.misfit, others=handlers)

    def worker(uid: PodUid) -> PodWorker:
        account = PodAccount(uid, pods, events, clock)
        return PodWorker(account, host, devices, admission=admission, on_device_failure=on_device_failure)

    workers = PodWorkers(worker, binder, host.tasks)
    await restore(pods, host, devices, binder, workers, clock=clock)
    workers.keep_running(_start_bound(binder, workers))
    workers.keep_running(binder.watch_devices())
    workers.keep_running(_follow_health(devices, workers))
    workers.keep_running(_follow_releases(devices, pods, events))
    try:
        yield PodEngine(node, pods, binder, workers, admission=admission, clock=clock)
    finally:
        await workers.stop()


async def _start_bound(binder: Binder, workers: PodWorkers) -> None:
    async for uid in binder.bound_pods():
        workers.start(uid)


async def _follow_health(devices: DeviceSource, workers: PodWorkers) -> None:
    async for pods in devices.health_notices():
        workers.look_at_devices(pods)


async def _follow_releases(devices: DeviceSource, pods: PodTable, events: EventLog) -> None:
    async for notice in devices.release_notices():
        if notice.pod in pods:
            about = pod_ref(pods[notice.pod].pod, notice.container or None)
            events.warning(about, RELEASE_FAILED[notice.kind], notice.message)
