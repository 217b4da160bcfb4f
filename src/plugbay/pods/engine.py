"""Runs the node's pods: takes them in, starts a worker for each, finds them again after a restart."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.errors import InvalidManifest, PodExists, PodNotBindable, StoreUnusable
from plugbay.manifest.update import updated
from plugbay.model.downward import DEFAULT_ACCOUNT
from plugbay.model.ids import PodUid
from plugbay.model.nodes import NodeInput
from plugbay.model.pods import Pod, with_identity
from plugbay.model.releases import OperationKind
from plugbay.ops.clock import Clock
from plugbay.pods.admission import AdmissionChain, AdmissionHandler, admission_chain
from plugbay.pods.devices import DeviceFailure, DeviceSource
from plugbay.pods.events import pod_ref
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.node import Node
from plugbay.pods.record import ClientCondition, Deletion, Disruption, PodRecord, is_static, new_record
from plugbay.pods.recovery.restore import restore
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.pod import PodWorker
from plugbay.pods.running.workers import PodWorkers
from plugbay.pods.scheduling.binder import Binder, Preemption
from plugbay.pods.scheduling.constraints import NamespaceLabels, own_label
from plugbay.pods.scheduling.defaults import BUILT_IN_CLASSES, PriorityClass, filled_in
from plugbay.pods.scheduling.taint_eviction import TaintEvictions
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

RELEASE_FAILED: Final = {
    OperationKind.POST_STOP: "FailedPostStopDevice",
    OperationKind.DEALLOCATE: "FailedDeallocateDevice",
}
"""The reasons of the events that tell of it."""
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of the API server's name suffixes: without vowels there are no words."""


PriorityClasses: TypeAlias = Callable[[], Mapping[str, PriorityClass]]


