"""The SQL tables of the store of record.

Compatibility: see `plugbay.ops.databases.open_database`; the migrations are only ever appended to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import (
    Change,
    DeleteOperations,
    DeletePod,
    DeleteResource,
    Replace,
    SaveAssignments,
    SaveEnd,
    SaveName,
    SaveOperation,
    SavePreStarts,
    SaveResource,
    SaveViewChecksums,
    Stored,
)
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind, ReleaseReason

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
_PRE_STARTS: Final = "pre-starts"
_NAME: Final = "name"


def read(connection: sqlite3.Connection) -> Stored:
    """Read everything.

    Raises:
        sqlite3.Error, ValueError, TypeError, AttributeError: a row is damaged.
    """
    rows = connection.execute("SELECT pod, container, resource, devices, response FROM assignment")
    names = connection.execute("SELECT name FROM resource ORDER BY name")
    operations = connection.execute(
        "SELECT id, kind, resource, devices, pod, container, instance, reason, due, attempts "
        "FROM operation ORDER BY number"
    )
    ends = connection.execute("SELECT pod, container, instance FROM ended")
    return Stored(
        tuple(_assignment(*row) for row in rows),
        tuple(ResourceName(name) for (name,) in names),
        frozenset(_listed(connection, _VIEW_CHECKSUMS)),
        tuple(_operation(*row) for row in operations),
        {(PodUid(pod), ContainerName(container)): instance for pod, container, instance in ends},
        frozenset(map(ResourceName, _listed(connection, _PRE_STARTS))),
        "".join(_listed(connection, _NAME)),
    )


def _listed(connection: sqlite3.Connection, key: str) -> list[Any]:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return list(json.loads(found[0])) if found else []


def write(connection: sqlite3.Connection, change: Change) -> None:
    """Make ``change``, inside a transaction of the caller's."""
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
            _put_list(connection, _VIEW_CHECKSUMS, sorted(checksums))
        case SaveName(name):
            _put_list(connection, _NAME, [name])
        case SavePreStarts(resources):
            _put_list(connection, _PRE_STARTS, sorted(resources))
        case Replace(stored):
            connection.execute("DELETE FROM assignment")
            connection.execute("DELETE FROM resource")
            connection.execute("DELETE FROM meta WHERE key IN (?, ?)", (_NAME, _PRE_STARTS))
            write(connection, SaveAssignments(stored.assignments))
            for name in stored.resources:
                write(connection, SaveResource(name))
            write(connection, SaveViewChecksums(stored.view_checksums))


def _put_list(connection: sqlite3.Connection, key: str, values: Sequence[object]) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(values)))


def _row(item: HeldDevices) -> tuple[str, str, str, str, bytes]:
    devices = json.dumps({str(node): ids for node, ids in item.by_node.items()}, ensure_ascii=False)
    return item.pod, item.container, item.resource, devices, item.response


def _assignment(pod: str, container: str, resource: str, devices: str, response: bytes) -> HeldDevices:
    by_node = {int(node): tuple(map(DeviceId, ids)) for node, ids in json.loads(devices).items()}
    return HeldDevices(PodUid(pod), ContainerName(container), ResourceName(resource), by_node, response)


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
