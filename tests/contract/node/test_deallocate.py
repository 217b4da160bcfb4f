"""PostStopContainer and Deallocate in a pod's life, by the numbers of the proposal's list of tests (spec 12.12).

The manager's part of it, without pods around, is in ``test_releases.py``, ``test_release_admissions.py`` and
``test_release_settings.py``; crashes are in ``test_release_crashes.py``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from plugbay.cli.kubectl.client import DRAIN_PATH, NodeClient
from plugbay.errors import RpcCode
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ReleaseLimits, Unconfirmed
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.releases import ReleaseReason
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin, refusing
from tests.contract.conftest import Plugbay
from tests.contract.rigs.manager import Gate, SleepersClock, bench, never
from tests.contract.rigs.manager import pod as pod_request
from tests.contract.rigs.release import ALL, BOTH, ON, WITHOUT, operations, recorded
from tests.contract.rigs.scenario_nodes import PODS, RESOURCE, Node, container_status, node, plugin, pod

DEADLINE_S = 30
TODAY = [
    ("GetDevicePluginOptions", b""),
    ("ListAndWatch", b""),
    ("Allocate", b"\x0a\x04\x0a\x02g1"),
    ("PreStartContainer", b"\x0a\x02g1"),
]
"""The whole traffic with a plugin about one pod, to the byte, as from a kubelet."""


def one_run(name: str, **spec: Any) -> dict[str, Any]:
    """A pod whose container ends by itself."""
    return pod(name, restart="Never", script="true", **spec)


async def delete(at: Node, name: str, *, grace_s: int = 1) -> None:
    """Ask for a pod's end without waiting for it."""
    await asyncio.to_thread(NodeClient(at.config.root).delete, f"{PODS}/{name}", {"gracePeriodSeconds": str(grace_s)})


async def gone(at: Node, name: str) -> None:
    def look() -> None:
        client = NodeClient(at.config.root)
        with client.watch(PODS) as events:
            if client.find(f"{PODS}/{name}") is not None:  # asked now, or its end could lie between question and watch
                next(each for each in events if each.type == "DELETED" and each.object["metadata"]["name"] == name)  # type: ignore[index]

    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(look)


async def life(at: Node, options: PluginOptions) -> list[tuple[str, bytes]]:
    """Everything a plugin is sent from its registration to the end of a pod."""
    socket = at.config.kubelet_paths.device_plugins / "gopher.sock"
    fake = FakePlugin(RESOURCE, socket, [Device("g1")], options)
    async with recorded(fake) as recording:
        await fake.register(at.config.kubelet_paths.registration_socket)
        await at.create(one_run("p"))
        await at.in_phase("p", "Succeeded")
        await at.delete("p")
        return recording.requests


async def test_nodes_options(plugbay: Plugbay) -> None:
    options = ("--feature-gates", "DeviceManagerDeallocate=true", "--release-wait", "30s")
    async with plugbay.node_up(*options):
        paths = KubeletPaths(plugbay.root)
        socket = paths.device_plugins / "gopher.sock"
        async with fake_plugin(RESOURCE, socket, [Device("g1")], options=BOTH) as gopher:
            await gopher.register(paths.registration_socket)
            given = json.dumps(one_run("p"))
            assert (await plugbay("pod", "apply", "-f", "-", given=given)).code == 0
            await gopher.until_called("Allocate", "PostStopContainer", "Deallocate")


# --- 1 and 2: as it was ---------------------------------------------------------------------------------------------


async def test_01_gate_off_and_plugin_with_both_flags(sockets: Path) -> None:
    async with node(sockets) as n:
        assert await life(n, ALL) == TODAY