class PodEngine:
    """The node's pods in motion. Made by `run_engine`.

    Attributes:
        admission: the handlers that bound pods have to pass.
        taint_evictions: the pods that the node's taints drive away.
    """

    def __init__(
        self,
        node: Node,
        pods: PodTable,
        binder: Binder,
        workers: PodWorkers,
        *,
        admission: AdmissionChain,
        events: EventLog,
        priority_classes: PriorityClasses,
        clock: Clock,
    ) -> None:
        self.admission = admission
        self.taint_evictions = TaintEvictions(node, pods, events, self.evict, clock)
        self._priority_classes = priority_classes
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
        pod = with_identity(replace(pod, uid=PodUid("")), uid=PodUid(str(uuid.uuid4())), suffix=suffix)
        spec = replace(pod.spec, service_account=pod.spec.service_account or DEFAULT_ACCOUNT)
        return filled_in(replace(pod, spec=spec), self._priority_classes())

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
            self._binder.enqueue(record)
        return record

    async def bind(self, record: PodRecord) -> PodRecord:
        """Give a pod its place here, durably, because a client said so; only the kubelet's part looks whether it fits.

        Raises:
            PodNotBindable: it has its place already, is gated, or is being deleted.
            StoreUnusable: it could not be kept.
        """
        self.check_bindable(record)
        self._binder.withdraw(record.uid)
        placed = replace(record.pod, spec=replace(record.pod.spec, node_name=self._node.name))
        bound = replace(
            record.after(PodStep.BIND), pod=placed, bound_at=self._clock.now(), unschedulable="", nominated_node=""
        )
        self._binder.occupy(bound)
        bound = self._pods.put(bound)
        await self._pods.flush()
        if bound.uid in self._pods and self._pods[bound.uid].stage is PodStage.BOUND:
            self._workers.start(bound.uid)
        return bound

    def check_bindable(self, record: PodRecord) -> None:
        """
        Raises:
            PodNotBindable: as `bind` does.
        """
        name = record.pod.name
        if record.deletion is not None:
            raise PodNotBindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if record.pod.spec.node_name is not None:
            raise PodNotBindable(name, f'pod {name} is already assigned to node "{record.pod.spec.node_name}"')
        if record.pod.spec.placement.gates:
            raise PodNotBindable(name, f"pod {name} has non-empty .spec.schedulingGates")

    def evict(self, record: PodRecord, disruption: Disruption) -> None:
        """Have a pod deleted within its own grace period, because something else than a client wants it."""
        self._begin_deletion(self._pods.put(replace(record, disruption=record.disruption or disruption)), None)

    async def update(self, record: PodRecord, wanted: Pod, *, managed: tuple[Json, ...] | None = None) -> PodRecord:
        """Give an existing pod what may change of ``wanted``; nothing happens if it has it.

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
        else:
            self._binder.changed(record)
        await self._pods.flush()
        return record

    def rehearse_update(self, record: PodRecord, wanted: Pod, *, managed: tuple[Json, ...] | None = None) -> PodRecord:
        """The record that `update` would make; nothing changes.

        Raises:
            ImmutablePod: as `update` does.
        """
        managed = record.managed if managed is None else managed
        pod = updated(record.pod, wanted, keeps_spec=is_static(record.pod))
        return replace(record, pod=pod, managed=managed)

    async def set_conditions(
        self, record: PodRecord, conditions: tuple[ClientCondition, ...], *, managed: tuple[Json, ...] | None = None
    ) -> PodRecord:
        """Keep the conditions that clients have set for a pod.

        Args:
            managed: who owns which of its fields from now on; None leaves that.

        Raises:
            StoreUnusable: the change could not be kept.
        """
        managed = record.managed if managed is None else managed
        record = self._pods.put(replace(record.with_conditions(conditions, now=self._clock.now()), managed=managed))
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
        await self.write_node(replace(self._node.settings, cordoned_since=None))

    def try_waiting(self) -> None:
        """Try the pods that wait again, as something changed by which they are placed."""
        self._binder.try_all()

    async def write_node(self, settings: NodeInput) -> None:
        """Take what a client wrote to the node; pods that wait are tried again, and some may have to go.

        Raises:
            StoreUnusable: it could not be kept.
        """
        self._node.write(settings)
        self._binder.try_all()
        self.taint_evictions.look()
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
    priority_classes: PriorityClasses = lambda: BUILT_IN_CLASSES,
    namespace_labels: NamespaceLabels = own_label,
) -> AsyncIterator[PodEngine]:
    """Pods run while the block runs. At its end their processes go on, to be adopted at the next start.

    Args:
        handlers: asked for admission after the node's own.
        priority_classes: the classes that pods may name, by their names.
        namespace_labels: the labels of a namespace.
    """
    binder = Binder(node, pods, events, devices, clock, namespace_labels=namespace_labels)
    admission = admission_chain(devices, binder.misfit, advertised=binder.advertised, others=handlers)

    def worker(uid: PodUid) -> PodWorker:
        account = PodAccount(uid, pods, events, clock)
        return PodWorker(account, host, devices, admission=admission, on_device_failure=on_device_failure)

    workers = PodWorkers(worker, binder, host.tasks)
    await restore(pods, host, devices, binder, workers, clock=clock)
    engine = PodEngine(
        node,
        pods,
        binder,
        workers,
        admission=admission,
        events=events,
        priority_classes=priority_classes,
        clock=clock,
    )
    workers.keep_running(_carry_out(binder, workers, engine, pods))
    workers.keep_running(engine.taint_evictions.run())
    workers.keep_running(binder.watch_devices())
    workers.keep_running(_follow_health(devices, workers))
    workers.keep_running(_follow_releases(devices, pods, events))
    try:
        yield engine
    finally:
        await workers.stop()


async def _carry_out(binder: Binder, workers: PodWorkers, engine: PodEngine, pods: PodTable) -> None:
    async for decision in binder.decisions():
        if not isinstance(decision, Preemption):
            workers.start(decision)
        elif decision.victim in pods:
            engine.evict(pods[decision.victim], decision.disruption)


async def _follow_health(devices: DeviceSource, workers: PodWorkers) -> None:
    async for pods in devices.health_notices():
        workers.look_at_devices(pods)


async def _follow_releases(devices: DeviceSource, pods: PodTable, events: EventLog) -> None:
    async for notice in devices.release_notices():
        if notice.pod in pods:
            about = pod_ref(pods[notice.pod].pod, notice.container or None)
            events.warning(about, RELEASE_FAILED[notice.kind], notice.message)
