"""Gives pods their place on the one node, as the scheduler would."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import takewhile
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.model.ids import PodUid
from plugbay.ops.clock import Clock
from plugbay.pods.devices import DeviceSource
from plugbay.pods.events import SCHEDULER, pod_ref
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.node import Node
from plugbay.pods.record import PodRecord, Rejection
from plugbay.pods.scheduling.ledger import (
    CORDONED,
    Amounts,
    Commitments,
    demand,
    unschedulable_for,
    unschedulable_message,
)
from plugbay.pods.scheduling.predicates import NO_FREE_PORTS, NO_PORTS_REJECTION, HostPorts, raised, resources_fit
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""The pause between two tries to write to a disk that is full or broken."""


class Binder:
    """Binds pending pods, oldest first; a pod that does not fit does not hold up the others.

    A new pod is tried alone; all are tried again when something became free or the plugins' devices changed.

    """

    def __init__(self, node: Node, pods: PodTable, events: EventLog, devices: DeviceSource, clock: Clock) -> None:
        self._node = node
        self._pods = pods
        self._events = events
        self._devices = devices
        self._clock = clock
        self._ledger = Commitments()
        self._ports = HostPorts()
        self._undecided: dict[PodUid, None] = {}
        """Pods that have a place and may still be rejected, in the order in which they came."""
        self._pending: dict[PodUid, None] = {}
        self._to_try: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def enqueue(self, pod: PodUid) -> None:
        """Take in a pod that wants a place."""
        self._pending[pod] = None
        self._to_try[pod] = None
        self._wake.set()

    def occupy(self, record: PodRecord) -> None:
        """Count a pod that has its place already: it was bound before, or by its manifest."""
        self._take_place(record, demand(record.pod))
        if record.stage is not PodStage.BOUND:
            self._undecided.pop(record.uid, None)

    def withdraw(self, pod: PodUid) -> None:
        """Forget a pod that wants no place any more."""
        self._pending.pop(pod, None)
        self._to_try.pop(pod, None)

    def vacate(self, pod: PodUid) -> None:
        """Free what a pod held that has ended or was deleted."""
        self._ledger.remove(pod)
        self._ports.remove(pod)
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
        used = self._ledger.used_beside((record.uid, *later))
        misfit = resources_fit(demand(record.pod), used=used, allocatable=allocatable)
        if misfit is None and not self._ports.are_free(record.pod, ignoring=later):
            misfit = NO_PORTS_REJECTION
        if misfit is None:
            self._undecided.pop(record.uid, None)
        return misfit

    def _later_than(self, pod: PodUid) -> list[PodUid]:
        if pod not in self._undecided:
            return []
        return list(takewhile(lambda each: each != pod, reversed(self._undecided)))

    def _take_place(self, record: PodRecord, needed: Counter[str]) -> None:
        self._ledger.add(record.uid, needed)
        self._ports.add(record.pod)
        self._undecided.setdefault(record.uid)

    async def bound_pods(self) -> AsyncIterator[PodUid]:
        """Bind pods as long as the node runs, and yield each one that was bound, durably."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            bound = self._bind_fitting()
            if bound:
                await self._keep_bindings()
            for pod in bound:
                if pod in self._pods:
                    yield pod

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
        allocatable = self._allocatable()
        return [pod for pod in candidates if self._bind(self._pods[pod], allocatable)]

    def _bind(self, record: PodRecord, allocatable: Amounts) -> bool:
        if self._node.cordoned_since is not None:
            self._report(record, CORDONED)
            return False
        if not self._ports.are_free(record.pod):
            self._report(record, unschedulable_for(NO_FREE_PORTS))
            return False
        needed = demand(record.pod)
        lacking = self._ledger.lacking(needed, allocatable)
        if lacking:
            self._report(record, unschedulable_message(lacking))
            return False
        del self._pending[record.uid]
        self._take_place(record, needed)
        placed = replace(record.pod, spec=replace(record.pod.spec, node_name=self._node.name))
        self._pods.put(replace(record.after(PodStep.BIND), pod=placed, bound_at=self._clock.now(), unschedulable=""))
        message = f"Successfully assigned {record.pod.namespace}/{record.pod.name} to {self._node.name}"
        self._events.normal(pod_ref(record.pod), "Scheduled", message, component=SCHEDULER)
        return True

    def _report(self, record: PodRecord, message: str) -> None:
        """Say why a pod is not bound, if that is news: a scheduler too says it again only after a change."""
        if message != record.unschedulable:
            self._pods.put(replace(record, unschedulable=message))
            self._events.warning(pod_ref(record.pod), "FailedScheduling", message, component=SCHEDULER)

    def _allocatable(self) -> Amounts:
        devices = {str(name): count.allocatable for name, count in self._devices.resources().items()}
        return {**devices, **self._node.machine.capacity}
