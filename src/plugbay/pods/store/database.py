"""The node's own store: pods, events and other objects in SQLite, so that a killed node finds them again.

WAL with full sync, like the manager's store, and like it outside the device-plugins directory. What is saved while a
write is under way is written together in the next one; of each object only the newest form.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.documents import Json
from plugbay.errors import InvalidManifest, StoreUnusable
from plugbay.model.ids import PodUid
from plugbay.model.nodes import NodeInput
from plugbay.objects.table import ObjectKey, StoredObject
from plugbay.ops.group_commit import Database, run_database
from plugbay.pods.events import Event
from plugbay.pods.record import PodRecord
from plugbay.pods.store.format import decode_event, decode_node, decode_pod, encode_event, encode_node, encode_pod
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""The pause between two tries to write to a disk that is full or broken, also when nothing changes meanwhile."""
_MIGRATIONS: Final = (
    """
CREATE TABLE pod (uid TEXT PRIMARY KEY NOT NULL, manifest TEXT NOT NULL, created_at TEXT NOT NULL,
                  progress TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (name TEXT PRIMARY KEY NOT NULL, event TEXT NOT NULL) WITHOUT ROWID;
""",
    # one row while the node takes no new pods
    """
CREATE TABLE cordon (since TEXT NOT NULL);
""",
    # v1 JSON as clients see it; of the core group, grp is empty, and so is namespace of a kind without namespaces
    """
CREATE TABLE object (grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
                     value TEXT NOT NULL, PRIMARY KEY (grp, plural, namespace, name)) WITHOUT ROWID;
""",
    # one row from the first start on: what clients wrote to the node
    """
CREATE TABLE node (settings TEXT NOT NULL);
INSERT INTO node SELECT '{"cordoned_since":"' || min(since) || '"}' FROM cordon HAVING count(*) > 0;
DROP TABLE cordon;
""",
)


@dataclass(frozen=True, slots=True)
class StoredContents:
    """The content of the store at start; pods oldest first. ``node`` is None before its first start."""

    pods: tuple[PodRecord, ...]
    events: tuple[Event, ...]
    node: NodeInput | None = None
    objects: tuple[StoredObject, ...] = ()


@dataclass(slots=True)
class _Batch:
    """Newest forms by key; None is a deletion."""

    pods: dict[PodUid, PodRecord | None] = field(default_factory=dict)
    events: dict[str, Event | None] = field(default_factory=dict)
    objects: dict[ObjectKey, Json | None] = field(default_factory=dict)
    node: NodeInput | None = None
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def holds_changes(self) -> bool:
        return bool(self.pods or self.events or self.objects or self.node is not None)

    def older(self, batch: _Batch) -> None:
        """Take back what could not be written, unless there is something newer."""
        self.pods = {**batch.pods, **self.pods}
        self.events = {**batch.events, **self.events}
        self.objects = {**batch.objects, **self.objects}
        if self.node is None:
            self.node = batch.node


