"""Whole pods against the node's predicates, behind a manager that gives out devices."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.releases import ReleaseReason
from plugbay.pods.admission import Joining
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord, Rejection
from plugbay.topology.settings import TopologySettings
from tests.contract.rigs.cores import Cores
from tests.contract.rigs.manager import Gate
from tests.contract.rigs.release import BOTH, ON
from tests.contract.rigs.scenario_nodes import DEADLINE_S, Json, node, plugin, pod


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
        await n.create(pod("first"))
        async with asyncio.timeout(DEADLINE_S):
            await call.entered.wait()
        await n.create(pod("second", nodeName="n1"))
        call.open.set()
        await n.in_phase("first", "Running")
        rejected = await n.in_phase("second", "Failed")
        assert rejected["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 1, Available: 0" in rejected["status"]["message"]


# --- others who join ------------------------------------------------------------------------------------------------


class Licences:
    """A handler: pods have to name the licence they run under, and there are so many.

    Attributes:
        asked: names of pods and how far they were.
    """

    def __init__(self, *known: str) -> None:
        self._known = known
        self.asked: list[tuple[str, PodStage]] = []

    async def admit(self, record: PodRecord) -> Rejection | None:
        self.asked.append((record.pod.name, record.stage))
        licence = record.pod.annotations.get("example.com/licence", "none")
        return None if licence in self._known else Rejection("NoLicence", f"there is no licence {licence}")


def licensed(name: str, licence: str) -> Json:
    manifest = pod(name)
    manifest["metadata"]["annotations"] = {"example.com/licence": licence}
    return manifest


async def test_handler_of_others_rejects_pods_in_its_own_words(sockets: Path) -> None:
    """It is asked last, and what the pod got until then is taken back."""
    licences = Licences("red")
    joining = Joining(handlers=[licences])
    async with node(sockets / "n", "good", gates=ON, joining=joining) as n, plugin(n, "a", options=BOTH) as gopher:
        await n.create(licensed("bad", "blue"))
        status = (await n.in_phase("bad", "Failed"))["status"]
        assert (status["reason"], status["message"]) == ("NoLicence", "Pod was rejected: there is no licence blue")
        event = await n.event("bad", "NoLicence")
        assert (event["type"], event["message"]) == ("Warning", "there is no licence blue")
        await gopher.until_called("Allocate", "Deallocate")
        assert [each.reason for each in gopher.deallocated] == [ReleaseReason.ADMISSION_FAILED]
        await n.create(licensed("good", "red"))
        await n.in_phase("good", "Running")
        assert await n.devices() == {"a": "good"}
        assert licences.asked == [("bad", PodStage.BOUND), ("good", PodStage.BOUND)]


async def test_handler_of_others_is_asked_again_after_a_restart(sockets: Path) -> None:
    """And can end a pod that runs, as a kubelet's can."""
    async with node(sockets / "n", joining=Joining(handlers=[Licences("red")])) as n, plugin(n, "a"):
        await n.create(licensed("p", "red"))
        await n.in_phase("p", "Running")
    none_left = Licences()
    async with node(sockets / "n", "p", joining=Joining(handlers=[none_left])) as n:
        assert (await n.in_phase("p", "Failed"))["status"]["reason"] == "NoLicence"
        assert none_left.asked == [("p", PodStage.ACTIVE)]


async def test_hint_provider_of_others_joins_a_node(sockets: Path) -> None:
    """The one free core is on the second NUMA node; so the device is, and the core comes back with the pod's end."""
    cores = Cores([1])
    joining = Joining(hint_providers=[cores])
    strict = TopologySettings("restricted")
    listed = [Device("a", numa_nodes=[0]), Device("b", numa_nodes=[1])]
    async with node(sockets / "n", topology=strict, fake_numa_nodes=2, joining=joining) as n, plugin(n, *listed):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        assert await n.devices() == {"a": None, "b": "p"}
        assert not cores.free
        await n.delete("p")
        assert cores.free == {1}
