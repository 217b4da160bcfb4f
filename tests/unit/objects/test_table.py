"""The table of objects numbers its changes, tells of them, and waits for the disk."""

from __future__ import annotations

import asyncio

import pytest

from plugbay.documents import Json
from plugbay.objects.table import ObjectKey, ObjectTable, StoredObject
from plugbay.objects.watch import Change

KEY = ObjectKey("", "configmaps", "default", "a")


class Disk:
    """A store that writes when it is told to."""

    def __init__(self) -> None:
        self.saved: dict[ObjectKey, Json | None] = {}
        self.written = asyncio.Event()

    def save_object(self, key: ObjectKey, value: Json | None) -> None:
        self.saved[key] = value

    async def flush(self) -> None:
        await self.written.wait()


class Told:
    def __init__(self) -> None:
        self.changes: list[tuple[Change, str, Json]] = []

    def put(self, change: Change, key: ObjectKey, value: Json) -> None:
        self.changes.append((change, key.name, value))


def config(text: str = "") -> Json:
    return {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": text}}


def version(value: Json | None) -> int:
    assert value is not None
    metadata = value["metadata"]
    assert isinstance(metadata, dict)
    return int(metadata["resourceVersion"])


async def test_a_change_is_seen_at_once_and_returns_when_it_is_on_disk() -> None:
    disk, told = Disk(), Told()
    table = ObjectTable(disk, first_version=100)
    table.attach(told)
    async with asyncio.TaskGroup() as tasks:
        making = tasks.create_task(table.create(KEY, config()))
        await asyncio.sleep(0)
        assert (version(table.get(KEY)), making.done()) == (101, False)
        disk.written.set()
    assert making.result() == table.get(KEY) == disk.saved[KEY]
    await table.replace(KEY, config("x"))
    assert version(await table.replace(KEY, config("x"))) == 102, "an equal state is no change"
    last = await table.remove(KEY)
    assert (version(last), table.get(KEY), disk.saved[KEY], table.version) == (103, None, None, 103)
    assert [(change, name, version(value)) for change, name, value in told.changes] == [
        (Change.ADDED, "a", 101),
        (Change.MODIFIED, "a", 102),
        (Change.DELETED, "a", 103),
    ]


async def test_versions_go_on_above_what_is_stored() -> None:
    stored: Json = {"metadata": {"name": "a", "resourceVersion": "500"}}
    table = ObjectTable(Disk(), stored=[StoredObject(KEY, stored)], first_version=100)
    assert table.get(KEY) == stored
    assert table.next_version() == 501


async def test_two_objects_do_not_have_one_place() -> None:
    disk = Disk()
    disk.written.set()
    table = ObjectTable(disk)
    await table.create(KEY, config())
    with pytest.raises(ValueError, match="is there already"):
        await table.create(KEY, config())
    other = KEY._replace(namespace="a")
    await table.create(other, config())
    assert list(table.keys()) == [KEY, other]
    assert table.of("", "configmaps") == [table.get(other), table.get(KEY)], "in the order of namespaces"
    assert table.of("", "secrets") == []
