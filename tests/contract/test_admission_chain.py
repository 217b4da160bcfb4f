"""Whole pods against the node's predicates, behind a manager that gives out devices."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from tests.contract.bench_manager import Gate
from tests.contract.scenarios.bench_node import DEADLINE_S, node, plugin, pod


async def test_pod_that_got_a_device_is_not_refused_for_those_that_failed_in_use(sockets: Path) -> None:
    """Allocatable is 1 then, and two pods have a device each: what is in use counts as being there (spec 4.11)."""
    async with node(sockets / "n", "first", "p") as n, plugin(n, "a", "b") as gophers:
        await n.create(pod("first"))
        await n.in_phase("first", "Running")
        gophers.send([Device("a", health=unhealthy("hot")), Device("b")])
        await n.until("first", lambda seen: "Unhealthy" in str(seen["status"]))
        assert await n.counts() == ("2", "1")
        await n.create(pod("p", nodeName="n1"))
        await n.in_phase("p", "Running")
        assert await n.devices() == {"a": "first", "b": "p"}


async def test_a_pod_does_not_give_way_to_one_that_came_later(sockets: Path) -> None:
    """Both have come past the scheduler; while the first waits for its plugin, the second takes its place beside it."""
    async with node(sockets / "n", "first", "second") as n, plugin(n, "g1") as gopher:
        gopher.allocate_answer = call = Gate(gopher.allocate_answer)
        await n.create(pod("first", nodeName="n1"))
        async with asyncio.timeout(DEADLINE_S):
            await call.entered.wait()
        await n.create(pod("second", nodeName="n1"))
        call.open.set()
        await n.in_phase("first", "Running")
        rejected = await n.in_phase("second", "Failed")
        assert rejected["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 1, Available: 0" in rejected["status"]["message"]
