"""Has pods deleted that do not tolerate a taint of the node, at once or when their time is over.

Source: Kubernetes 1.36 ``pkg/controller/tainteviction/taint_eviction.go``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.taints import Effect, Taint, tolerated_for_s
from plugbay.objects.watch import Change
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first
from plugbay.pods.events import pod_ref
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.node import Node
from plugbay.pods.record import Disruption, PodRecord, is_static
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

COMPONENT: Final = "taint-eviction-controller"
EVENT: Final = "TaintManagerEviction"
_ON_THE_NODE: Final = frozenset({PodStage.BOUND, PodStage.ACTIVE, PodStage.ENDED})


class TaintEvictions:
    """The pods that the node's taints drive away, and when. Without such taints it does nothing.

    Args:
        evict: has a pod deleted, for a reason.
    """

    def __init__(
        self,
        node: Node,
        pods: PodTable,
        events: EventLog,
        evict: Callable[[PodRecord, Disruption], object],
        clock: Clock,
    ) -> None:
        self._node = node
        self._pods = pods
        self._events = events
        self._evict = evict
        self._clock = clock
        self._taints: tuple[Taint, ...] = ()
        self._since: dict[PodUid, float] = {}
        """Since when a pod has tolerated the taints for a time."""
        self._deadlines: dict[PodUid, float] = {}
        self._wake = asyncio.Event()
        pods.attach(self)

    def look(self) -> None:
        """Look at all pods again, as the node's taints may have changed."""
        taints = tuple(each for each in self._node.settings.taints if each.effect is Effect.NO_EXECUTE)
        if taints != self._taints:
            self._taints = taints
            for record in list(self._pods):
                self._judge(record)

    def put(self, change: Change, key: PodUid, item: PodRecord) -> None:
        """Take note of a change of a pod."""
        if self._taints or self._deadlines:
            if change is Change.DELETED:
                self._forget(key)
            else:
                self._judge(item)

    async def run(self) -> None:
        """Evict the pods whose time is over, until cancelled."""
        self.look()
        while True:
            now = self._clock.monotonic()
            for uid in [uid for uid, deadline in self._deadlines.items() if deadline <= now]:
                self._forget(uid)
                if uid in self._pods:
                    self._drive_away(self._pods[uid])
            if self._deadlines:
                await first(self._clock.sleep(min(self._deadlines.values()) - now), self._wake.wait())
            else:
                await self._wake.wait()
            self._wake.clear()

    def _judge(self, record: PodRecord) -> None:
        uid = record.uid
        if record.stage not in _ON_THE_NODE or is_static(record.pod):
            self._forget(uid)
            return
        limit_s = tolerated_for_s(self._taints, record.pod.spec.placement.tolerations)
        if limit_s is None:
            if self._forget(uid):
                self._tell(record, "Cancelling deletion of Pod")
            return
        since = self._since.setdefault(uid, self._clock.monotonic())
        if self._deadlines.get(uid) != since + limit_s:
            self._deadlines[uid] = since + limit_s
            self._wake.set()

    def _forget(self, uid: PodUid) -> bool:
        self._since.pop(uid, None)
        return self._deadlines.pop(uid, None) is not None

    def _drive_away(self, record: PodRecord) -> None:
        self._tell(record, "Marking for deletion Pod")
        message = "Taint manager: deleting due to NoExecute taint"
        self._evict(record, Disruption("DeletionByTaintManager", message, self._clock.now()))

    def _tell(self, record: PodRecord, what: str) -> None:
        message = f"{what} {record.pod.namespace}/{record.pod.name}"
        self._events.normal(pod_ref(record.pod), EVENT, message, component=COMPONENT)
