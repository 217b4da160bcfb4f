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
LOOPBACK = TcpAddress("127.0.0.1", 0)


class Page:
    """The page whose address is logged."""

    def __init__(self, log: str) -> None:
        found = re.search(r"page for browsers is at (http://127\.0\.0\.1:\d+/)", log)
        assert found is not None
        self._url = found[1]

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(
            await asyncio.to_thread(lambda: urllib.request.urlopen(f"{self._url}state.json").read())
        )
        return state

    async def until(self, key: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Return when the row of ``key`` is as it should be; a row that is not there is empty."""
        async with asyncio.timeout(20):
            while True:
                if holds(dict((await self.state())["put"]).get(key, {})):
                    return
                await asyncio.sleep(0.05)


async def test_a_node_shows_its_devices_with_pods_by_name_and_reasons(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running_node(root, ui=LOOPBACK) as node, gophers(node, "g1") as plugin:
        page = Page(caplog.text)
        device, resource = f"d {RESOURCE} g1", f"r {RESOURCE}"
        await node.create(pod("gopher-pod", gophers=1))
        shown = await node.pod_in("gopher-pod", "Running")
        holder = {
            "since": 0,
            "namespace": "default",
            "pod": "gopher-pod",
            "container": "c",
            "uid": shown["metadata"]["uid"],
            "requestedBy": "",
            "sources": ["checkpoint", "node", "podresources"],
        }
        await page.until(device, lambda row: [each | {"since": 0} for each in row["holders"]] == [holder])
        await page.until(resource, lambda row: (row["capacity"], row["allocatable"], row["free"]) == (1, 1, 0))
        plugin.send([Device(DeviceId("g1"), health=unhealthy("Tired", "it sleeps"))])
        await page.until(device, lambda row: row["health"]["state"] == "Unhealthy")
        await node.gone("gopher-pod")
        await page.until(device, lambda row: row["holders"] == [])
        node_row = dict((await page.state())["put"])["node"]
        assert (node_row["name"], node_row["problems"]) == ("n1", [])


async def test_a_pod_that_is_refused_is_shown_at_once_until_it_is_deleted(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither its refusal nor its end leaves a trace in the directories of the node."""
    caplog.set_level("INFO")
    async with running_node(root, ui=LOOPBACK) as node, gophers(node, "g1"):
        page = Page(caplog.text)
        await page.until(f"d {RESOURCE} g1", bool)
        await node.create(pod("too-many", gophers=9, nodeName="n1"))
        refused = await node.pod_in("too-many", "Failed")
        key = f"p {refused['metadata']['uid']}"
        await page.until(key, lambda row: row.get("reason") == "UnexpectedAdmissionError")
        (event,) = (each for each in (await page.state())["events"] if each["kind"] == "rejected")
        assert event["pod"] == "default/too-many"
        assert event["text"].startswith("default/too-many was refused, UnexpectedAdmissionError: Allocate failed")
        await node.gone("too-many")
        await page.until(key, lambda row: not row)
