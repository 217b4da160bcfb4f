"""The page of a real node: devices, holders and what happens to them."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.node_run import RESOURCE, gophers, pod, root, running_node

__all__ = ["root"]


async def test_a_node_shows_its_devices_with_pods_by_name_and_reasons(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running_node(root, ui=TcpAddress("127.0.0.1", 0)) as node, gophers(node, "g1") as plugin:
        found = re.search(r"page for browsers is at (http://127\.0\.0\.1:\d+/)", caplog.text)
        assert found is not None

        async def rows() -> dict[str, Any]:
            content = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{found[1]}state.json").read())
            found_rows: dict[str, Any] = dict(json.loads(content)["put"])
            return found_rows

        async def until(key: str, holds: Callable[[dict[str, Any]], bool]) -> None:
            async with asyncio.timeout(20):
                while True:
                    if holds((await rows()).get(key, {})):
                        return
                    await asyncio.sleep(0.05)

        device, resource = f"d {RESOURCE} g1", f"r {RESOURCE}"
        await node.create(pod("gopher-pod", gophers=1))
        shown = await node.pod_in("gopher-pod", "Running")
        holder = {
            "namespace": "default",
            "pod": "gopher-pod",
            "container": "c",
            "uid": shown["metadata"]["uid"],
            "requestedBy": "",
            "sources": ["checkpoint", "node", "podresources"],
        }
        await until(device, lambda row: [each | {"since": 0} for each in row["holders"]] == [holder | {"since": 0}])
        await until(resource, lambda row: (row["capacity"], row["allocatable"], row["free"]) == (1, 1, 0))
        plugin.send([Device(DeviceId("g1"), health=unhealthy("Tired", "it sleeps"))])
        await until(device, lambda row: row["health"]["state"] == "Unhealthy")
        await node.gone("gopher-pod")
        await until(device, lambda row: row["holders"] == [])
        assert (await rows())["node"]["problems"] == []
