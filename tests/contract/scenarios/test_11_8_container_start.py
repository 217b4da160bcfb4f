"""Spec 11.8: PreStartContainer, and what containers are given at their start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import AdmissionError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.requests import PodRequest
from tests.contract.rigs import scenario_nodes
from tests.contract.rigs.manager import GOPHER, OTHER, Bench, SleepersClock, bench, container, never, pod
from tests.contract.rigs.scenario_nodes import Json, Node, container_status, node

ASKS = PluginOptions(pre_start_required=True)


def giving(edits: ContainerEdits) -> Callable[[object], Awaitable[ContainerEdits]]:
    async def answer(_: object) -> ContainerEdits:
        return edits

    return answer


def instances(at: Node) -> list[Path]:
    """What the runtime has of containers."""
    return list(at.config.containers.glob("*"))


async def waits_with(at: Node, name: str, text: str) -> None:
    """The pod's container cannot be made because of ``text``."""

    def is_waiting(each: Json) -> bool:
        waiting = container_status(each)["state"].get("waiting", {})
        return waiting.get("reason") == "CreateContainerConfigError" and text in waiting["message"]

    await at.until(name, lambda each: bool(each["status"].get("containerStatuses")) and is_waiting(each))


async def test_s088_pre_start_is_called_once_before_each_start(sockets: Path) -> None:
    async with node(sockets / "node", "p") as n, scenario_nodes.plugin(n, "a", "b", options=ASKS) as plugin:
        there_at_first: list[Path] = []

        async def look(_: object) -> None:
            if len(plugin.pre_started) == 1:
                there_at_first.extend(instances(n))

        plugin.pre_start_answer = look
        await n.create(scenario_nodes.pod("p", limits={scenario_nodes.RESOURCE: "2"}))
        await n.in_phase("p", "Running")
        assert (plugin.pre_started, there_at_first) == ([("a", "b")], [])
        await n.kill_container("p")
        await n.restarted("p", 1)
        assert plugin.pre_started == [("a", "b")] * 2
        assert plugin.allocated == [("a", "b")]


async def test_s089_pre_start_is_not_called_unasked_nor_for_nothing(sockets: Path) -> None:
    async with bench(sockets) as b:
        unasked = await b.plugin("a")
        unused = await b.plugin("x", resource=OTHER, options=ASKS)
        await b.admit(pod("p", container("app", gopher=1, other=0)))
        await b.prepare("p")
        assert (unasked.pre_started, unused.pre_started) == ([], [])


async def test_s090_container_waits_for_the_plugin_that_has_to_prepare_it(sockets: Path) -> None:
    clock = SleepersClock()
    async with node(sockets / "node", "p", clock=clock) as n, scenario_nodes.plugin(n, "a", options=ASKS) as plugin:
        await n.create(scenario_nodes.pod("p"))
        await n.in_phase("p", "Running")
        plugin.end_streams()
        await plugin.until_unwatched()
        await n.kill_container("p")
        await waits_with(n, "p", "device plugin PreStartContainer rpc failed with err: endpoint ")
        await clock.until_asleep(10)  # after the second attempt, which comes at once
        await plugin.register(n.config.kubelet_paths.registration_socket)
        await clock.sleep_through(10)
        await n.restarted("p", 1)
        assert plugin.pre_started == [("a",)] * 2


@pytest.mark.parametrize("options", [PluginOptions(), ASKS], ids=["unasked", "asks"])
async def test_s091_plugin_not_back_since_a_restart_is_waited_for_if_it_asks_for_starts(
    sockets: Path, options: PluginOptions
) -> None:
    async with node(sockets / "node") as n, scenario_nodes.plugin(n, "a", options=options):
        await n.create(scenario_nodes.pod("p"))
        await n.in_phase("p", "Running")
    async with node(sockets / "node", "p") as n:
        await n.kill_container("p")
        if options is ASKS:
            await waits_with(n, "p", "the plugin has not registered since the node was restarted")
        else:
            await n.restarted("p", 1)
        assert await n.devices() == {"a": "p"}


async def test_s092_pre_start_has_thirty_seconds(sockets: Path) -> None:
    assert ManagerConfig(KubeletPaths(sockets), sockets).pre_start_timeout_s == 30
    async with bench(sockets, pre_start_timeout_s=0.3) as b:
        (await b.plugin("a", options=ASKS)).pre_start_answer = never
        await b.admit(pod("p"))
        with pytest.raises(AdmissionError) as caught:
            await b.prepare("p")
    assert str(caught.value) == (
        "device plugin PreStartContainer rpc failed with err: "
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )


