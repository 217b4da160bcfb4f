"""Spec 11.13: pods with devices over restarts of container, plugin and node. Whole nodes, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.cli.client import NodeClient
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.node.config import NodeConfig
from plugbay.node.runner import run_node
from plugbay.ops.clock import SystemClock
from plugbay.testing.fake_plugin import FakePlugin, fake_plugin

RESOURCE = "example.com/gopher"
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 30

Json = dict[str, Any]


class Node:
    """A running node, looked at through its control socket."""

    def __init__(self, root: Path) -> None:
        self.config = NodeConfig(root, name="n1")
        self._client = NodeClient(root)

    async def create(self, pod: Json) -> None:
        await asyncio.to_thread(self._client.create, PODS, pod)

    async def until(self, name: str, wanted: Any) -> Json:
        """The pod, as soon as ``wanted`` holds for it."""

        def look() -> Json:
            with self._client.watch(PODS) as events:
                pods: Iterator[Any] = (event.object for event in events)
                return next(pod for pod in pods if pod["metadata"]["name"] == name and wanted(pod))

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(look)

    async def in_phase(self, name: str, phase: str) -> Json:
        return await self.until(name, lambda pod: pod["status"]["phase"] == phase)

    async def restarted(self, name: str, times: int) -> Json:
        return await self.until(name, lambda pod: _running(pod) and _container(pod)["restartCount"] == times)

    async def devices(self) -> dict[str, str | None]:
        """Device ID to the pod that holds it."""
        listed: Any = await asyncio.to_thread(self._client.get, "/plugbay/v1/devices", {})
        return {
            device["id"]: device["holder"] and device["holder"]["pod"]
            for resource in listed["resources"]
            for device in resource["devices"]
        }

    async def counts(self) -> tuple[str | None, str | None]:
        listed: Any = await asyncio.to_thread(self._client.get, "/api/v1/nodes", {})
        status = listed["items"][0]["status"]
        return status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)

    async def kill_container(self, name: str) -> None:
        """SIGKILL the pod's one process, as a crash would."""
        pod = await self.in_phase(name, "Running")
        instance = _container(pod)["containerID"].removeprefix("process://")
        [record] = self.config.containers.glob(f"*{instance.split('_', 1)[1]}*/process.json")
        os.kill(json.loads(record.read_text())["process"]["pid"], signal.SIGKILL)


def _container(pod: Json) -> Json:
    found: Json = pod["status"]["containerStatuses"][0]
    return found


def _running(pod: Json) -> bool:
    return bool(pod["status"].get("containerStatuses")) and "running" in _container(pod)["state"]


@asynccontextmanager
async def node(root: Path, *pods: str) -> AsyncIterator[Node]:
    """A node until the block ends; ``pods`` are deleted then, others are left running for the next node."""
    running = Node(root)
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_node(running.config, environ=os.environ, clock=SystemClock(), stop=stop, ready=ready.set))
        await ready.wait()
        try:
            yield running
        finally:
            for name in pods:
                await asyncio.to_thread(_delete, running._client, name)
            stop.set()


def _delete(client: NodeClient, name: str) -> None:
    with client.watch(PODS) as events:
        client.delete(f"{PODS}/{name}", {"gracePeriodSeconds": "0"})
        objects: Iterator[Any] = (event.object for event in events if event.type == "DELETED")
        next(pod for pod in objects if pod["metadata"]["name"] == name)


@asynccontextmanager
async def plugin(at: Node, *ids: str, socket: str = "gopher") -> AsyncIterator[FakePlugin]:
    path = at.config.kubelet_paths.device_plugins / f"{socket}.sock"
    async with fake_plugin(RESOURCE, path, [Device(DeviceId(each)) for each in ids]) as serving:
        await serving.register(at.config.kubelet_paths.registration_socket)
        yield serving


def pod(name: str, *, restart: str = "Always", init: bool = False, script: str = "sleep 1000") -> Json:
    def container(called: str, command: str) -> Json:
        return {
            "name": called,
            "image": "busybox",
            "command": ["sh", "-c", command],
            "resources": {"limits": {RESOURCE: "1"}},
        }

    spec: Json = {"containers": [container("c", script)], "restartPolicy": restart, "terminationGracePeriodSeconds": 1}
    if init:
        spec["initContainers"] = [container("init", "true")]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets / "node"


async def test_s139_restarted_container_keeps_its_device(root: Path) -> None:
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.create(pod("p"))
        await n.kill_container("p")
        await n.restarted("p", 1)
        assert await n.devices() == {"a": "p", "b": None}
        assert gophers.allocated == [("a",)]


