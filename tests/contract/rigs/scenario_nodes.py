"""A whole node in this process, its pods and a plugin: real sockets, real child processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from plugbay.cli.kubectl.client import NodeClient
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.clock import Clock, SystemClock
from plugbay.pods.admission import NOBODY, Joining
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin

RESOURCE = "example.com/gopher"
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 30

Json = dict[str, Any]


class Node:
    """A running node, looked at through its control socket."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.config = NodeConfig(root, name="n1", **settings)
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

    async def event(self, about: str, reason: str) -> Json:
        """The first such event of a pod."""

        def look() -> Json:
            with self._client.watch("/api/v1/events") as events:
                objects: Iterator[Any] = (each.object for each in events)
                return next(each for each in objects if _is_about(each, about) and each["reason"] == reason)

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(look)

    async def log(self, name: str) -> str:
        """What a pod's container has written by its end."""

        def read() -> bytes:
            with self._client.read(f"{PODS}/{name}/log", {"follow": "true"}) as chunks:
                return b"".join(chunks)

        async with asyncio.timeout(DEADLINE_S):
            return (await asyncio.to_thread(read)).decode()

    async def names(self) -> set[str]:
        listed: Any = await asyncio.to_thread(self._client.get, PODS, {})
        return {pod["metadata"]["name"] for pod in listed["items"]}

    async def delete(self, name: str) -> None:
        """Kill a pod, and wait until it is gone."""
        await asyncio.to_thread(_delete, self._client, name)

    async def in_phase(self, name: str, phase: str) -> Json:
        return await self.until(name, lambda pod: pod["status"]["phase"] == phase)

    async def restarted(self, name: str, times: int) -> Json:
        return await self.until(name, lambda pod: _running(pod) and container_status(pod)["restartCount"] == times)

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

    async def until_listed(self, serving: FakePlugin, devices: Sequence[Device]) -> None:
        """Wait until the node has a plugin's list, of which nothing tells: one that only has registered has none."""
        ids = {device.id for device in devices}

        def look() -> None:
            deadline = time.monotonic() + DEADLINE_S
            while not self._has_list(serving, ids):
                assert time.monotonic() < deadline, f"{serving.resource} was not listed"
                time.sleep(0.02)

        await asyncio.to_thread(look)

    def _has_list(self, serving: FakePlugin, ids: set[DeviceId]) -> bool:
        listed: Any = self._client.get("/plugbay/v1/devices", {})
        return any(
            each["endpoint"]["state"] == "Live"
            and each["endpoint"]["socket"] == serving.socket.name
            and each["capacity"] == len(ids)
            and {device["id"] for device in each["devices"]} == ids
            for each in listed["resources"]
            if each["resourceName"] == serving.resource
        )

    async def kill_container(self, name: str) -> None:
        """SIGKILL the pod's one process, as a crash would."""
        pod = await self.in_phase(name, "Running")
        instance = container_status(pod)["containerID"].removeprefix("process://")
        [record] = self.config.containers.glob(f"*{instance.split('_', 1)[1]}*/process.json")
        os.kill(json.loads(record.read_text())["process"]["pid"], signal.SIGKILL)


def container_status(pod: Json) -> Json:
    """Of a pod's first container."""
    found: Json = pod["status"]["containerStatuses"][0]
    return found


def _is_about(event: Json, name: str) -> bool:
    return bool(event["involvedObject"]["name"] == name)


def _running(pod: Json) -> bool:
    return bool(pod["status"].get("containerStatuses")) and "running" in container_status(pod)["state"]


@asynccontextmanager
async def node(
    root: Path, *pods: str, clock: Clock | None = None, joining: Joining = NOBODY, **settings: Any
) -> AsyncIterator[Node]:
    """A node until the block ends; ``pods`` are deleted then, others are left running for the next node.

    Args:
        settings: fields of `NodeConfig`.
    """
    running = Node(root, **settings)
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            run_node(
                running.config,
                environ=os.environ,
                clock=clock or SystemClock(),
                stop=stop,
                ready=ready.set,
                joining=joining,
            )
        )
        await ready.wait()
        try:
            yield running
        finally:
            for name in await running.names() & set(pods):
                await running.delete(name)
            stop.set()


def _delete(client: NodeClient, name: str) -> None:
    with client.watch(PODS) as events:
        client.delete(f"{PODS}/{name}", {"gracePeriodSeconds": "0"})
        objects: Iterator[Any] = (event.object for event in events if event.type == "DELETED")
        next(pod for pod in objects if pod["metadata"]["name"] == name)


@asynccontextmanager
async def plugin(
    at: Node,
    *devices: str | Device,
    socket: str = "gopher",
    resource: str = RESOURCE,
    options: PluginOptions | None = None,
) -> AsyncIterator[FakePlugin]:
    path = at.config.kubelet_paths.device_plugins / f"{socket}.sock"
    listed = [each if isinstance(each, Device) else Device(DeviceId(each)) for each in devices]
    async with fake_plugin(resource, path, listed, options=options) as serving:
        await serving.register(at.config.kubelet_paths.registration_socket)
        await at.until_listed(serving, listed)
        yield serving


def pod(
    name: str,
    *,
    restart: str = "Always",
    init: bool = False,
    script: str = "sleep 1000",
    limits: Mapping[str, str] = MappingProxyType({RESOURCE: "1"}),
    **spec: Any,
) -> Json:
    """A pod of one container ``c``; ``spec`` holds further fields of its spec."""

    def container(called: str, command: str) -> Json:
        return {
            "name": called,
            "image": "busybox",
            "command": ["sh", "-c", command],
            "resources": {"limits": dict(limits)},
        }

    spec |= {"containers": [container("c", script)], "restartPolicy": restart, "terminationGracePeriodSeconds": 1}
    if init:
        spec["initContainers"] = [container("init", "true")]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
