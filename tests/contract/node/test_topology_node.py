"""A node with a topology policy: what pods are told, what a restart does to them, and the command's options."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.cli.node.topology_options import POLICIES, SCOPES
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.node import run as runner
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.process.runner import serving
from plugbay.topology.policies import PolicyKind, TopologyScope
from plugbay.topology.settings import TopologySettings
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.scenario_nodes import RESOURCE, container_status, node, plugin, pod

MISALIGNED: Final = "Resources cannot be allocated with Topology locality"
PAIR: Final = {RESOURCE: "2"}


def placed(**nodes: Collection[int]) -> list[Device]:
    return [Device(name, numa_nodes=on) for name, on in nodes.items()]


def two_nodes(policy: str) -> dict[str, Any]:
    return {"topology": TopologySettings(policy), "fake_numa_nodes": 2}


async def test_misaligned_pod_fails_in_the_kubelets_words(sockets: Path) -> None:
    """Spec 5.9. Nothing of it is left, and a pod that lies well runs."""
    async with (
        node(sockets / "n", "p", "q", **two_nodes("single-numa-node")) as n,
        plugin(n, *placed(a=[0], b=[1])) as gophers,
    ):
        await n.create(pod("p", limits=PAIR))
        status = (await n.in_phase("p", "Failed"))["status"]
        assert (status["reason"], status["message"]) == ("TopologyAffinityError", f"Pod was rejected: {MISALIGNED}")
        event = await n.event("p", "TopologyAffinityError")
        assert (event["type"], event["message"]) == ("Warning", MISALIGNED)
        assert gophers.allocated == []
        await n.create(pod("q"))
        await n.in_phase("q", "Running")
        assert await n.devices() == {"a": "q", "b": None}


async def test_running_pod_is_admitted_again_before_its_plugin_is_back(sockets: Path) -> None:
    """Nobody says then where its devices lie, as on a kubelet."""
    held = {"a": None, "b": "p", "c": "p"}
    async with node(sockets / "n", **two_nodes("restricted")) as n, plugin(n, *placed(a=[0], b=[1], c=[1])):
        await n.create(pod("p", limits=PAIR))
        await n.in_phase("p", "Running")
        assert await n.devices() == held
    async with node(sockets / "n", "p", "q", **two_nodes("restricted")) as n:
        running = await n.in_phase("p", "Running")
        assert container_status(running)["restartCount"] == 0
        async with plugin(n, *placed(a=[0], b=[1], c=[1])):
            await n.create(pod("q"))  # it waits for the plugin's list
            await n.in_phase("q", "Running")
            assert await n.devices() == held | {"a": "q"}


async def test_running_pod_that_lies_badly_goes_on_under_a_stricter_policy(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet judges it again when it starts, and ends it if it knows by then where the devices lie."""
    monkeypatch.setattr(runner, "PLUGINS_RETURN_S", DEADLINE_S)  # however long the plugin needs here
    async with node(sockets / "n", **two_nodes("best-effort")) as n:
        async with plugin(n, *placed(a=[0], b=[1])):
            await n.create(pod("p", limits=PAIR))
            await n.in_phase("p", "Running")
    async with (
        serving([Returning()], paths=KubeletPaths(sockets / "n")),
        node(sockets / "n", "p", **two_nodes("single-numa-node")) as n,
    ):
        assert container_status(await n.in_phase("p", "Running"))["restartCount"] == 0
        assert await n.devices() == {"a": "p", "b": "p"}


class Returning(DevicePlugin):
    """A plugin that registers as soon as a node takes registrations."""

    resource_name = RESOURCE

    def discover(self) -> list[Device]:
        return placed(a=[0], b=[1])


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        pytest.param(
            "--topology-manager-policy strict",
            2,
            '--topology-manager-policy: "strict" is not known; did you mean "restricted"?',
            id="policy",
        ),
        pytest.param(
            "--topology-manager-policy restricted --topology-manager-scope node",
            2,
            '--topology-manager-scope: "node" is not known; choose from container, pod',
            id="scope",
        ),
        pytest.param(
            "--topology-manager-policy restricted --topology-manager-policy-options max-allowable-numa-nodes=7",
            1,
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
            id="s117-option",
        ),
        pytest.param(
            "--topology-manager-policy-options closest",
            2,
            'topology manager policy options: malformed pair "closest", expect string=string',
            id="option-without-a-value",
        ),
        pytest.param(
            "--topology-manager-policy restricted --fake-numa-nodes 9",
            1,
            "unsupported on machines with more than 8 NUMA Nodes",
            id="s117-nodes",
        ),
        pytest.param("--fake-numa-nodes 0", 2, "wants a number from 1 to 64, found '0'", id="no-nodes"),
    ],
)
async def test_node_says_what_it_cannot_do(plugbay: Plugbay, options: str, code: int, text: str) -> None:
    done = await plugbay("node", "up", "--log-level", "error", *options.split())
    assert (done.code, done.out) == (code, "")
    assert text in done.err


def test_options_name_every_policy_and_scope() -> None:
    assert {kind.value for kind in PolicyKind} == set(POLICIES)
    assert {scope.value for scope in TopologyScope} == set(SCOPES)


async def test_node_takes_a_kubelets_options(plugbay: Plugbay) -> None:
    async with plugbay.node_up(
        "--topology-manager-policy=single-numa-node",
        "--topology-manager-scope=pod",
        "--topology-manager-policy-options=prefer-closest-numa-nodes=true,max-allowable-numa-nodes=9",
        "--fake-numa-nodes=9",
    ):
        assert (await plugbay("node", "get")).code == 0
