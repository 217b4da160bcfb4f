"""The work that a node does not do: modules that it does not read before they are needed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.manifest import pod_from_v1
from plugbay.model.ids import PodUid
from plugbay.model.owners import OwnerReference
from plugbay.node.controllers.jobs.seen import TRACKING
from plugbay.node.controllers.running import until_wanted
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.pods.record import PodRecord
from plugbay.pods.store.database import open_pod_store
from plugbay.pods.store.table import PodTable

STARTS: Final = """
from plugbay.ops.late_modules import fill_late
fill_late()
import asyncio, os, sys
from pathlib import Path
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.clock import SystemClock

async def main():
    stop = asyncio.Event()
    def ready():
        print(*sys.modules)
        stop.set()
    config = NodeConfig(Path(sys.argv[1]), name="n1")
    await run_node(config, environ=os.environ, clock=SystemClock(), stop=stop, ready=ready)

asyncio.run(main())
"""
LATE: Final = (
    "_ssl",
    "cryptography",
    "importlib.metadata",
    "jsonpatch",
    "re2",
    "wsproto",
    "yaml",
    "plugbay.documents.texts",
    "plugbay.node.api.discovery.gnostic",
    "plugbay.node.api.discovery.openapi",
    "plugbay.node.api.discovery.swagger",
    "plugbay.node.api.streams.forwarding",
    "plugbay.node.controllers.daemon_sets",
    "plugbay.node.controllers.deployments",
    "plugbay.node.controllers.jobs",
    "plugbay.node.controllers.loop",
    "plugbay.node.controllers.replica_sets",
    "plugbay.objects.messages.protobuf",
    "plugbay.runtimes.cri",
    "plugbay.runtimes.oci",
    "plugbay.wire.spdy",
)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
OWNER: Final = OwnerReference("apps/v1", "ReplicaSet", "web", "1", is_controller=True)
KEY: Final = ObjectKey("apps", "deployments", "default", "web")
DEPLOYMENT: Final[dict[str, Any]] = {"metadata": {"name": "web", "namespace": "default"}}
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}


def test_a_node_starts_without_what_only_some_nodes_need(sockets: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STARTS, sockets], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "plugbay.node.control" in loaded
    assert [name for name in loaded if name.startswith(LATE)] == []


@asynccontextmanager
async def tables(directory: Path) -> AsyncIterator[tuple[ObjectTable, PodTable]]:
    async with open_pod_store(directory / "pods.db") as store:
        stored = await asyncio.to_thread(store.load)
        yield ObjectTable(store, stored=stored.objects), PodTable(store, stored=stored.pods)


def pod(*, owned: bool = False, finalizers: tuple[str, ...] = ()) -> PodRecord:
    new = replace(pod_from_v1(POD), uid=PodUid("7"), owners=(OWNER,) if owned else (), finalizers=finalizers)
    return PodRecord(new, NOW, {})


async def is_wanted(objects: ObjectTable, pods: PodTable) -> bool:
    """Whether the controllers are wanted at once."""
    waiting = asyncio.create_task(until_wanted(objects, pods))
    await asyncio.sleep(0)
    ended = waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    return ended


@pytest.mark.parametrize("record", [pod(owned=True), pod(finalizers=(TRACKING,))], ids=["owned", "not counted yet"])
async def test_controllers_begin_when_a_pod_of_theirs_is_there_or_comes(tmp_path: Path, record: PodRecord) -> None:
    async with tables(tmp_path) as (objects, pods):
        pods.add(replace(pod(), pod=replace(pod().pod, name="plain", uid=PodUid("8"))))
        assert not await is_wanted(objects, pods)
        waiting = asyncio.create_task(until_wanted(objects, pods))
        await asyncio.sleep(0)
        pods.add(record)
        async with asyncio.timeout(10):
            await waiting
        await pods.flush()
    async with tables(tmp_path) as (objects, pods):
        assert await is_wanted(objects, pods)


async def test_controllers_begin_when_an_object_of_theirs_is_there_or_comes(tmp_path: Path) -> None:
    async with tables(tmp_path) as (objects, pods):
        await objects.create(ObjectKey("", "configmaps", "default", "web"), DEPLOYMENT)
        assert not await is_wanted(objects, pods)
        waiting = asyncio.create_task(until_wanted(objects, pods))
        await asyncio.sleep(0)
        await objects.create(KEY, DEPLOYMENT)
        async with asyncio.timeout(10):
            await waiting
    async with tables(tmp_path) as (objects, pods):
        assert await is_wanted(objects, pods)
