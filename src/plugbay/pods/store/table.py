"""The table of all pods of the node: it is looked up, changed, watched and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from plugbay.errors import PodExists, PodNotFound
from plugbay.model.ids import ContainerName, PodUid
from plugbay.objects.watch import Broadcast, Change, Listener, Subscription
from plugbay.pods.record import ContainerRecord, PodRecord
from plugbay.pods.store.database import PodStore


class PodTable:
    """The records of all pods, in the order of their creation. Every change is handed to the store and to watchers.

    Args:
        first_version: the versions of pods are above it.

    Attributes:
        version: the version of the newest change.
    """

    def __init__(self, store: PodStore, *, stored: Iterable[PodRecord] = (), first_version: int = 0) -> None:
        self._store = store
        self._records: dict[PodUid, PodRecord] = {}
        self._uids: dict[tuple[str, str], PodUid] = {}
        self._broadcast = Broadcast[PodUid, PodRecord]()
        self.version = first_version
        for record in stored:
            self._enter(record)

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(self._records.values())

    def __getitem__(self, uid: PodUid) -> PodRecord:
        return self._records[uid]

    def __contains__(self, uid: object) -> bool:
        return uid in self._records

    def named(self, namespace: str, name: str) -> PodRecord:
        """The pod of this name.

        Raises:
            PodNotFound: there is none.
        """
        try:
            return self._records[self._uids[namespace, name]]
        except KeyError:
            raise PodNotFound(name) from None

    def has(self, namespace: str, name: str) -> bool:
        """Whether there is a pod of this name."""
        return (namespace, name) in self._uids

    def has_uid(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the pod of this name is the one with this UID."""
        return self._uids.get((namespace, name)) == uid

    def add(self, record: PodRecord) -> PodRecord:
        """Take in a new pod.

        Raises:
            PodExists: its namespace has a pod of this name.
        """
        if self.has(record.pod.namespace, record.pod.name):
            raise PodExists(record.pod.name)
        return self._publish(Change.ADDED, record)

    def put(self, record: PodRecord) -> PodRecord:
        """Replace the record of a known pod; an equal record changes nothing."""
        if record == self._records[record.uid]:
            return self._records[record.uid]
        return self._publish(Change.MODIFIED, record)

    def put_container(self, uid: PodUid, name: ContainerName, container: ContainerRecord) -> None:
        self.put(self._records[uid].with_container(name, container))

    def remove(self, record: PodRecord) -> None:
        """Forget a pod; watchers see ``record`` as its last state."""
        del self._records[record.uid]
        del self._uids[record.pod.namespace, record.pod.name]
        self._store.delete_pod(record.uid)
        self._broadcast.send(Change.DELETED, record.uid, self._numbered(record))

    async def flush(self) -> None:
        """Return when all changes so far are durable."""
        await self._store.flush()

    def watch(self) -> Subscription[PodUid, PodRecord]:
        """Changes from now on, after the pods that are there."""
        return self._broadcast.subscribe((record.uid, record) for record in self)

    def attach(self, listener: Listener[PodUid, PodRecord]) -> None:
        """Tell ``listener`` of every change from now on, as long as it is held elsewhere."""
        self._broadcast.attach(listener)

    def _publish(self, change: Change, record: PodRecord) -> PodRecord:
        record = self._enter(record)
        self._store.save_pod(record)
        self._broadcast.send(change, record.uid, record)
        return record

    def _enter(self, record: PodRecord) -> PodRecord:
        record = self._numbered(record)
        self._records[record.uid] = record
        self._uids[record.pod.namespace, record.pod.name] = record.uid
        return record

    def _numbered(self, record: PodRecord) -> PodRecord:
        self.version += 1
        return replace(record, version=self.version)
