"""Defects of the kubelet's device manager that ours must not have, by their names; docs/differences.md lists them.

A test is named after the defect, and passes because ours does not have it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName
from plugbay.model.requests import ContainerKind
from tests.contract.rigs.manager import APP, GOPHER, OTHER, Gate, bench, container, listed, never, pod, rejection
from tests.contract.rigs.scenario_topology import MISALIGNED, STRICT, TWO_NODES, placed, settings


async def test_defect_one_stuck_plugin_blocks_all_admission(sockets: Path) -> None:
    """#117435: Allocate has no deadline, and admissions come one after another."""
    late = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    async with bench(sockets / "patient", call_timeout_s=600) as b:
        stuck = await b.plugin("a", "b")
        await b.plugin("x", resource=OTHER)
        stuck.allocate_answer = call = Gate(never)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(b.admit(pod("p")))
            await call.entered.wait()
            await b.admit(pod("q", container("app", other=1)))
            assert not waiting.done()
            waiting.cancel()
    async with bench(sockets / "hasty", call_timeout_s=1) as b:
        stuck = await b.plugin("a", "b")
        stuck.allocate_answer = never
        assert await rejection(b.manager, pod("p")) == late


async def test_defect_end_of_the_old_plugins_stream_disconnects_the_new_plugin(sockets: Path) -> None:
    """#121994, fixed in 1.37."""
    async with bench(sockets) as b:
        old = await b.plugin("a", socket="old.sock")
        new = await b.plugin("a", "b", socket="new.sock")
        old.end_streams()
        new.send(listed("abc"))
        await b.counts(3, 3)
        await b.admit(pod("p"))
        assert (old.allocated, new.allocated) == ([], [("a",)])


async def test_defect_empty_allocate_answer_leaks_devices(sockets: Path) -> None:
    """#137317: the picked devices stay in use for nobody."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a")

        async def nothing(_: object) -> None:
            return None

        works, plugin.allocate_answer = plugin.allocate_answer, nothing
        for uid in ("p", "q"):
            assert await rejection(b.manager, pod(uid)) == "no containers return in allocation response "
        (resource,) = b.manager.snapshot().resources
        assert [device.holder for device in resource.devices] == [None]
        plugin.allocate_answer = works
        await b.admit(pod("r"))


async def test_defect_device_leaving_the_list_during_allocate_crashes_the_manager(sockets: Path) -> None:
    """Spec, appendix D 1."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")

        async def vanish(_: object) -> ContainerEdits:
            plugin.send(listed("b"))
            await b.counts(1, 1)
            return ContainerEdits()

        plugin.allocate_answer = vanish
        await b.admit(pod("p"))
        assert b.gophers_of("p") == {"app": {"a"}}
        (resource,) = b.manager.snapshot().resources
        assert [(device.id, device.health, device.holder) for device in resource.devices] == [
            ("a", "Unknown", ("p", "app")),
            ("b", "Healthy", None),
        ]


async def test_defect_device_in_use_goes_to_a_second_pod_when_clean_up_runs_during_allocate(sockets: Path) -> None:
    """Spec 4.9.2: cleaning forgets the picks in flight."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod("old"))
        plugin.allocate_answer = call = Gate(plugin.allocate_answer)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.manager.admit(pod("p")))
            await call.entered.wait()
            await b.release("old")
            tasks.create_task(b.manager.admit(pod("q")))
            call.open.set()
        assert b.gophers_of("p")["app"] | b.gophers_of("q")["app"] == {"a", "b"}


async def test_defect_unknown_resource_is_admitted_silently(sockets: Path) -> None:
    """The pod runs without its device."""
    async with bench(sockets) as b:
        plugin = await b.plugin("x", resource=OTHER)
        request = pod("p", container("app", gopher=1, other=1))
        assert await rejection(b.manager, request) == f"cannot allocate unregistered device {GOPHER}"
        assert plugin.allocated == []


async def test_defect_unknown_resource_of_containers_that_run_already_is_no_reason_to_end_them(sockets: Path) -> None:
    """The other side of the one before: after a restart that lost everything, running pods go on (spec 4.7)."""
    async with bench(sockets) as b:
        await b.manager.admit(pod("p"), running=[APP])
        assert b.held("p") == {}


async def test_defect_running_pod_whose_init_container_had_a_device_is_rejected_after_a_restart(sockets: Path) -> None:
    """#124345, #138446: the completed init container does not run, and so fails the checks."""
    request = pod("p", container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1))
    async with bench(sockets) as b:
        await b.plugin("a")
        await b.admit(request)
    async with bench(sockets) as b:
        await b.manager.admit(request, running=[APP])
        assert b.gophers_of("p")["app"] == {"a"}


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", STRICT)
@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"b": [1]}, id="one-vanished"),
        pytest.param({"a": [0], "b": [1], "c": [1]}, id="one-moved"),
        pytest.param({"a": [0], "b": [0], "c": [1], "d": [0]}, id="would-fit-on-one-node"),
    ],
)
async def test_defect_running_pod_is_rejected_after_a_restart_because_the_list_of_devices_has_changed(
    sockets: Path, policy: str, scope: str, later: dict[str, list[int]]
) -> None:
    request = pod("p", container("app", gopher=1), container("pair", gopher=2))
    async with bench(sockets, topology=settings("best-effort"), numa=TWO_NODES) as b:
        await b.plugin(*placed(a=[0], b=[0], c=[1]))
        await b.admit(request)
        before = b.held("p")
    async with bench(sockets, topology=settings(policy, scope), numa=TWO_NODES) as b:
        plugin = await b.plugin(*placed(**later))
        await b.manager.admit(request, running={APP, ContainerName("pair")})
        assert b.held("p") == before
        assert await rejection(b.manager, pod("q", gopher=2)) == MISALIGNED
        assert plugin.allocated == []
