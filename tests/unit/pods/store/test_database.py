from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plugbay.errors import StoreUnusable
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.nodes import NodeInput
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.pods.events import Event, EventType, ObjectRef
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import Deletion, Failure, PodRecord, Rejection, Running, Terminated, new_record
from plugbay.pods.store import database as podstore
from plugbay.pods.store.database import open_pod_store
from plugbay.runtimes.port import ContainerId

T0 = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
EVENT = Event("p.1", ObjectRef("Pod", "default", "p", "u1"), EventType.WARNING, "BackOff", "no", "kubelet", 3, T0, T0)


def record(uid: str, *, age_s: int = 0) -> PodRecord:
    names = (ContainerName("a"), ContainerName("b"))
    containers = tuple(Container(name, image="i", command=("true",)) for name in names)
    pod = Pod(f"pod-{uid}", PodSpec(containers=containers), uid=PodUid(uid), labels={"app": "x"})
    return new_record(pod, created_at=T0 - timedelta(seconds=age_s))


def busy_record() -> PodRecord:
    base = record("busy")
    end = Terminated(ContainerId("b_0"), 1, "Error", T0, T0, "why", "i@1")
    containers = {
        ContainerName("a"): base.containers[ContainerName("a")].running(
            Running(ContainerId("a_2"), T0, image_id="i@1"), attempt=2
        ),
        ContainerName("b"): base.containers[ContainerName("b")].terminated(end, attempt=0).waiting("CrashLoopBackOff"),
    }
    return replace(
        base,
        containers=containers,
        stage=PodStage.TERMINATING,
        bound_at=T0,
        started_at=T0,
        deletion=Deletion.at(T0, grace_s=5),
        rejection=Rejection("R", "m"),
        failure=Failure("F", "m"),
        sandbox_since=T0,
    )


async def load(path: Path) -> tuple[tuple[PodRecord, ...], tuple[Event, ...]]:
    async with open_pod_store(path) as store:
        contents = await asyncio.to_thread(store.load)
    return contents.pods, contents.events


async def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "pods.db"
    busy, idle = busy_record(), record("idle", age_s=60)
    async with open_pod_store(path) as store:
        store.save_pod(busy)
        store.save_pod(idle)
        store.save_event(EVENT)
    assert await load(path) == ((idle, busy), (EVENT,))
    running = busy.containers[ContainerName("a")]
    assert isinstance(running.state, Running)


async def test_of_what_changes_the_newest_form_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(record("a"))
        await store.flush()
        store.save_pod(replace(record("a"), stage=PodStage.BOUND))
        store.save_pod(replace(record("a"), stage=PodStage.ACTIVE))
        store.save_pod(record("b"))
        store.delete_pod(PodUid("b"))
        store.save_event(EVENT)
        store.delete_event(EVENT.name)
    pods, events = await load(path)
    assert [(pod.uid, pod.stage) for pod in pods] == [("a", PodStage.ACTIVE)]
    assert events == ()


async def test_a_flush_is_durable_before_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(record("a"))
        await store.flush()
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal"):  # what a killed process would leave
            copy.with_name(copy.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
        pods, _ = await load(copy)
    assert [pod.uid for pod in pods] == ["a"]


async def test_a_failed_block_still_writes(tmp_path: Path) -> None:
    async def fail() -> None:
        async with open_pod_store(tmp_path / "pods.db") as store:
            store.save_pod(record("a"))
            raise ValueError

    with pytest.raises(ExceptionGroup):
        await fail()
    pods, _ = await load(tmp_path / "pods.db")
    assert [pod.uid for pod in pods] == ["a"]


async def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    async with open_pod_store(tmp_path / "pods.db"):
        with pytest.raises(StoreUnusable, match="in use by another process"):
            async with open_pod_store(tmp_path / "pods.db"):
                pytest.fail("opened twice")


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="written by a newer plugbay"):
        await load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["UPDATE pod SET manifest = 'x'", "UPDATE pod SET progress = '{}'"])
async def test_damaged_rows_are_reported(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(record("a"))
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(ExceptionGroup) as caught:
        await load(path)
    assert caught.group_contains(StoreUnusable, match="damaged")


async def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pods.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnusable, match="not a database"):
        await load(tmp_path / "pods.db")


async def test_the_newest_settings_of_the_node_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    for settings in (NodeInput(cordoned_since=T0), NodeInput({"disk": "ssd"}), NodeInput()):
        async with open_pod_store(path) as store:
            store.save_node(NodeInput({"disk": "none"}))
            store.save_node(settings)
        async with open_pod_store(path) as store:
            assert (await asyncio.to_thread(store.load)).node == settings


async def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(record("u"))
    with contextlib.closing(sqlite3.connect(path)) as older:
        older.executescript("DROP TABLE node; DROP TABLE object; PRAGMA user_version = 1;")
    async with open_pod_store(path) as store:
        contents = await asyncio.to_thread(store.load)
        assert (len(contents.pods), contents.node) == (1, None)


async def test_what_a_full_disk_refused_is_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing changes any more: a node killed later must find how its pods ended."""
    monkeypatch.setattr(podstore, "RETRY_S", 0.05)
    written = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "is written again" in record.getMessage():
                written.set()

    logger = logging.getLogger("plugbay.pods.store.database")
    listener = Listener()
    logger.addHandler(listener)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        async with open_pod_store(tmp_path / "pods.db") as store:
            database = store._database._connection
            full = "CREATE TEMP TRIGGER full BEFORE INSERT ON pod BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
            await asyncio.to_thread(database.execute, full)
            store.save_pod(record("a"))
            with pytest.raises(StoreUnusable, match="disk is full"):
                await store.flush()
            await asyncio.to_thread(database.execute, "DROP TRIGGER full")
            await asyncio.wait_for(written.wait(), 10)
            rows = await asyncio.to_thread(lambda: database.execute("SELECT uid FROM pod").fetchall())
            assert rows == [("a",)]
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)


async def test_a_pod_with_a_field_that_is_refused_now_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "pods.db"
    async with open_pod_store(path) as store:
        store.save_pod(record("a"))
    with contextlib.closing(sqlite3.connect(path)) as older, older:
        older.execute("""UPDATE pod SET manifest = json_set(manifest, '$.spec.schedulerName', 'volcano')""")
    ((pod,), _) = await load(path)
    assert pod.uid == "a"
