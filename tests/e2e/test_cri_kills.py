"""The node, the engine or a sandbox dies under pods on a real containerd: nothing is lost, doubled or left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal

import pytest

from tests.e2e.bench_cri import (
    FUSE,
    Node,
    container,
    pid_of,
    pids,
    pod,
    until_no_sandbox,
    until_running,
)
from tests.e2e.containerd import Containerd, version

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.usefixtures("plugin")
async def test_a_killed_node_adopts_its_pods(node: Node) -> None:
    async with node.up() as first:
        await node.apply(pod("stays", "echo $GOPHER; sleep 1000", **FUSE), pod("waits", "sleep 1000", **FUSE))
        await node.wait("stays", "condition=Ready")
        await node.wait("waits", "condition=Ready")
        before = container(await node.pod("stays"))
        first.kill()
        await first.wait()
    async with node.up():
        await node.wait("stays", "condition=Ready")
        after = container(await node.pod("stays"))
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert len(node.engine.containers()) == 4
        async with node.start("pod", "logs", "-f", "stays") as log:
            assert await node.line_with(log, "f") in ("f0\n", "f1\n")
        assert (await node("pod", "exec", "stays", "--", "true")).code == 0
        (status,) = (await node.pod("stays"))["status"]["podIPs"][:1]
        assert status["ip"].count(".") == 3
        assert "example.com/fuse" in (await node("pod", "describe", "stays")).out


@pytest.mark.parametrize("begun", [1, 3, 6])
async def test_a_node_killed_while_pods_start_starts_each_once(node: Node, begun: int) -> None:
    """``begun``: so many of the engine's containers and sandboxes are there when it is killed."""
    names = [f"p{number}" for number in range(4)]
    async with node.up() as first:
        await node.apply(*(pod(name, "sleep 1000", restart="Never") for name in names))
        await asyncio.to_thread(node.engine.until_containers, begun)
        first.kill()
        await first.wait()
    async with node.up():
        for name in names:
            await node.wait(name, "condition=Ready")
            assert container(await node.pod(name))["restartCount"] == 0
        await until_running(node, 8)  # four pods, each a container and a sandbox
    await asyncio.to_thread(node.engine.end_lost_shims)


@pytest.mark.usefixtures("plugin")
async def test_pods_outlive_the_engine_and_none_is_started_twice(node: Node) -> None:
    async with node.up():
        await node.apply(pod("stays", "sleep 1000", **FUSE), pod("dies", "sleep 1000", **FUSE))
        await node.wait("stays", "condition=Ready")
        await node.wait("dies", "condition=Ready")
        before = container(await node.pod("stays"))
        dying = pid_of(node, await node.pod("dies"))
        about = json.loads((await node("node", "get", "-o", "json")).out)["items"][0]["status"]["nodeInfo"]
        assert about["containerRuntimeVersion"].startswith("containerd://{}.{}.".format(*version()))
        node.engine.kill()
        try:
            await node.apply(pod("later", "sleep 1000"))
            os.kill(dying, signal.SIGKILL)
            await node.wait("stays", "condition=Ready=Unknown")
            assert (await node("node", "get")).rows[0][1] == "NotReady"
            assert "example.com/fuse" in (await node("pod", "describe", "dies")).out, "it keeps its device"
            assert container(await node.pod("dies"))["restartCount"] == 0
        finally:
            await asyncio.to_thread(node.engine.start)
        await node.wait("dies", "jsonpath={.status.containerStatuses[0].restartCount}=1")
        for name in ("stays", "dies", "later"):
            await node.wait(name, "condition=Ready")
        after = container(await node.pod("stays"))
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert (await node("pod", "exec", "stays", "--", "true")).code == 0
        await until_running(node, 6)  # three pods, each a container and a sandbox
        assert (await node("node", "get")).rows[0][1] == "Ready"


async def test_a_pod_whose_sandbox_died_runs_in_a_new_one(node: Node) -> None:
    async with node.up():
        await node.apply(pod("stays", "sleep 1000"))
        await node.wait("stays", "condition=Ready")
        before = await node.pod("stays")
        main = pid_of(node, before)
        (pause,) = set(pids(node).values()) - {main}
        os.kill(pause, signal.SIGKILL)
        await until_no_sandbox(node)  # the engine may see the two ends in any order
        os.kill(main, signal.SIGKILL)
        await node.wait("stays", "jsonpath={.status.containerStatuses[0].restartCount}=1")
        await node.wait("stays", "condition=Ready")
        shown = await node("pod", "exec", "stays", "--", "ip", "address", "show", "eth0")
        after = await node.pod("stays")
        assert after["status"]["podIP"] != before["status"]["podIP"]
        assert f"inet {after['status']['podIP']}/" in shown.out
        assert (
            f"{after['status']['podIP']}\tstays\n"
            in (await node("pod", "exec", "stays", "--", "cat", "/etc/hosts")).out
        )


async def test_what_a_forgotten_pod_left_is_removed_and_nobody_else_is_touched(
    node: Node, engine: Containerd, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Node(tmp_path_factory.mktemp("o"), engine)
    async with other.up(), node.up() as first:
        await other.apply(pod("theirs", "sleep 1000"))
        await node.apply(pod("ours", "trap exit TERM; while true; do sleep 0.1; done"))
        await other.wait("theirs", "condition=Ready")
        await node.wait("ours", "condition=Ready")
        first.kill()
        await first.wait()
        shutil.rmtree(node.root / "state")
        async with node.up():
            await asyncio.to_thread(engine.until_no_more_than, 2)
            assert container(await other.pod("theirs"))["restartCount"] == 0
            await other.wait("theirs", "condition=Ready")
