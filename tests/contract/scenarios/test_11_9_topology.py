"""Spec 11.9: pods whose devices have to lie together, admitted by a manager with real plugins.

The numbers of hints and merges alone are in tests/unit/topology, tests/unit/manager and tests/unit/allocation.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from plugbay.errors import AdmissionError, InsufficientDevices, RpcCode, TopologyMisaligned, UnusableTopology
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import run_manager
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.health import unhealthy
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.model.topology import NumaTopology, pretended_nodes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import refusing
from plugbay.wire.plugin_server import PreferenceRequest
from tests.contract.rigs.manager import GOPHER, OTHER, Bench, Gate, bench, container, never, pod, rejection
from tests.contract.rigs.scenario_topology import ALL, MISALIGNED, STRICT, TWO_NODES, ids, placed, settings


@pytest.mark.parametrize("policy", ALL)
async def test_s099_devices_without_numa_nodes_are_admitted_everywhere(sockets: Path, policy: str) -> None:
    async with bench(sockets, topology=settings(policy), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=(), b=()))
        await b.admit(pod("p", gopher=2))
        assert b.gophers_of("p") == {"app": {"a", "b"}}


@pytest.mark.parametrize("policy", ALL)
async def test_s100_one_of_either_node_is_admitted_everywhere(sockets: Path, policy: str) -> None:
    async with bench(sockets, topology=settings(policy), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.admit(pod("p"))
        assert b.gophers_of("p") == {"app": {"a"}}


@pytest.mark.parametrize(("policy", "is_admitted"), [*((each, True) for each in ALL[:3]), ("single-numa-node", False)])
async def test_s101_one_of_each_node_is_too_much_for_a_single_one(
    sockets: Path, policy: str, is_admitted: bool
) -> None:
    async with bench(sockets, topology=settings(policy), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        assert await admits(b, pod("p", gopher=2)) == ("" if is_admitted else MISALIGNED)


@pytest.mark.parametrize(
    ("policy", "is_admitted"), [*((each, True) for each in ALL[:2]), *((e, False) for e in STRICT)]
)
async def test_s102_what_only_others_stand_in_the_way_of_is_refused_where_that_is_wanted(
    sockets: Path, policy: str, is_admitted: bool
) -> None:
    async with bench(sockets, topology=settings(policy), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[1], d=[1]))
        await b.admit(pod("first"), pod("x"), pod("second"))
        assert (b.gophers_of("first"), b.gophers_of("x")) == ({"app": {"a"}}, {"app": {"b"}})
        await b.release("x")
        assert await admits(b, pod("p", gopher=2)) == ("" if is_admitted else MISALIGNED)
        assert b.manager.assigned_pods() >= {"first", "second"}


async def admits(b: Bench, request: PodRequest) -> str:
    """Why a pod is refused; empty if it is not."""
    try:
        await b.manager.admit(request)
    except AdmissionError as error:
        assert request.uid not in b.manager.assigned_pods()
        return str(error)
    return ""


async def test_s103_more_than_there_is_is_refused_by_the_strict_for_the_topology_and_else_for_the_number(
    sockets: Path,
) -> None:
    for policy, error in [("best-effort", InsufficientDevices), *((each, TopologyMisaligned) for each in STRICT)]:
        async with bench(sockets / policy, topology=settings(policy), numa=TWO_NODES) as b:
            await b.plugin(*placed(a=[0], b=[1]))
            with pytest.raises(error):
                await b.manager.admit(pod("p", gopher=3))


async def test_s104_pod_that_has_its_devices_is_judged_by_them(sockets: Path) -> None:
    async with bench(sockets, numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[1]))
        await b.admit(pod("x"), pod("p", gopher=2))
        await b.release("x")
    async with bench(sockets, topology=settings("restricted"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[1]))
        assert b.gophers_of("p") == {"app": {"b", "c"}}
        assert await rejection(b.manager, pod("p", gopher=2)) == MISALIGNED
        assert await rejection(b.manager, pod("p", gopher=1)) == MISALIGNED


@pytest.mark.parametrize("policy", STRICT)
async def test_s104_pod_that_lies_well_is_admitted_again(sockets: Path, policy: str) -> None:
    for _ in range(2):  # the second time after a restart
        async with bench(sockets, topology=settings(policy), numa=TWO_NODES) as b:
            plugin = await b.plugin(*placed(a=[0], b=[1], c=[1]))
            await b.admit(pod("p", gopher=2), pod("p", gopher=2))
            assert b.gophers_of("p") == {"app": {"b", "c"}}
    assert plugin.allocated == []


async def test_s105_request_that_needs_devices_without_nodes_among_others_is_impossible(sockets: Path) -> None:
    devices = placed(a=[0], b=[])
    async with bench(sockets / "r", topology=settings("restricted"), numa=TWO_NODES) as b:
        await b.plugin(*devices)
        assert await admits(b, pod("p", gopher=2)) == MISALIGNED
    async with bench(sockets / "b", topology=settings("best-effort"), numa=TWO_NODES) as b:
        await b.plugin(*devices)
        assert await admits(b, pod("p", gopher=2)) == ""


async def test_s107_node_the_machine_does_not_have_is_ignored(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[63], b=[1]))
        await b.admit(pod("p"))
        assert b.gophers_of("p") == {"app": {"b"}}
        assert await admits(b, pod("q")) == MISALIGNED


async def test_s109_the_aligned_device_is_among_those_of_two_nodes(sockets: Path) -> None:
    async with bench(sockets, topology=settings("best-effort"), numa=TWO_NODES) as b:
        plugin = await b.plugin(
            *placed(a=[1], b=[1], near=[0]), options=PluginOptions(get_preferred_allocation_available=True)
        )
        await b.plugin(*placed(x=[0]), resource=OTHER)
        await b.admit(pod("p", container("app", gopher=2, other=1)))
        assert "near" in b.gophers_of("p")["app"]
        assert plugin.preferred == [PreferenceRequest(ids("a", "b", "near"), ids("near"), 2)]


# --- scopes ---------------------------------------------------------------------------------------------------------


async def test_s110_pod_scope_looks_at_all_containers_together(sockets: Path) -> None:
    """Two on each node: every container can have a node for itself, but the three devices together lie on both."""
    parts = (container("a", gopher=1), container("b", gopher=2))
    for scope, expected in (("container", ""), ("pod", MISALIGNED)):
        async with bench(sockets / scope, topology=settings("single-numa-node", scope), numa=TWO_NODES) as b:
            await b.plugin(*placed(a=[0], b=[0], c=[1], d=[1]))
            assert await admits(b, pod("p", *parts)) == expected


async def test_s111_sidecar_before_an_init_container_counts_with_it(sockets: Path) -> None:
    sidecar, init, app = (
        container("s", ContainerKind.SIDECAR, gopher=1),
        container("i", ContainerKind.INIT, gopher=2),
        container("a", gopher=1),
    )
    for name, order, expected in (("before", (sidecar, init, app), MISALIGNED), ("behind", (init, sidecar, app), "")):
        async with bench(sockets / name, topology=settings("single-numa-node", "pod"), numa=TWO_NODES) as b:
            await b.plugin(*placed(a=[0], b=[0], c=[1], d=[1]))
            assert await admits(b, pod("p", *order)) == expected


async def test_container_scope_sees_what_containers_before_it_got(sockets: Path) -> None:
    async with bench(sockets, topology=settings("restricted"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[0], d=[1], e=[1]))
        await b.admit(pod("p", container("x", gopher=2), container("y", gopher=2)))
        assert b.gophers_of("p") == {"x": {"a", "b"}, "y": {"d", "e"}}


async def test_later_container_gets_what_an_init_container_leaves_it(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[1]))
        await b.admit(pod("x"), pod("y", container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1)))
        assert b.gophers_of("y") == {"init": {"b"}, "app": {"b"}}


# --- several resources ----------------------------------------------------------------------------------------------


async def test_s112_resources_meet_on_the_node_both_can_offer(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.plugin(*placed(x=[1]), resource=OTHER)
        await b.admit(pod("p", container("app", gopher=1, other=1)))
        assert b.held("p") == {"app": {GOPHER: ("b",), OTHER: ("x",)}}


async def test_s113_resources_that_never_meet_are_refused_by_the_strict(sockets: Path) -> None:
    for policy, expected in (("best-effort", ""), *((each, MISALIGNED) for each in STRICT)):
        async with bench(sockets / policy, topology=settings(policy), numa=TWO_NODES) as b:
            await b.plugin(*placed(a=[0]))
            await b.plugin(*placed(x=[1]), resource=OTHER)
            assert await admits(b, pod("p", container("app", gopher=1, other=1))) == expected


async def test_s114_who_does_not_care_does_not_help(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.plugin("x", resource=OTHER)
        assert await admits(b, pod("p", container("app", gopher=2, other=1))) == MISALIGNED


@pytest.mark.parametrize("machine", [NumaTopology((0,)), NumaTopology((5,))], ids=["node-0", "node-5"])
async def test_s115_machine_of_one_node_admits_all_that_fits(sockets: Path, machine: NumaTopology) -> None:
    """With no affinity the plugin is asked about all devices, those it says nothing of included."""
    [node] = machine.nodes
    async with bench(sockets, topology=settings("single-numa-node"), numa=machine) as b:
        plugin = await b.plugin(
            *placed(a=[node], b=[node], c=[]), options=PluginOptions(get_preferred_allocation_available=True)
        )
        await b.admit(pod("p"))
        assert plugin.preferred == [PreferenceRequest(ids("a", "b", "c"), (), 1)]


async def test_s116_close_nodes_are_preferred_if_that_is_wanted(sockets: Path) -> None:
    near, far = 11, 21
    distances = {0: {0: 10, 1: far, 2: near}, 1: {0: far, 1: 10, 2: far}, 2: {0: near, 1: far, 2: 10}}
    for closest, expected in (("false", {"a", "b"}), ("true", {"a", "c"})):
        options = settings("best-effort", prefer_closest_numa_nodes=closest)
        async with bench(sockets / closest, topology=options, numa=NumaTopology((0, 1, 2), distances)) as b:
            await b.plugin(*placed(a=[0], b=[1], c=[2]))
            await b.admit(pod("p", gopher=2))
            assert b.gophers_of("p") == {"app": expected}


async def test_s117_manager_refuses_to_start_on_too_many_nodes_and_leaves_the_root_alone(sockets: Path) -> None:
    config = ManagerConfig(
        KubeletPaths(sockets), sockets / "state/m.db", topology=settings("restricted"), numa=pretended_nodes(9)
    )
    with pytest.raises(UnusableTopology, match="unsupported on machines with more than 8 NUMA Nodes"):
        async with run_manager(config, clock=ManualClock()):
            pass
    assert list(sockets.iterdir()) == []


async def test_s117_manager_starts_on_nine_nodes_with_a_warning_where_they_are_allowed(
    sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = settings("restricted", max_allowable_numa_nodes="9")
    async with bench(sockets, topology=allowed, numa=pretended_nodes(9)) as b:
        assert "9 NUMA nodes are allowed (recommended: 8)" in caplog.text
        await b.plugin(*placed(a=[8]))
        await b.admit(pod("p"))


# --- the pod as a whole ---------------------------------------------------------------------------------------------


async def test_refused_pod_leaves_nothing_behind(sockets: Path) -> None:
    """The first container has been allocated when the second is found not to fit."""
    async with bench(sockets, topology=settings("restricted"), numa=TWO_NODES) as b:
        plugin = await b.plugin(*placed(a=[0], b=[0], c=[0], d=[1]))
        two = pod("p", container("x", gopher=2), container("y", gopher=2))
        assert await admits(b, two) == MISALIGNED
        assert plugin.allocated == [("a", "b")]
        await b.admit(pod("q", gopher=2))
        assert b.gophers_of("q") == {"app": {"a", "b"}}


async def test_unhealthy_devices_are_not_hinted_at_but_make_the_smallest_set(sockets: Path) -> None:
    async with bench(sockets, topology=settings("restricted"), numa=TWO_NODES) as b:
        plugin = await b.plugin(*placed(a=[0], b=[0], c=[1]))
        plugin.send([Device("a", health=unhealthy("hot"), numa_nodes=[0]), *placed(b=[0], c=[1])])
        await b.counts(3, 2)
        assert await admits(b, pod("p", gopher=2)) == MISALIGNED


@pytest.mark.parametrize(
    ("policy", "of_waiting", "of_later"), [("none", "y", "x"), *((each, "x", "y") for each in ALL[1:])]
)
async def test_pod_that_waits_for_a_stuck_plugin_keeps_its_turn_elsewhere_where_all_must_fit(
    sockets: Path, policy: str, of_waiting: str, of_later: str
) -> None:
    """Without a policy the later pod is served at once; else it might take away what the first one is to lie beside."""
    async with bench(sockets, topology=settings(policy), numa=pretended_nodes(1)) as b:
        stuck = await b.plugin(*placed(a=[0]))
        await b.plugin(*placed(x=[0], y=[0]), resource=OTHER)
        stuck.allocate_answer = call = Gate(stuck.allocate_answer)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.manager.admit(pod("waiting", container("app", gopher=1, other=1))))
            await call.entered.wait()
            later = tasks.create_task(b.manager.admit(pod("later", container("app", other=1))))
            if policy == "none":
                await later
            call.open.set()
        assert b.held("waiting") == {"app": {GOPHER: ("a",), OTHER: (of_waiting,)}}
        assert b.held("later") == {"app": {OTHER: (of_later,)}}


async def test_pods_that_want_the_same_resources_in_any_order_take_turns(sockets: Path) -> None:
    """Each wants both for several containers, and there is enough for one of them only."""
    async with bench(sockets, topology=settings("best-effort"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1]))
        await b.plugin(*placed(x=[0], y=[1]), resource=OTHER)
        one = pod("one", container("c", gopher=1), container("d", other=2, gopher=1))
        two = pod("two", container("c", other=1), container("d", gopher=2, other=1))
        reasons = await asyncio.gather(admits(b, one), admits(b, two))
        assert sorted(map(bool, reasons)) == [False, True]


async def test_stuck_plugin_holds_up_only_who_wants_what_a_waiting_pod_wants(sockets: Path) -> None:
    async with bench(sockets, topology=settings("best-effort"), numa=TWO_NODES) as b:
        stuck = await b.plugin(*placed(a=[0]))
        await b.plugin(*placed(x=[0]), resource=OTHER)
        stuck.allocate_answer = call = Gate(never)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(b.manager.admit(pod("stuck")))
            await call.entered.wait()
            await b.admit(pod("other", container("app", other=1)))
            waiting.cancel()
        assert set(b.held("other")) == {"app"}


async def test_single_node_policy_admits_exactly_what_fits_on_one(sockets: Path) -> None:
    """Pods come and go by chance; who is admitted is compared with a look at every node."""
    node_of = {f"{kind}{number}": number % 3 for kind in "gx" for number in range(9)}

    def is_room(free: set[str], gophers: int, others: int, node: int) -> bool:
        there = Counter(id[0] for id in free if node_of[id] == node)
        return there["g"] >= gophers and there["x"] >= others

    async with bench(sockets, topology=settings("single-numa-node"), numa=pretended_nodes(3)) as b:
        for resource in (GOPHER, OTHER):
            kind = "g" if resource == GOPHER else "x"
            listed = placed(**{id: [node] for id, node in node_of.items() if id[0] == kind})
            await b.plugin(*listed, resource=resource)
        chance, free, held = random.Random(9), set(node_of), dict[str, set[str]]()
        verdicts = Counter[bool]()
        for step in range(150):
            if held and chance.random() < 0.3:
                gone = chance.choice(sorted(held))
                free |= held.pop(gone)
                await b.release(gone)
                continue
            uid, gophers, others = f"pod-{step}", chance.randint(0, 3), chance.randint(0, 3)
            fits = any(is_room(free, gophers, others, node) for node in range(3))
            assert (await admits(b, pod(uid, container("app", gopher=gophers, other=others))) == "") is fits
            verdicts[fits] += 1
            if fits and gophers + others:
                held[uid] = {id for ids in b.held(uid)["app"].values() for id in ids}
                assert len({node_of[id] for id in held[uid]}) == 1
                free -= held[uid]
        assert min(verdicts[True], verdicts[False]) > 20


# --- what is counted ------------------------------------------------------------------------------------------------


async def test_admissions_are_counted(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node"), numa=TWO_NODES) as b:
        plugin = await b.plugin(*placed(a=[0], b=[1], c=[1]))
        await b.admit(pod("p", container("x", gopher=1), container("y", gopher=1)))
        await rejection(b.manager, pod("q", gopher=2))
        plugin.allocate_answer = refusing(RpcCode.INTERNAL, "boom")
        await rejection(b.manager, pod("r", gopher=1))
        topology = b.manager.topology
        assert (topology.requests, topology.errors, topology.durations.count) == (3, 2, 3)
        assert (topology.aligned, topology.misaligned) == (2, 1)


async def test_pods_are_counted_where_they_are_looked_at(sockets: Path) -> None:
    async with bench(sockets, topology=settings("single-numa-node", "pod"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[1], c=[1]))
        await b.admit(pod("p", container("x", gopher=1), container("y", gopher=1)))
        await rejection(b.manager, pod("q", container("x", gopher=1), container("y", gopher=1)))
        assert (b.manager.topology.aligned, b.manager.topology.misaligned) == (1, 1)


async def test_without_a_policy_errors_do_not_count(sockets: Path) -> None:
    async with bench(sockets) as b:
        await rejection(b.manager, pod("q"))
        assert (b.manager.topology.requests, b.manager.topology.errors) == (1, 0)