class PodStore:
    """An open store. Made by `open_pod_store`. Saving never waits; `flush` does."""

    def __init__(self, database: Database[_Batch]) -> None:
        self._database = database
        self._unwritten = _Batch()
        self._wake = asyncio.Event()
        self._closing = False
        self._has_failed = False

    def load(self) -> StoredContents:
        """Everything the store holds. Blocks; called once, before anything is saved.

        Raises:
            StoreUnusable: a row is damaged.
        """
        try:
            return self._database.load(_read)
        except InvalidManifest as error:
            raise StoreUnusable(str(self._database.path), f"damaged: {error}") from error

    def save_pod(self, record: PodRecord) -> None:
        self._unwritten.pods[record.uid] = record
        self._wake.set()

    def delete_pod(self, uid: PodUid) -> None:
        self._unwritten.pods[uid] = None
        self._wake.set()

    def save_event(self, event: Event) -> None:
        self._unwritten.events[event.name] = event
        self._wake.set()

    def delete_event(self, name: str) -> None:
        self._unwritten.events[name] = None
        self._wake.set()

    def save_object(self, key: ObjectKey, value: Json | None) -> None:
        """Save an object as it is; None when it is gone."""
        self._unwritten.objects[key] = value
        self._wake.set()

    def save_node(self, settings: NodeInput) -> None:
        self._unwritten.node = settings
        self._wake.set()

    async def flush(self) -> None:
        """Return when all that was saved so far is durable.

        Raises:
            StoreUnusable: it could not be written; it is tried again with the next change, and every ten seconds.
        """
        done = asyncio.get_running_loop().create_future()
        self._unwritten.waiting.append(done)
        self._wake.set()
        await done

    async def write_until_closed(self) -> None:
        while not self._closing or self._wake.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._has_failed else None):
                    await self._wake.wait()
            self._wake.clear()
            await self._write_batch()

    def stop_writing(self) -> None:
        """Let `write_until_closed` return once everything is written."""
        self._closing = True
        self._wake.set()

    async def _write_batch(self) -> None:
        batch, self._unwritten = self._unwritten, _Batch()
        try:
            if batch.holds_changes:
                await self._database.commit([batch])
        except StoreUnusable as error:
            self._unwritten.older(batch)
            if not self._has_failed:
                problem = "cannot write %s, so a node killed now forgets its changes; trying again: %s"
                logger.warning(problem, self._database.path, error.problem)
            self._has_failed = True
            for waiting in batch.waiting:
                if not waiting.done():
                    waiting.set_exception(error)
        else:
            if self._has_failed:
                logger.info("%s is written again", self._database.path)
            self._has_failed = False
            for waiting in batch.waiting:
                if not waiting.done():
                    waiting.set_result(None)


@asynccontextmanager
async def open_pod_store(path: Path) -> AsyncIterator[PodStore]:
    """Open the store at ``path``, making it if missing; everything saved is written before the block ends.

    Raises:
        StoreUnusable: not ours, from a newer version, damaged, in use by another process, or closed to us.
    """
    async with run_database(path, _MIGRATIONS, _write) as database, asyncio.TaskGroup() as tasks:
        store = PodStore(database)
        writer = tasks.create_task(store.write_until_closed(), name="write pods and events")
        try:
            yield store
        finally:
            store.stop_writing()
            await asyncio.wait({writer})  # also when the block failed, where the group would cancel it


def _read(connection: sqlite3.Connection) -> StoredContents:
    pods = [decode_pod(*row) for row in connection.execute("SELECT manifest, created_at, progress FROM pod")]
    events = [decode_event(text) for (text,) in connection.execute("SELECT event FROM event")]
    nodes = [decode_node(text) for (text,) in connection.execute("SELECT settings FROM node")]
    objects = [
        StoredObject(ObjectKey(*place), json.loads(value))
        for *place, value in connection.execute("SELECT * FROM object")
    ]
    oldest_first = sorted(pods, key=lambda record: record.created_at)
    return StoredContents(tuple(oldest_first), tuple(events), nodes[0] if nodes else None, tuple(objects))


def _write(connection: sqlite3.Connection, batch: _Batch) -> None:
    for uid, record in batch.pods.items():
        if record is None:
            connection.execute("DELETE FROM pod WHERE uid = ?", (uid,))
        else:
            connection.execute("INSERT OR REPLACE INTO pod VALUES (?, ?, ?, ?)", (uid, *encode_pod(record)))
    for name, event in batch.events.items():
        if event is None:
            connection.execute("DELETE FROM event WHERE name = ?", (name,))
        else:
            connection.execute("INSERT OR REPLACE INTO event VALUES (?, ?)", (name, encode_event(event)))
    for key, value in batch.objects.items():
        if value is None:
            delete = "DELETE FROM object WHERE grp = ? AND plural = ? AND namespace = ? AND name = ?"
            connection.execute(delete, key)
        else:
            connection.execute("INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?)", (*key, json.dumps(value)))
    if batch.node is not None:
        connection.execute("DELETE FROM node")
        connection.execute("INSERT INTO node VALUES (?)", (encode_node(batch.node),))