async def test_s140_node_restarts_and_the_plugin_returns(root: Path) -> None:
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        before = await n.in_phase("p", "Running")
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        after = await n.in_phase("p", "Running")
        assert _container(after)["containerID"] == _container(before)["containerID"]
        assert (await n.devices())["a"] == "p"
        assert gophers.allocated == []


async def test_s141_node_restarts_and_the_plugin_stays_away(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    async with node(root, "p") as n:
        await n.in_phase("p", "Running")
        assert await n.counts() == ("0", "0")
        assert await n.devices() == {"a": "p"}


async def test_s142_plugin_restarts_and_everybody_keeps_what_they_have(root: Path) -> None:
    async with node(root, "p", "q") as n:
        async with plugin(n, "a", "b"):
            await n.create(pod("p"))
            await n.in_phase("p", "Running")
        async with plugin(n, "a", "b", socket="again") as gophers:
            await n.kill_container("p")
            await n.restarted("p", 1)
            await n.create(pod("q"))
            await n.in_phase("q", "Running")
            assert await n.devices() == {"a": "p", "b": "q"}
            assert gophers.allocated == [("b",)]


async def test_s143_everything_restarts_and_the_device_stays(root: Path) -> None:
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.kill_container("p")
        await n.restarted("p", 1)
        assert await n.devices() == {"a": "p", "b": None}
        assert gophers.allocated == []


async def test_s144_pod_that_ended_meanwhile_leaves_its_device(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never"))
        await n.in_phase("p", "Running")
        crash = n
    await crash_while_down(crash)
    async with node(root, "p", "q") as n, plugin(n, "a") as gophers:
        await n.in_phase("p", "Failed")
        await n.create(pod("q"))
        await n.in_phase("q", "Running")
        assert await n.devices() == {"a": "q"}
        assert gophers.allocated == [("a",)]


async def crash_while_down(at: Node) -> None:
    [record] = at.config.containers.glob("*/process.json")
    pid = json.loads(record.read_text())["process"]["pid"]
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    try:
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_S):
            await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def test_s145_succeeded_pod_stays_succeeded(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never", script="true"))
        await n.in_phase("p", "Succeeded")
    async with node(root, "p") as n:
        await n.in_phase("p", "Succeeded")
        assert await n.counts() == ("0", "0")


async def test_s147_running_pod_with_a_completed_init_container_is_kept(root: Path) -> None:
    """Kubelet 1.36 rejects it (#124345); docs/differences.md."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", init=True))
        before = await n.in_phase("p", "Running")
    async with node(root, "p") as n:
        after = await n.in_phase("p", "Running")
        assert _container(after)["containerID"] == _container(before)["containerID"]
        assert await n.devices() == {"a": "p"}


async def test_s148_pod_whose_container_restarted_before_the_node_did_is_kept(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.kill_container("p")
        before = await n.restarted("p", 1)
    async with node(root, "p") as n:
        after = await n.restarted("p", 1)
        assert _container(after)["containerID"] == _container(before)["containerID"]


async def test_s149_node_that_starts_anew_counts_nothing_of_before(root: Path) -> None:
    """Ours keeps no node object: what no plugin and no store names is not there."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never", script="true"))
        await n.in_phase("p", "Succeeded")
    for store in (root / "state").glob("devices.db*"):
        store.unlink()
    (root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    async with node(root, "p") as n:
        assert await n.counts() == (None, None)


async def test_s150_lost_checkpoint_file_loses_nothing(root: Path) -> None:
    """A kubelet may give the device to another pod; our store is the record. docs/differences.md."""
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    (root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    async with node(root, "p", "q") as n, plugin(n, "a", "b"):
        await n.create(pod("q"))
        await n.in_phase("q", "Running")
        assert await n.devices() == {"a": "p", "b": "q"}


async def test_s146_reboot_rejects_the_pod_until_its_plugin_is_back(root: Path) -> None:
    """Nothing runs after a reboot; the plugin is not back yet."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    await crash_while_down(n)
    reboot(root)
    async with node(root, "p") as n:
        failed = await n.in_phase("p", "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        assert "no healthy devices present" in failed["status"]["message"]


def reboot(root: Path) -> None:
    """Make every record one of another boot."""
    changed = 0
    for record in root.glob("containers/*/*.json"):
        text = record.read_text()
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if boot_id in text:
            record.write_text(text.replace(boot_id, "00000000-0000-0000-0000-000000000000"))
            changed += 1
    assert changed
