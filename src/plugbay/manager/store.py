"""The store of record: assignments, calls to be made and resource names in SQLite, written by one thread.

WAL with full sync: a commit that was answered survives power loss. Commits waiting at the same time share one
transaction, so admissions running side by side pay for one sync. The file belongs to one process at a time. It lies
outside the device-plugins directory, whose entries change how a kubelet starts.

Compatibility: see `open_database`; the migrations are only ever appended to.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.errors import StoreUnusable
from plugbay.manager.operations import Operation, OperationKind
from plugbay.manager.state import Assignment
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.databases import open_database
from plugbay.ops.log_room import LogRoom

MIGRATIONS: Final = (
    """
CREATE TABLE assignment (
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    resource TEXT NOT NULL,
    devices TEXT NOT NULL,      -- JSON: NUMA node to device IDs
    response BLOB NOT NULL,     -- encoded ContainerAllocateResponse
    PRIMARY KEY (pod, container, resource)
) WITHOUT ROWID;
CREATE TABLE resource (name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
""",
    """
CREATE TABLE operation (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they were queued
    id TEXT UNIQUE NOT NULL,
    kind TEXT NOT NULL,
    resource TEXT NOT NULL,
    devices TEXT NOT NULL,      -- JSON: device IDs
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    instance TEXT NOT NULL,
    reason TEXT NOT NULL,
    due TEXT NOT NULL,          -- ISO 8601
    attempts INTEGER NOT NULL
);
CREATE TABLE ended (
    pod TEXT NOT NULL,
    container TEXT NOT NULL,
    instance TEXT NOT NULL,     -- the last one whose PostStopContainer was queued
    PRIMARY KEY (pod, container)
) WITHOUT ROWID;
""",
)

_VIEW_CHECKSUMS: Final = "view checksums"


@dataclass(frozen=True, slots=True)
class SaveAssignments:
    """Record what one admission allocated."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Forget every assignment of a pod, and which of its instances have ended; calls to be made stay."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class SaveOperation:
    """Record a call to be made, or that it has become another one, or was tried in vain."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class DeleteOperations:
    """Forget calls: they are confirmed, or not to be made."""

    ids: tuple[OperationId, ...]


@dataclass(frozen=True, slots=True)
class SaveEnd:
    """Remember that an instance's PostStopContainer is taken care of; of a container only the last one counts."""

    pod: PodUid
    container: ContainerName
    instance: str


@dataclass(frozen=True, slots=True)
class SaveResource:
    """Remember that a plugin registered this resource, so that it is known after a restart."""

    name: ResourceName


@dataclass(frozen=True, slots=True)
class DeleteResource:
    name: ResourceName


@dataclass(frozen=True, slots=True)
class SaveViewChecksums:
    """Remember the checksums of the checkpoint files that may be lying there and are ours."""

    checksums: frozenset[int]


@dataclass(frozen=True, slots=True)
class Replace:
    """Forget assignments and resources, and hold these instead; calls to be made stay."""

    stored: Stored


Change = (
    SaveAssignments
    | DeletePod
    | SaveOperation
    | DeleteOperations
    | SaveEnd
    | SaveResource
    | DeleteResource
    | SaveViewChecksums
    | Replace
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds at start.

    Attributes:
        view_checksums: checksums of the checkpoint files that are ours; any other one is somebody else's.
        operations: calls to be made, in the order in which they were queued.
        ends: the last instance of each container whose PostStopContainer was taken care of.
    """

    assignments: tuple[Assignment, ...]
    resources: tuple[ResourceName, ...]
    view_checksums: frozenset[int] = frozenset()
    operations: tuple[Operation, ...] = ()
    ends: Mapping[tuple[PodUid, ContainerName], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Commit:
    changes: Sequence[Change]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def finish(self, error: Exception | None) -> None:
        self.loop.call_soon_threadsafe(self._resolve, error)

    def _resolve(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Store:
    """An open store. Made by `open_store`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_database(path, MIGRATIONS)
        self._room = LogRoom(path)
        self._waiting: queue.SimpleQueue[_Commit | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_until_closed, name="plugbay-store", daemon=True)
        self._thread.start()

    def load(self) -> Stored:
        """Everything the store holds. Blocks; called once, before the first commit.

        Raises:
            StoreUnusable: a row is damaged.
        """
        try:
            rows = self._connection.execute("SELECT pod, container, resource, devices, response FROM assignment")
            names = self._connection.execute("SELECT name FROM resource ORDER BY name")
            operations = self._connection.execute(
                "SELECT id, kind, resource, devices, pod, container, instance, reason, due, attempts "
                "FROM operation ORDER BY number"
            )
            ends = self._connection.execute("SELECT pod, container, instance FROM ended")
            sums = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_VIEW_CHECKSUMS,)).fetchone()
            return Stored(
                tuple(_assignment(*row) for row in rows),
                tuple(ResourceName(name) for (name,) in names),
                frozenset(json.loads(sums[0])) if sums else frozenset(),
                tuple(_operation(*row) for row in operations),
                {(PodUid(pod), ContainerName(container)): instance for pod, container, instance in ends},
            )
        except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
            raise StoreUnusable(str(self._path), f"damaged: {error}") from error

    async def commit(self, changes: Sequence[Change]) -> None:
        """Make ``changes`` durable, all or none. Once called it takes effect even if the caller is cancelled.

        Raises:
            StoreUnusable: the disk is full or broken; nothing was changed.
        """
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.put(_Commit(changes, done, loop))
        await done

    def close(self) -> None:
        """Finish what was handed in, then close. Blocks."""
        self._waiting.put(None)
        self._thread.join()
        self._connection.close()

    def _write_until_closed(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            closing = False
            while not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    closing = True
                    break
                batch.append(following)
            self._write_batch(batch)
            if closing:
                return
            if self._waiting.empty():
                self._room.extend()

    def _write_batch(self, batch: Sequence[_Commit]) -> None:
        try:
            self._write([change for commit in batch for change in commit.changes])
        except Exception as error:  # whatever it is, who waits must learn it and the thread must go on
            if len(batch) > 1:  # one bad commit must not fail its neighbours
                for commit in batch:
                    self._write_batch([commit])
                return
            batch[0].finish(StoreUnusable(str(self._path), str(error)))
        else:
            for commit in batch:
                commit.finish(None)

    def _write(self, changes: Iterable[Change]) -> None:
        with self._connection:  # commits, or rolls back on an exception
            self._connection.execute("BEGIN IMMEDIATE")
            for change in changes:
                _apply(self._connection, change)


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """Open the store at ``path``, making it and its directory if missing.

    Raises:
        StoreUnusable: not ours, from a newer version, damaged, in use by another process, or closed to us.
    """
    store = await asyncio.to_thread(Store, path)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    match change:
        case SaveAssignments(assignments):
            connection.executemany(
                "INSERT OR REPLACE INTO assignment VALUES (?, ?, ?, ?, ?)", [_row(item) for item in assignments]
            )
        case DeletePod(pod):
            connection.execute("DELETE FROM assignment WHERE pod = ?", (pod,))
            connection.execute("DELETE FROM ended WHERE pod = ?", (pod,))
        case SaveOperation(operation):
            connection.execute(
                "INSERT INTO operation (id, kind, resource, devices, pod, container, instance, reason, due, attempts) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET devices = excluded.devices, attempts = excluded.attempts",
                _operation_row(operation),
            )
        case DeleteOperations(ids):
            connection.executemany("DELETE FROM operation WHERE id = ?", [(each,) for each in ids])
        case SaveEnd(pod, container, instance):
            connection.execute("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", (pod, container, instance))
        case SaveResource(name):
            connection.execute("INSERT OR IGNORE INTO resource VALUES (?)", (name,))
        case DeleteResource(name):
            connection.execute("DELETE FROM resource WHERE name = ?", (name,))
        case SaveViewChecksums(checksums):
            value = json.dumps(sorted(checksums))
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_VIEW_CHECKSUMS, value))
        case Replace(stored):
            connection.execute("DELETE FROM assignment")
            connection.execute("DELETE FROM resource")
            _apply(connection, SaveAssignments(stored.assignments))
            for name in stored.resources:
                _apply(connection, SaveResource(name))
            _apply(connection, SaveViewChecksums(stored.view_checksums))


