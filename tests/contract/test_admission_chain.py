"""Whole pods against the node's predicates, behind a manager that gives out devices."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from tests.contract.scenarios.bench_node import node, plugin, pod


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
