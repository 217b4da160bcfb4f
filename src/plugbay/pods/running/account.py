"""One pod as the workers for it see it."""

from __future__ import annotations

from plugbay.model.ids import ContainerName, PodUid
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.pods.events import EventType, ObjectRef, pod_ref
from plugbay.pods.record import ContainerRecord, PodRecord
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable


class PodAccount:
    """The record of one pod, and the events about it.

    Attributes:
        changes: moves with each change of the record that is made here.
    """

    def __init__(self, uid: PodUid, pods: PodTable, events: EventLog, clock: Clock) -> None:
        self.uid = uid
        self.clock = clock
        self.changes = Changes()
        self._pods = pods
        self._events = events

    @property
    def is_open(self) -> bool:
        """Whether the pod is still there."""
        return self.uid in self._pods

    @property
    def record(self) -> PodRecord:
        return self._pods[self.uid]

    def put(self, record: PodRecord) -> PodRecord:
        """See `PodTable.put`."""
        record = self._pods.put(record)
        self.changes.notify()
        return record

    def put_container(self, name: ContainerName, container: ContainerRecord) -> None:
        self.put(self.record.with_container(name, container))

    def close(self, record: PodRecord) -> None:
        """Forget the pod, once it has no finalizer; watchers see ``record`` as its last state."""
        if record.pod.finalizers:
            self._pods.put(record)
        else:
            self._pods.remove(record)

    def normal(self, reason: str, message: str, *, container: ContainerName | None = None) -> None:
        self.tell(EventType.NORMAL, reason, message, container=container)

    def warning(self, reason: str, message: str, *, container: ContainerName | None = None) -> None:
        self.tell(EventType.WARNING, reason, message, container=container)

    def tell(self, kind: EventType, reason: str, message: str, *, container: ContainerName | None = None) -> None:
        """Record an event about the pod, or about one container of it."""
        self._events.record(self._ref(container), kind, reason, message)

    def _ref(self, container: ContainerName | None) -> ObjectRef:
        return pod_ref(self.record.pod, container)