async def test_s093_of_two_values_for_one_variable_the_first_resources_counts(sockets: Path) -> None:
    """A kubelet takes either, at each start anew."""
    async with bench(sockets) as b:
        await both_giving(b, ContainerEdits(env={"X": "gopher"}), ContainerEdits(env={"X": "other", "Y": "other"}))
        assert await b.prepare("p") == ContainerEdits(env={"X": "gopher", "Y": "other"})


async def test_s094_cdi_device_named_by_two_resources_is_given_once(sockets: Path) -> None:
    async with bench(sockets) as b:
        await both_giving(b, ContainerEdits(cdi_devices=("v/x=a",)), ContainerEdits(cdi_devices=("v/x=a", "v/x=b")))
        assert await b.prepare("p") == ContainerEdits(cdi_devices=("v/x=a", "v/x=b"))


async def both_giving(b: Bench, gopher: ContainerEdits, other: ContainerEdits) -> None:
    """A pod ``p`` that holds a gopher and another device."""
    (await b.plugin("a")).allocate_answer = giving(gopher)
    (await b.plugin("x", resource=OTHER)).allocate_answer = giving(other)
    await b.admit(pod("p", container("app", gopher=1, other=1)))


async def test_s095_unknown_pod_gets_nothing(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", options=ASKS)
        assert await b.prepare("p") == ContainerEdits()
        await b.admit(pod("p"))
        await b.release("p")
        assert await b.prepare("p") == ContainerEdits()
        assert (plugin.allocated, plugin.pre_started) == ([("a",)], [])


async def test_s096_container_without_its_devices_gets_them_when_it_is_made(sockets: Path) -> None:
    """A kubelet starts it without them as long as the resource is unknown; ours waits for the plugin."""
    root = sockets / "node"
    async with node(root) as n, scenario_nodes.plugin(n, "a"):
        await n.create(scenario_nodes.pod("p"))
        await n.in_phase("p", "Running")
    for store in (*(root / "state").glob("devices.db*"), n.config.kubelet_paths.checkpoint):
        store.unlink()
    clock = SleepersClock()
    async with node(root, "p", "q", clock=clock) as n:
        await n.in_phase("p", "Running")
        await n.kill_container("p")
        await waits_with(n, "p", f"cannot allocate unregistered device {GOPHER}")
        await clock.until_asleep(10)  # after the second attempt, which comes at once
        async with scenario_nodes.plugin(n, "a", "b", options=ASKS) as plugin:
            await n.create(scenario_nodes.pod("q"))
            await n.in_phase("q", "Running")
            await clock.sleep_through(10)
            await n.restarted("p", 1)
            assert await n.devices() == {"a": "q", "b": "p"}
            assert plugin.pre_started == plugin.allocated == [("a",), ("b",)]


async def test_s096_reallocation_touches_no_other_container(sockets: Path) -> None:
    request: PodRequest = pod("p", container("one", gopher=1), container("two", gopher=1))
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.manager.admit(request, running=[each.name for each in request.containers])
        assert b.held("p") == {}
        assert await b.prepare("p", "two") == ContainerEdits(env={"DEVICES": "a"})
        assert await b.prepare("p", "two") == ContainerEdits(env={"DEVICES": "a"})
        assert b.gophers_of("p") == {"two": {"a"}}
        assert plugin.allocated == [("a",)]


async def test_s097_annotation_under_a_key_of_the_kubelets_changes_nothing_of_the_pod(sockets: Path) -> None:
    """The process runtime has no container annotations; a runtime that has them puts the node's own on top."""
    key = "io.kubernetes.pod.name"
    async with node(sockets / "node", "p") as n, scenario_nodes.plugin(n, "a") as plugin:
        plugin.allocate_answer = giving(ContainerEdits(env={"X": "given"}, annotations={key: "evil"}))
        await n.create(scenario_nodes.pod("p", restart="Never", script="env"))
        shown = await n.in_phase("p", "Succeeded")
        assert shown["metadata"]["name"] == "p"
        assert key not in shown["metadata"].get("annotations", {})
        seen = await n.log("p")
        assert "X=given\n" in seen
        assert "evil" not in seen


async def test_s098_pods_own_variable_beats_the_devices(sockets: Path) -> None:
    async with node(sockets / "node", "p") as n, scenario_nodes.plugin(n, "a") as plugin:
        plugin.allocate_answer = giving(ContainerEdits(env={"BOTH": "device", "ONE": "device"}))
        wanted: Any = scenario_nodes.pod("p", restart="Never", script="echo $BOTH $ONE")
        wanted["spec"]["containers"][0]["env"] = [{"name": "BOTH", "value": "pod"}]
        await n.create(wanted)
        await n.in_phase("p", "Succeeded")
        assert await n.log("p") == "pod device\n"
