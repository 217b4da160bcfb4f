"""Gives pods their place on the one node, as the scheduler would."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.model.ids import PodUid
from plugbay.model.placement import DEFAULT_SCHEDULER, PreemptionPolicy
from plugbay.model.pods import Pod
from plugbay.ops.clock import Clock
from plugbay.pods.devices import DeviceSource
from plugbay.pods.events import SCHEDULER, pod_ref
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.node import Node
from plugbay.pods.record import Disruption, PodRecord, Rejection, is_static
from plugbay.pods.scheduling.constraints import NamespaceLabels, Site, own_label
from plugbay.pods.scheduling.fitting import NOT_HELPFUL, Misfit, Outlook, misfit, unavailable, unschedulable
from plugbay.pods.scheduling.ledger import Amounts, demand
from plugbay.pods.scheduling.occupancy import Occupancy
from plugbay.pods.scheduling.predicates import node_fits, raised, resources_fit
from plugbay.pods.scheduling.victims import NOT_ELIGIBLE, priority, victims
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""The pause between two tries to write to a disk that is full or broken."""
PREEMPTED: Final = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class Preemption:
    """A pod that has to make room for a more important one."""

    victim: PodUid
    disruption: Disruption


class Binder:
    """Binds pending pods, the most important and then the oldest first; one that does not fit holds up no other.

    A new pod is tried alone; all are tried again when something changed that they may have waited for.

    Args:
        namespace_labels: the labels of a namespace.
    """

    def __init__(
        self,
        node: Node,
        pods: PodTable,
        events: EventLog,
        devices: DeviceSource,
        clock: Clock,
        *,
        namespace_labels: NamespaceLabels = own_label,
    ) -> None:
        self._node = node
        self._pods = pods
        self._events = events
        self._devices = devices
        self._clock = clock
        self._namespace_labels = namespace_labels
        self._occupancy = Occupancy()
        self._undecided: dict[PodUid, None] = {}
        """Pods that have a place and may still be rejected, in the order in which they came."""
        self._pending: dict[PodUid, None] = {}
        self._to_try: dict[PodUid, None] = {}
        self._nominated: dict[PodUid, Pod] = {}
        """Pods that others make room for."""
        self._preemptions: list[Preemption] = []
        self._wake = asyncio.Event()

    def enqueue(self, record: PodRecord) -> None:
        """Take in a pod that wants a place; one that is gated, or that another scheduler binds, has to wait."""
        placement = record.pod.spec.placement
        if not placement.gates and placement.scheduler in ("", DEFAULT_SCHEDULER):
            self._pending[record.uid] = None
            self._to_try[record.uid] = None
            self._wake.set()

    def occupy(self, record: PodRecord) -> None:
        """Count a pod that has its place already: it was bound before, or by its manifest."""
        self._take_place(record)
        if record.stage is not PodStage.BOUND:
            self._undecided.pop(record.uid, None)

    def withdraw(self, pod: PodUid) -> None:
        """Forget a pod that wants no place any more."""
        self._pending.pop(pod, None)
        self._to_try.pop(pod, None)
        self._nominated.pop(pod, None)

    def changed(self, record: PodRecord) -> None:
        """Look at a pod again whose labels, tolerations or gates have changed."""
        if record.uid in self._occupancy:
            self._occupancy.add(record.pod)
            self.try_all()
        elif record.stage is PodStage.UNSCHEDULED:
            self.enqueue(record)

    def vacate(self, pod: PodUid) -> None:
        """Free what a pod held that has ended or was deleted."""
        self._occupancy.remove(pod)
        self._undecided.pop(pod, None)
        self.try_all()

    def misfit(self, record: PodRecord) -> Rejection | None:
        """The reason why a bound pod does not fit after all: it came past the scheduler, or devices went meanwhile.

        Pods that came later and are not admitted yet do not count: a kubelet looks at one after the other.
        """
        later = self._later_than(record.uid)
        devices = self._devices
        allocatable = self._allocatable()
        if devices.holds_devices(record.uid):
            allocatable = raised(allocatable, devices.in_use())
        used = self._occupancy.used(without=(record.uid, *later))
        found = resources_fit(demand(record.pod), used=used, allocatable=allocatable) or node_fits(
            record.pod,
            self._site(),
            has_ports=self._occupancy.ports_are_free(record.pod, without=later),
            is_static=is_static(record.pod),
        )
        if found is None:
            self._undecided.pop(record.uid, None)
        return found

    def advertised(self) -> Collection[str]:
        """The resources that clients say the node has, and no plugin."""
        extended = self._node.settings.extended
        return extended.keys() - self._devices.resources().keys() if extended else ()

    def _later_than(self, pod: PodUid) -> list[PodUid]:
        if pod not in self._undecided:
            return []
        return list(takewhile(lambda each: each != pod, reversed(self._undecided)))

    def _take_place(self, record: PodRecord) -> None:
        self._occupancy.add(record.pod)
        self._undecided.setdefault(record.uid)
        for uid in self._pending:
            if self._pods[uid].pod.spec.placement.near:  # it may be the company that they wait for
                self._to_try[uid] = None
                self._wake.set()

    async def decisions(self) -> AsyncIterator[PodUid | Preemption]:
        """Bind pods as long as the node runs; yield each that was bound, durably, and each that has to make room."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            bound = self._bind_fitting()
            if bound:
                await self._keep_bindings()
            for pod in bound:
                if pod in self._pods:
                    yield pod
            while self._preemptions:
                yield self._preemptions.pop(0)

    async def _keep_bindings(self) -> None:
        """Return when the bindings are durable, before any device is allocated: a killed node must know its pod."""
        while True:
            try:
                await self._pods.flush()
            except StoreUnusable as error:
                problem = "cannot keep the bindings of pods, so none of them is started; trying again in %d s: %s"
                logger.warning(problem, RETRY_S, error)
                await self._clock.sleep(RETRY_S)
            else:
                return

    async def watch_devices(self) -> None:
        """Try pending pods again whenever devices change; runs as long as the node."""
        async for _ in self._devices.changes():
            self.try_all()

    def try_all(self) -> None:
        """Try all pending pods again, as something changed that they may have waited for."""
        if self._pending:
            self._to_try = dict(self._pending)
            self._wake.set()

    def _bind_fitting(self) -> list[PodUid]:
        candidates, self._to_try = self._to_try, {}
        view = Outlook(self._site(), self._occupancy, self._allocatable())
        records = sorted((self._pods[pod] for pod in candidates), key=lambda record: -priority(record.pod))
        return [record.uid for record in records if self._bind(record, view)]

    def _bind(self, record: PodRecord, view: Outlook) -> bool:
        if (found := self._misfit(record.pod, view)) is not None:
            self._make_room(record, found, view)
            return False
        self.withdraw(record.uid)
        placed = replace(record.pod, spec=replace(record.pod.spec, node_name=self._node.name))
        record = replace(
            record.after(PodStep.BIND), pod=placed, bound_at=self._clock.now(), unschedulable="", nominated_node=""
        )
        self._take_place(record)
        self._pods.put(record)
        message = f"Successfully assigned {record.pod.namespace}/{record.pod.name} to {self._node.name}"
        self._events.normal(pod_ref(record.pod), "Scheduled", message, component=SCHEDULER)
        return True

    def _misfit(self, pod: Pod, view: Outlook) -> Misfit | None:
        if not self._nominated:
            return misfit(pod, view)
        with self._guests(pod):
            found = misfit(pod, view)
        return found or misfit(pod, view)  # they may be the company that it wants, and never come

    @contextmanager
    def _guests(self, pod: Pod) -> Iterator[None]:
        """Count the pods that others make room for, unless ``pod`` is more important, while the block runs."""
        nominated = self._nominated.values()
        guests = [each for each in nominated if each.uid != pod.uid and priority(each) >= priority(pod)]
        for guest in guests:
            self._occupancy.add(guest)
        try:
            yield
        finally:
            for guest in guests:
                self._occupancy.remove(guest.uid)

    def _make_room(self, record: PodRecord, found: Misfit, view: Outlook) -> None:
        """Have less important pods make room, if that helps, and say why the pod has no place."""
        if record.nominated_node and found.may_help and self._is_being_made_room(record):
            return
        gone = self._victims(record, found, view)
        if isinstance(gone, str):
            self._nominated.pop(record.uid, None)
            self._report(replace(record, nominated_node=""), unschedulable(found, gone))
            return
        for victim in gone:
            why = f"{record.pod.spec.placement.scheduler or SCHEDULER}: preempting to accommodate a higher priority pod"
            self._preemptions.append(Preemption(victim.uid, Disruption(PREEMPTED, why, self._clock.now())))
            told = f"Preempted by pod {record.uid} on node {self._node.name}"
            self._events.normal(pod_ref(victim.pod), "Preempted", told, component=SCHEDULER)
        self._nominated[record.uid] = record.pod
        self._report(replace(record, nominated_node=self._node.name), unavailable(*found.reasons))

    def _victims(self, record: PodRecord, found: Misfit, view: Outlook) -> list[PodRecord] | str:
        """The pods that have to go; else the reason why none does."""
        if record.pod.spec.placement.preemption is PreemptionPolicy.NEVER:
            return NOT_ELIGIBLE
        if not found.may_help:
            return unavailable(NOT_HELPFUL)
        there = [self._pods[pod.uid] for pod in self._occupancy.pods() if pod.uid in self._pods]
        gone = victims(record.pod, view, [each for each in there if not is_static(each.pod)], now=self._clock.now())
        return unavailable(*gone.reasons) if isinstance(gone, Misfit) else gone

    def _is_being_made_room(self, record: PodRecord) -> bool:
        asked = {each.victim for each in self._preemptions}
        return any(
            pod.uid in asked or ((why := self._pods[pod.uid].disruption) is not None and why.reason == PREEMPTED)
            for pod in self._occupancy.pods()
            if pod.uid in self._pods and priority(pod) < priority(record.pod)
        )

    def _report(self, record: PodRecord, message: str) -> None:
        """Say why a pod is not bound, if that is news: a scheduler too says it again only after a change."""
        is_news = message != record.unschedulable
        self._pods.put(replace(record, unschedulable=message))
        if is_news:
            self._events.warning(pod_ref(record.pod), "FailedScheduling", message, component=SCHEDULER)

    def _site(self) -> Site:
        settings = self._node.settings
        return Site(
            self._node.name,
            self._node.labels,
            settings.taints,
            is_cordoned=settings.cordoned_since is not None,
            namespace_labels=self._namespace_labels,
        )

    def _allocatable(self) -> Amounts:
        devices = {str(name): count.allocatable for name, count in self._devices.resources().items()}
        return {**self._node.settings.extended, **devices, **self._node.machine.capacity}
