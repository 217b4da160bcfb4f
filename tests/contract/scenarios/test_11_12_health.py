"""Spec 11.12: the health of devices in the status of pods that hold them. Whole nodes, real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import PodUid
from plugbay.ops.changes import Inbox
from tests.contract.rigs.scenario_nodes import RESOURCE, Json, Node, container_status, node, plugin, pod

SICK = unhealthy("Hot")


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets / "node"


def showing(health: str, device: str = "a", resource: str = RESOURCE) -> Any:
    """Whether a pod's status tells exactly this of its one device."""
    told = [{"name": resource, "resources": [{"resourceID": device, "health": health}]}]

    def look(pod: Json) -> bool:
        statuses = pod["status"].get("containerStatuses")
        return bool(statuses) and statuses[0].get("allocatedResourcesStatus") == told

    return look


def is_waiting(pod: Json) -> bool:
    return bool(pod["status"].get("containerStatuses")) and "waiting" in container_status(pod)["state"]


async def test_s133_health_of_a_running_containers_device_is_shown_both_ways(root: Path) -> None:
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await n.until("p", showing("Healthy"))
        gophers.send([Device("a", health=SICK), Device("b")])
        shown = await n.until("p", showing("Unhealthy"))
        assert shown["status"]["phase"] == "Running"
        gophers.send([Device("a"), Device("b")])
        await n.until("p", showing("Healthy"))


async def test_s134_health_is_shown_of_a_container_that_does_not_start(root: Path) -> None:
    """There are no images here that could be missing; the container waits because its command is."""
    waiting = pod("p")
    waiting["spec"]["containers"][0]["command"] = ["/no/such/program"]
    async with node(root, "p") as n, plugin(n, "a") as gophers:
        await n.create(waiting)
        await n.until("p", is_waiting)
        gophers.send([Device("a", health=SICK)])
        await n.until("p", showing("Unhealthy"))


async def test_s135_device_that_leaves_the_list_counts_as_healthy(root: Path) -> None:
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        gophers.send([Device("a", health=SICK), Device("b")])
        await n.until("p", showing("Unhealthy"))
        gophers.send([Device("b")])
        await n.kill_container("p")  # the status is computed again
        await n.until("p", showing("Healthy"))


async def test_s136_last_health_stays_when_the_plugin_is_gone(root: Path) -> None:
    async with node(root, "p") as n:
        async with plugin(n, "a") as gophers:
            await n.create(pod("p"))
            await n.in_phase("p", "Running")
            gophers.send([Device("a", health=SICK)])
            await n.until("p", showing("Unhealthy"))
        await n.kill_container("p")
        restarted = await n.restarted("p", 1)
        assert showing("Unhealthy")(restarted)


async def test_s137_notices_of_many_pods_are_kept_and_block_nobody() -> None:
    """A kubelet keeps 100 and drops the rest; ours are a set of pods, one notice each. docs/differences.md."""
    notices = Inbox[PodUid]()
    uids = frozenset(PodUid(f"p{number}") for number in range(200))
    for uid in sorted(uids):
        notices.put([uid])
        notices.put([uid])
    assert frozenset(await notices.take()) == uids


async def test_s138_one_id_in_two_resources_tells_the_right_pod(root: Path) -> None:
    """Kubelet 1.36 looks the holder up by ID alone (#140268). docs/differences.md."""
    other = "example.com/other"
    async with node(root, "p", "q") as n, plugin(n, "a"), plugin(n, "a", socket="other", resource=other) as others:
        await n.create(pod("p"))
        await n.create(pod("q", limits={other: "1"}))
        for name in ("p", "q"):
            await n.in_phase(name, "Running")
        others.send([Device("a", health=SICK)])
        await n.until("q", showing("Unhealthy", resource=other))
        await assert_now(n, "p", showing("Healthy"))


async def assert_now(at: Node, name: str, condition: Any) -> None:
    """Check a pod as a watch shows it first."""
    assert condition(await at.until(name, lambda _: True))
