"""Spec 11.13: pods with devices over restarts of container, plugin and node. Whole nodes, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from plugbay.kernel.watch import watch_paths
from plugbay.model.devices import Device
from plugbay.node import run as runner
from plugbay.testing.fakes.plugin import fake_plugin
from tests.contract.rigs.scenario_nodes import DEADLINE_S, RESOURCE, Node, container_status, node, plugin, pod


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets / "node"


async def test_s139_restarted_container_keeps_its_device(root: Path) -> None:
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.create(pod("p"))
        await n.kill_container("p")
        await n.restarted("p", 1)
        assert await n.devices() == {"a": "p", "b": None}
        assert gophers.allocated == [("a",)]


async def test_s140_node_restarts_and_the_plugin_returns(root: Path) -> None:
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        before = await n.in_phase("p", "Running")
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        after = await n.in_phase("p", "Running")
        assert container_status(after)["containerID"] == container_status(before)["containerID"]
        assert (await n.devices())["a"] == "p"
        assert gophers.allocated == []


async def test_s141_node_restarts_and_the_plugin_stays_away(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    async with node(root, "p") as n:
        await n.in_phase("p", "Running")
        assert await n.counts() == ("0", "0")
        assert await n.devices() == {"a": "p"}


async def test_s142_plugin_restarts_and_everybody_keeps_what_they_have(root: Path) -> None:
    async with node(root, "p", "q") as n:
        async with plugin(n, "a", "b"):
            await n.create(pod("p"))
            await n.in_phase("p", "Running")
        async with plugin(n, "a", "b", socket="again") as gophers:
            await n.kill_container("p")
            await n.restarted("p", 1)
            await n.create(pod("q"))
            await n.in_phase("q", "Running")
            assert await n.devices() == {"a": "p", "b": "q"}
            assert gophers.allocated == [("b",)]


async def test_s143_everything_restarts_and_the_device_stays(root: Path) -> None:
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    async with node(root, "p") as n, plugin(n, "a", "b") as gophers:
        await n.kill_container("p")
        await n.restarted("p", 1)
        assert await n.devices() == {"a": "p", "b": None}
        assert gophers.allocated == []


async def test_s144_pod_that_ended_meanwhile_leaves_its_device(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never"))
        await n.in_phase("p", "Running")
        crash = n
    await crash_while_down(crash)
    async with node(root, "p", "q") as n, plugin(n, "a") as gophers:
        await n.in_phase("p", "Failed")
        await n.create(pod("q"))
        await n.in_phase("q", "Running")
        assert await n.devices() == {"a": "q"}
        assert gophers.allocated == [("a",)]


async def crash_while_down(at: Node) -> None:
    """Returns when the end is recorded too: the wrapper has written it before it ends itself."""
    [record] = at.config.containers.glob("*/process.json")
    processes = json.loads(record.read_text())
    ended = asyncio.Event()
    descriptor = os.pidfd_open(processes["wrapper"]["pid"])
    try:
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        os.kill(processes["process"]["pid"], signal.SIGKILL)
        async with asyncio.timeout(DEADLINE_S):
            await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def test_s145_succeeded_pod_stays_succeeded(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never", script="true"))
        await n.in_phase("p", "Succeeded")
    async with node(root, "p") as n:
        await n.in_phase("p", "Succeeded")
        assert await n.counts() == ("0", "0")


async def test_s147_running_pod_with_a_completed_init_container_is_kept(root: Path) -> None:
    """Kubelet 1.36 rejects it (#124345); docs/differences.md."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", init=True))
        before = await n.in_phase("p", "Running")
    async with node(root, "p") as n:
        after = await n.in_phase("p", "Running")
        assert container_status(after)["containerID"] == container_status(before)["containerID"]
        assert await n.devices() == {"a": "p"}


async def test_s148_pod_whose_container_restarted_before_the_node_did_is_kept(root: Path) -> None:
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.kill_container("p")
        before = await n.restarted("p", 1)
    async with node(root, "p") as n:
        after = await n.restarted("p", 1)
        assert container_status(after)["containerID"] == container_status(before)["containerID"]


async def test_s149_node_that_starts_anew_counts_nothing_of_before(root: Path) -> None:
    """Ours keeps no node object: what no plugin and no store names is not there."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p", restart="Never", script="true"))
        await n.in_phase("p", "Succeeded")
    for store in (root / "state").glob("devices.db*"):
        store.unlink()
    (root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    async with node(root, "p") as n:
        assert await n.counts() == (None, None)


async def test_s150_lost_checkpoint_file_loses_nothing(root: Path) -> None:
    """A kubelet may give the device to another pod; our store is the record. docs/differences.md."""
    async with node(root) as n, plugin(n, "a", "b"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    (root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    async with node(root, "p", "q") as n, plugin(n, "a", "b"):
        await n.create(pod("q"))
        await n.in_phase("q", "Running")
        assert await n.devices() == {"a": "p", "b": "q"}


async def test_s146_reboot_rejects_the_pod_until_its_plugin_is_back(root: Path) -> None:
    """Nothing runs after a reboot; the plugin is not back yet."""
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    await crash_while_down(n)
    reboot(root)
    async with node(root, "p") as n:
        failed = await n.in_phase("p", "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        assert "no healthy devices present" in failed["status"]["message"]


def reboot(root: Path) -> None:
    """Make every record one of another boot."""
    changed = 0
    for record in root.glob("containers/*/*.json"):
        text = record.read_text()
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if boot_id in text:
            record.write_text(text.replace(boot_id, "00000000-0000-0000-0000-000000000000"))
            changed += 1
    assert changed


async def test_crashed_container_outlives_a_restart_if_its_plugin_returns(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 4.7: a kubelet takes about a second before it admits its pods again, and plugins are back by then."""
    monkeypatch.setattr(runner, "PLUGINS_RETURN_S", float(DEADLINE_S))  # beside other tests it may take one longer
    async with node(root) as n, plugin(n, "a"):
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
    await crash_while_down(n)
    paths = n.config.kubelet_paths
    socket = paths.registration_socket

    async def return_with_the_node() -> None:
        async with watch_paths([socket]) as changes:
            while not socket.is_socket():
                await anext(changes)
        async with fake_plugin(RESOURCE, paths.device_plugins / "again.sock", [Device("a")]) as again:
            await again.register(socket)
            await asyncio.Event().wait()

    returning = asyncio.ensure_future(return_with_the_node())
    try:
        async with node(root, "p") as n:
            again = await n.restarted("p", 1)
            assert again["status"]["phase"] == "Running"
    finally:
        returning.cancel()
        await asyncio.wait({returning})
