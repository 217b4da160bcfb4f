from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.errors import StoreUnusable
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import (
    DeleteOperations,
    DeletePod,
    Replace,
    SaveAssignments,
    SaveEnd,
    SaveName,
    SaveOperation,
    SavePreStarts,
    SaveResource,
    Stored,
)
from plugbay.manager.store.store import open_store
from plugbay.manager.store.tables import MIGRATIONS
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind, ReleaseReason
from plugbay.ops.databases import open_database

NAME = ResourceName("example.com/r")


def assignment(pod: str) -> HeldDevices:
    return HeldDevices(PodUid(pod), ContainerName("c"), NAME, {-1: (DeviceId("a"),)}, b"\x00\xff")


async def test_commit_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    """A lone surrogate cannot be stored; commits around it are."""
    async with open_store(tmp_path / "s.db") as store:
        with pytest.raises(StoreUnusable):
            await store.commit([SaveAssignments((assignment("\ud800"),))])
        await store.commit([SaveAssignments((assignment("p"),)), SaveResource(NAME)])
    async with open_store(tmp_path / "s.db") as store:
        assert store.load().assignments == (assignment("p"),)
        assert store.load().resources == (NAME,)


async def test_imported_state_leaves_nothing_of_the_plugins_before(tmp_path: Path) -> None:
    imported = Stored((assignment("q"),), (NAME,), frozenset({1}))
    async with open_store(tmp_path / "s.db") as store:
        await store.commit([SaveAssignments((assignment("p"),)), SavePreStarts(frozenset({NAME})), SaveName("n")])
        await store.commit([Replace(imported)])
    async with open_store(tmp_path / "s.db") as store:
        assert store.load() == imported


async def test_store_whose_opening_is_cancelled_is_free_again(tmp_path: Path) -> None:
    """Some times, as a thread that has not begun yet is cancelled as well."""
    for _ in range(5):
        opening = asyncio.create_task(open_store(tmp_path / "s.db").__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        async with open_store(tmp_path / "s.db") as store:
            store.load()


async def test_newer_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=r"written by a newer plugbay \(schema 99, known 2\)"):
        async with open_store(path):
            pass
    assert path.read_bytes() == before


async def test_damaged_row_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        await store.commit([SaveAssignments((assignment("p"),))])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE assignment SET devices = '[1]'")
    connection.close()
    async with open_store(path) as store:
        with pytest.raises(StoreUnusable, match=f"{path}: damaged"):
            store.load()


def test_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StoreUnusable, match=f"cannot make {tmp_path}/state: File exists"):
        open_database(tmp_path / "state" / "s.db", [])


def test_migrations_are_run_once_each(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = ["CREATE TABLE one (x);"]
    open_database(path, first).close()
    open_database(path, first).close()
    connection = open_database(path, [*first, "CREATE TABLE two (x);"])
    assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["one", "two"]
    connection.close()
    with pytest.raises(StoreUnusable, match="newer"):
        open_database(path, first)


def operation(id: str, *, attempts: int = 0, devices: tuple[str, ...] = ("a", "b")) -> Operation:
    return Operation(
        OperationId(id),
        OperationKind.POST_STOP,
        NAME,
        tuple(map(DeviceId, devices)),
        PodUid("p"),
        datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC),
        container=ContainerName("c"),
        instance="c-1",
        reason=ReleaseReason.ORPHANED,
        attempts=attempts,
    )


async def test_operations_come_back_in_their_order_and_as_they_were_last(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.db") as store:
        await store.commit(
            [SaveOperation(operation("z")), SaveOperation(operation("a")), SaveOperation(operation("m"))]
        )
        await store.commit(
            [SaveOperation(operation("z", attempts=3, devices=("a",))), DeleteOperations((OperationId("m"),))]
        )
        await store.commit(
            [SaveEnd(PodUid("p"), ContainerName("c"), "c-1"), SaveEnd(PodUid("p"), ContainerName("c"), "c-2")]
        )
        await store.commit([SaveEnd(PodUid("q"), ContainerName("c"), "d-1")])
        await store.commit([DeletePod(PodUid("q"))])
    async with open_store(tmp_path / "s.db") as store:
        stored = store.load()
    assert stored.operations == (operation("z", attempts=3, devices=("a",)), operation("a"))
    assert stored.ends == {("p", "c"): "c-2"}


async def test_file_of_the_first_version_is_taken_up(tmp_path: Path) -> None:
    """Made by the first migration alone, as a plugbay without these calls did."""
    path = tmp_path / "s.db"
    connection = open_database(path, MIGRATIONS[:1])
    connection.execute("INSERT INTO resource VALUES (?)", (NAME,))
    connection.close()
    async with open_store(path) as store:
        await store.commit([SaveOperation(operation("1"))])
        stored = store.load()
    assert stored.resources == (NAME,)
    assert stored.operations == (operation("1"),)