async def test_02_gate_on_and_plugin_without_flags(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n:
        assert await life(n, WITHOUT) == TODAY


# --- 3 to 6: order --------------------------------------------------------------------------------------------------


async def test_03_each_call_once_and_in_order(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", "g2", options=ALL) as gopher:
        await n.create(one_run("p"))
        await n.in_phase("p", "Succeeded")
        assert gopher.calls_for_pods == ["Allocate", "PreStartContainer", "PostStopContainer", "Deallocate"]
        [post_stop], [deallocate] = gopher.post_stopped, gopher.deallocated
        assert post_stop.devices == deallocate.devices == ("g1",)
        assert deallocate.reason is ReleaseReason.POD_ENDED
        assert post_stop.operation
        assert deallocate.operation
        assert post_stop.operation != deallocate.operation
        await n.delete("p")
        assert await n.counts() == ("2", "2")
        assert len(gopher.calls_for_pods) == 4


async def test_04_restart_of_a_container(sockets: Path) -> None:
    async with node(sockets, "p", gates=ON) as n, plugin(n, "g1", options=ALL) as gopher:
        await n.create(pod("p"))
        await n.kill_container("p")
        await n.restarted("p", 1)
        once = ["PreStartContainer", "PostStopContainer"]
        assert gopher.calls_for_pods == ["Allocate", *once, "PreStartContainer"]
        await n.kill_container("p")
        await n.until("p", lambda pod: pod["status"]["containerStatuses"][0].get("lastState", {}).get("terminated"))
        await gopher.until_called("Allocate", *once, *once)
        assert len(operations(gopher)[0]) == 2


async def test_04_restart_in_the_strict_setting_waits_for_the_cleaning(sockets: Path) -> None:
    """However long it takes: the container cannot be made, says why, and is tried again (spec 12.5)."""
    strict, clock = ReleaseLimits(on_unconfirmed=Unconfirmed.FAIL), SleepersClock()
    async with (
        node(sockets, "p", gates=ON, release=strict, clock=clock) as n,
        plugin(n, "g1", options=ALL) as gopher,
    ):
        gopher.post_stop_answer = slow = Gate(gopher.post_stop_answer)
        await n.create(pod("p"))
        await n.kill_container("p")
        why = f"device plugin PostStopContainer of {RESOURCE} for container c is not confirmed"
        await clock.sleep_through(60.0)
        await n.until("p", lambda pod: waits_with(pod) == ("CreateContainerConfigError", why))
        assert (await n.event("p", "Failed"))["message"] == f"Error: {why}"
        await clock.until_asleep(60.0)  # the second attempt
        slow.open.set()
        await n.restarted("p", 1)
        assert gopher.calls_for_pods == ["Allocate", "PreStartContainer", "PostStopContainer", "PreStartContainer"]


def waits_with(pod: dict[str, Any]) -> tuple[str, str] | None:
    """Why a pod's container waits."""
    waiting = container_status(pod)["state"].get("waiting")
    return waiting and (waiting["reason"], waiting["message"])


async def test_05_init_and_app_container_share_a_device(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=ALL) as gopher:
        await n.create(one_run("p", init=True))
        await n.in_phase("p", "Succeeded")
        once = ["PreStartContainer", "PostStopContainer"]
        assert gopher.calls_for_pods == ["Allocate", "Allocate", *once, *once, "Deallocate"]
        assert [each.devices for each in gopher.deallocated] == [("g1",)]


async def test_06_sidecar(sockets: Path) -> None:
    """Its device is post-stopped after that of the app container, and deallocated with it."""
    wanted = one_run("p")
    [app] = wanted["spec"]["containers"]
    wanted["spec"]["initContainers"] = [
        {**app, "name": "side", "command": ["sh", "-c", "exec sleep 1000"], "restartPolicy": "Always"}
    ]
    async with node(sockets, gates=ON) as n, plugin(n, "g1", "g2", options=BOTH) as gopher:
        await n.create(wanted)
        await n.in_phase("p", "Succeeded")
        side, app_device = (devices for [devices] in gopher.allocated)
        assert [each.devices for each in gopher.post_stopped] == [(app_device,), (side,)]
        assert [each.devices for each in gopher.deallocated] == [("g1", "g2")]
        assert gopher.calls_for_pods[-1] == "Deallocate"


# --- 8: refused after all -------------------------------------------------------------------------------------------


async def test_08_later_admission_handler_rejects(sockets: Path) -> None:
    refused = one_run("p", nodeName="n1")
    refused["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1000"}
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=ALL) as gopher:
        await n.create(one_run("first"))  # when the scheduler has seen the plugin's list
        await n.in_phase("first", "Succeeded")
        gopher.calls.clear()
        gopher.deallocated.clear()
        await n.create(refused)
        rejected = await n.in_phase("p", "Failed")
        assert rejected["status"]["reason"] == "OutOfcpu"
        assert gopher.calls_for_pods == ["Allocate", "Deallocate"]
        assert [each.reason for each in gopher.deallocated] == [ReleaseReason.ADMISSION_FAILED]
        assert await n.counts() == ("1", "1")


# --- 12 and 15: plugins that hang, users in a hurry ------------------------------------------------------------------


async def test_12_hanging_plugin_delays_an_end_by_the_limit_and_no_other_pod(sockets: Path) -> None:
    limits = ReleaseLimits(wait_s=3)
    async with node(sockets, "other", gates=ON, release=limits) as n, plugin(n, "g1", "g2", options=BOTH) as gopher:
        hang = Gate(refusing(RpcCode.UNAVAILABLE, "still not"))
        gopher.deallocate_answer = hang
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await delete(n, "p")
        async with asyncio.timeout(DEADLINE_S):
            await hang.entered.wait()
        await n.create(pod("other"))
        await n.in_phase("other", "Running")
        await gone(n, "p")
        assert await n.counts() == ("2", "1")
        assert await n.devices() == {"g1": None, "g2": "other"}
        gopher.post_stop_answer = gopher.deallocate_answer = never


async def test_15_force_deletion_waits_for_nothing(sockets: Path) -> None:
    limits = ReleaseLimits(wait_s=600)
    async with node(sockets, gates=ON, release=limits) as n, plugin(n, "g1", options=BOTH) as gopher:
        hang = Gate(refusing(RpcCode.UNAVAILABLE, "never"))
        gopher.deallocate_answer = hang
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await n.delete("p")
        async with asyncio.timeout(DEADLINE_S):
            await hang.entered.wait()
        assert await n.counts() == ("1", "0")


async def test_15_force_deletion_ends_a_wait_under_way(sockets: Path) -> None:
    limits = ReleaseLimits(wait_s=600)
    async with node(sockets, gates=ON, release=limits) as n, plugin(n, "g1", options=BOTH) as gopher:
        hang = Gate(refusing(RpcCode.UNAVAILABLE, "never"))
        gopher.deallocate_answer = hang
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await delete(n, "p")
        async with asyncio.timeout(DEADLINE_S):
            await hang.entered.wait()
        assert "p" in await n.names()
        await delete(n, "p", grace_s=0)
        await gone(n, "p")


async def test_15_eviction(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", "g2", options=ALL) as gopher:
        for name in ("p", "q"):
            await n.create(pod(name))
            await n.in_phase(name, "Running")
        await asyncio.to_thread(NodeClient(n.config.root).create, DRAIN_PATH, {"gracePeriodSeconds": None})
        for name in ("p", "q"):
            await gone(n, name)
        assert sorted(each.devices for each in gopher.deallocated) == [("g1",), ("g2",)]
        assert sorted(each.devices for each in gopher.post_stopped) == [("g1",), ("g2",)]


async def test_15_node_shutdown_leaves_the_call_to_the_next_start(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=BOTH) as gopher:
        hang = Gate(never)
        gopher.deallocate_answer = hang
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await n.delete("p")
        async with asyncio.timeout(DEADLINE_S):
            await hang.entered.wait()
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=BOTH) as later:
        await later.until_called("Deallocate")
        assert operations(later)[1] == operations(gopher)[1]


async def test_device_of_a_pod_that_is_no_more(sockets: Path) -> None:
    """A kubelet ran here and its pod is gone; the node knows of it only by the checkpoint."""
    at_node = KubeletPaths(sockets / "n")
    async with bench(sockets / "k") as kubelet:  # a manager without the feature stands in for it
        await kubelet.plugin("g1", "g2")
        await kubelet.admit(pod_request("theirs"))
    at_node.device_plugins.mkdir(parents=True)
    at_node.checkpoint.write_bytes(kubelet.paths.checkpoint.read_bytes())
    async with node(at_node.root, gates=ON) as n, plugin(n, "g1", "g2", options=BOTH) as gopher:
        await gopher.until_called("Deallocate")
        assert [(each.devices, each.reason) for each in gopher.deallocated] == [(("g1",), ReleaseReason.ORPHANED)]


# --- what people see ------------------------------------------------------------------------------------------------


async def test_devices_being_released_are_shown(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=BOTH) as gopher:
        hang = Gate(refusing(RpcCode.UNAVAILABLE, "never"))
        gopher.deallocate_answer = hang
        await n.create(pod("p"))
        await n.in_phase("p", "Running")
        await n.delete("p")
        async with asyncio.timeout(DEADLINE_S):
            await hang.entered.wait()
        shown: Any = await asyncio.to_thread(NodeClient(n.config.root).get, "/plugbay/v1/devices", {})
        [device] = shown["resources"][0]["devices"]
        assert (device["holder"], device["releasing"]) == (None, True)
        [release] = shown["releases"]
        assert (release["call"], release["deviceIDs"], release["attempts"]) == ("Deallocate", ["g1"], 0)
        assert {release["id"]} == operations(gopher)[1]


async def test_failed_calls_are_events_of_the_pod(sockets: Path) -> None:
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=BOTH) as gopher:
        gopher.post_stop_answer = refusing(RpcCode.NOT_FOUND, "which one?")
        gopher.deallocate_answer = refusing(RpcCode.PERMISSION_DENIED, "no")
        await n.create(one_run("p"))
        stop = await n.event("p", "FailedPostStopDevice")
        assert stop["type"] == "Warning"
        assert stop["involvedObject"]["fieldPath"] == "spec.containers{c}"
        assert stop["message"] == (
            "PostStopContainer of example.com/gopher for g1: rpc error: code = NotFound desc = which one?"
        )
        end = await n.event("p", "FailedDeallocateDevice")
        assert "rpc error: code = PermissionDenied desc = no" in end["message"]


@pytest.mark.parametrize("options", [BOTH, ALL], ids=["without-pre-start", "with-pre-start"])
async def test_container_that_cannot_be_made(sockets: Path, options: PluginOptions) -> None:
    """PostStopContainer is due where PreStartContainer was called."""
    broken = one_run("p")
    broken["spec"]["containers"][0]["command"] = ["/no/such/program"]
    async with node(sockets, gates=ON) as n, plugin(n, "g1", options=options) as gopher:
        await n.create(broken)
        await n.until("p", lambda pod: pod["status"]["phase"] == "Failed")
        wanted = ["PreStartContainer", "PostStopContainer"] if options.pre_start_required else []
        assert gopher.calls_for_pods == ["Allocate", *wanted, "Deallocate"]