def _row(item: Assignment) -> tuple[str, str, str, str, bytes]:
    devices = json.dumps({str(node): ids for node, ids in item.by_node.items()}, ensure_ascii=False)
    return item.pod, item.container, item.resource, devices, item.response


def _assignment(pod: str, container: str, resource: str, devices: str, response: bytes) -> Assignment:
    by_node = {int(node): tuple(map(DeviceId, ids)) for node, ids in json.loads(devices).items()}
    return Assignment(PodUid(pod), ContainerName(container), ResourceName(resource), by_node, response)


def _operation_row(item: Operation) -> tuple[str | int, ...]:
    return (
        item.id,
        item.kind.value,
        item.resource,
        json.dumps(item.devices, ensure_ascii=False),
        item.pod,
        item.container,
        item.instance,
        item.reason.value,
        item.due.isoformat(),
        item.attempts,
    )


def _operation(
    id: str,
    kind: str,
    resource: str,
    devices: str,
    pod: str,
    container: str,
    instance: str,
    reason: str,
    due: str,
    attempts: int,
) -> Operation:
    return Operation(
        id=OperationId(id),
        kind=OperationKind(kind),
        resource=ResourceName(resource),
        devices=tuple(map(DeviceId, json.loads(devices))),
        pod=PodUid(pod),
        due=datetime.fromisoformat(due),
        container=ContainerName(container),
        instance=instance,
        reason=ReleaseReason(reason),
        attempts=attempts,
    )
