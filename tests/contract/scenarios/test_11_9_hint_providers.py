"""Spec 11.9: devices beside another hint provider, which stands for the kubelet's CPU Manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import AdmissionError, InsufficientDevices, RpcCode
from plugbay.model.ids import PodUid
from plugbay.testing.fakes.plugin import refusing
from tests.contract.rigs.cores import Cores
from tests.contract.rigs.manager import APP, OTHER, bench, container, pod
from tests.contract.rigs.scenario_topology import ALL, TWO_NODES, placed, settings


async def test_another_provider_joins_and_devices_follow_it(sockets: Path) -> None:
    cores = Cores([1])
    async with bench(sockets, hint_providers=[cores], topology=settings("restricted"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.admit(pod("p"))
        assert b.gophers_of("p") == {"app": {"b"}}
        assert cores.given == {"p": {"app": 1}}
        await b.release("p")
        assert cores.free == {1}


async def test_devices_decide_where_another_provider_gives(sockets: Path) -> None:
    cores = Cores([0, 1])
    async with bench(sockets, hint_providers=[cores], topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        await b.plugin(*placed(b=[1]))
        await b.admit(pod("p"))
        assert cores.given == {"p": {"app": 1}}


@pytest.mark.parametrize("policy", ALL)
async def test_what_another_provider_refuses_gives_devices_back(sockets: Path, policy: str) -> None:
    cores = Cores([0], answer=InsufficientDevices("cpu", 1, 0))
    async with bench(sockets, hint_providers=[cores], topology=settings(policy), numa=TWO_NODES) as b:
        plugin = await b.plugin(*placed(a=[0]))
        with pytest.raises(InsufficientDevices):
            await b.manager.admit(pod("p"))
        assert plugin.allocated == [("a",)]
        assert b.manager.assigned_pods() == frozenset()


async def test_what_devices_refuse_is_given_back_to_another_provider(sockets: Path) -> None:
    cores = Cores([0, 1])
    async with bench(sockets, hint_providers=[cores], topology=settings("best-effort"), numa=TWO_NODES) as b:
        (await b.plugin(*placed(x=[0]), resource=OTHER)).allocate_answer = refusing(RpcCode.INTERNAL, "boom")
        with pytest.raises(AdmissionError, match="boom"):
            await b.manager.admit(pod("p", container("x"), container("y", other=1)))
        assert cores.asked == ["x", "y"]
        assert cores.free == {0, 1}


@pytest.mark.parametrize(("policy", "device"), [("restricted", "b"), ("none", "a")])
async def test_container_of_before_gets_its_devices_where_the_pod_was_admitted_to(
    sockets: Path, policy: str, device: str
) -> None:
    """Its process outlived a restart, and it is made anew: nobody has forgotten the affinity by then (spec 5.10)."""
    async with bench(sockets, hint_providers=[Cores([1])], topology=settings(policy), numa=TWO_NODES) as b:
        await b.manager.admit(pod("p"), running={APP})
        await b.plugin(*placed(a=[0], b=[1]))
        assert b.held("p") == {}
        b.manager.container_ended(PodUid("p"), APP, "of before")
        await b.prepare("p")
        assert b.gophers_of("p") == {"app": {device}}


async def test_without_a_policy_nobody_is_asked_for_hints(sockets: Path) -> None:
    cores = Cores([1])
    async with bench(sockets, hint_providers=[cores], numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.admit(pod("p"))
        assert (b.gophers_of("p"), cores.given, cores.asked) == ({"app": {"a"}}, {"p": {"app": 1}}, [])
