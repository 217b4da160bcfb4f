"""Gives pods their place on the one node, as the scheduler would."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.model.ids import PodUid
from plugbay.node.events import SCHEDULER, pod_ref
from plugbay.node.host_ports import NO_FREE_PORTS, REJECTION, HostPorts
from plugbay.node.lifecycle import Stage, Step
from plugbay.node.machine import Machine
from plugbay.node.parts import NodeParts
from plugbay.node.predicates import raised, resources_fit
from plugbay.node.records import PodRecord, Rejection
from plugbay.node.scheduler import CORDONED, Amounts, Ledger, demand, unschedulable_for, unschedulable_message

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""Between two tries to write to a disk that is full or broken."""


class Binder:
    """Binds pending pods, oldest first; one that does not fit stands in nobody's way.

    A new pod is tried alone; all are tried again when something became free or the plugins' devices changed.

    Args:
        start: told of each pod that was bound.
    """

    def __init__(self, parts: NodeParts, machine: Machine, *, start: Callable[[PodUid], None]) -> None:
        self._parts = parts
        self._machine = machine
        self._start = start
        self._ledger = Ledger()
        self._ports = HostPorts()
        self._undecided: dict[PodUid, None] = {}
        """Pods that have a place and may still be rejected, in the order in which they came."""
        self._pending: dict[PodUid, None] = {}
        self._to_try: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def enqueue(self, pod: PodUid) -> None:
        """A pod wants a place."""
        self._pending[pod] = None
        self._to_try[pod] = None
        self._wake.set()

    def occupy(self, record: PodRecord) -> None:
        """A pod has its place already: bound before, or by its manifest."""
        self._take_place(record, demand(record.pod))
        if record.stage is not Stage.BOUND:
            self._undecided.pop(record.uid, None)

    def withdraw(self, pod: PodUid) -> None:
        """A pod wants no place any more."""
        self._pending.pop(pod, None)
        self._to_try.pop(pod, None)

    def vacate(self, pod: PodUid) -> None:
        """A pod has ended or was deleted: what it held is free."""
        self._ledger.remove(pod)
        self._ports.remove(pod)
        self._undecided.pop(pod, None)
        self.try_all()

    def misfit(self, record: PodRecord) -> Rejection | None:
        """Why a bound pod does not fit after all: it may have come past the scheduler, or devices went meanwhile.

        Pods that came later and are not let in yet do not count: a kubelet looks at one after the other.
        """
        later = self._later_than(record.uid)
        devices = self._parts.devices
        allocatable = self._allocatable()
        if devices.holds_devices(record.uid):
            allocatable = raised(allocatable, devices.in_use())
        used = self._ledger.used_beside((record.uid, *later))
        misfit = resources_fit(demand(record.pod), used=used, allocatable=allocatable)
        if misfit is None and not self._ports.are_free(record.pod, ignoring=later):
            misfit = REJECTION
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

    async def bind_pods(self) -> None:
        """Runs as long as the node."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            bound = self._bind_fitting()
            if bound:
                await self._keep_bindings()
            for pod in bound:
                if pod in self._parts.pods:
                    self._start(pod)

    async def _keep_bindings(self) -> None:
        """Before any device is allocated: a node that is killed then must know whose it is."""
        while True:
            try:
                await self._parts.pods.flush()
            except StoreUnusable as error:
                logger.warning("no pod is started until its binding is kept: %s", error)
                await self._parts.clock.sleep(RETRY_S)
            else:
                return

    async def watch_devices(self) -> None:
        """Runs as long as the node."""
        async for _ in self._parts.devices.changes():
            self.try_all()

    def try_all(self) -> None:
        """Something changed that pending pods may have waited for."""
        if self._pending:
            self._to_try = dict(self._pending)
            self._wake.set()

    def _bind_fitting(self) -> list[PodUid]:
        candidates, self._to_try = self._to_try, {}
        allocatable = self._allocatable()
        return [pod for pod in candidates if self._bind(self._parts.pods[pod], allocatable)]

    def _bind(self, record: PodRecord, allocatable: Amounts) -> bool:
        if self._parts.cordon.is_drawn:
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
        placed = replace(record.pod, spec=replace(record.pod.spec, node_name=self._parts.name))
        self._parts.pods.put(
            replace(record.after(Step.BIND), pod=placed, bound_at=self._parts.clock.now(), unschedulable="")
        )
        message = f"Successfully assigned {record.pod.namespace}/{record.pod.name} to {self._parts.name}"
        self._parts.events.normal(pod_ref(record.pod), "Scheduled", message, component=SCHEDULER)
        return True

    def _report(self, record: PodRecord, message: str) -> None:
        """Only when it is news: a scheduler too waits for something to change before it says it again."""
        if message != record.unschedulable:
            self._parts.pods.put(replace(record, unschedulable=message))
            self._parts.events.warning(pod_ref(record.pod), "FailedScheduling", message, component=SCHEDULER)

    def _allocatable(self) -> Amounts:
        devices = {str(name): count.allocatable for name, count in self._parts.devices.resources().items()}
        return {**devices, **self._machine.capacity}
