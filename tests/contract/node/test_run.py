"""A whole node in this process: real sockets, a real plugin, real child processes."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.cli.kubectl.exec_channels import CommandEnd
from plugbay.errors import RequestRefused
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.model.ids import DeviceId
from plugbay.node.config import NodeConfig
from plugbay.node.runtimes.chosen import cgroup_prefix
from tests.contract.rigs.node_run import (
    DEADLINE_S,
    PODS,
    RESOURCE,
    Json,
    LeapingClock,
    Node,
    gophers,
    name_of,
    pod,
    root,
    running_node,
)

__all__ = ["root"]


async def test_a_pod_gets_its_device_and_shows_it(root: Path) -> None:
    async with running_node(root) as node, gophers(node, "g1"):
        created = await node.create(pod("gopher-pod", gophers=1))
        assert created["status"]["phase"] == "Pending"
        shown = await node.pod_in("gopher-pod", "Running")
        assert shown["spec"]["nodeName"] == "n1"
        assert shown["status"]["containerStatuses"][0]["containerID"].startswith("process://")
        assert await node.exec("gopher-pod", "sh", "-c", "echo $DEVICES; exit 3") == (b"g1\n", b"", CommandEnd(3))
        devices = await node.get("/plugbay/v1/devices")
        assert devices["resources"][0]["devices"][0]["holder"] == {
            "namespace": "default",
            "pod": "gopher-pod",
            "container": "c",
            "uid": shown["metadata"]["uid"],
        }
        assert devices["pods"][0]["containers"][0]["env"] == {"DEVICES": "g1"}
        await node.gone("gopher-pod")
        assert (await node.get("/plugbay/v1/devices"))["pods"] == []


async def test_a_pod_that_does_not_fit_waits_for_devices(root: Path) -> None:
    async with running_node(root) as node, gophers(node) as plugin:
        await node.create(pod("waits", gophers=1))
        event = await node.event("FailedScheduling", "waits")
        assert event["message"] == (
            "0/1 nodes are available: 1 Insufficient example.com/gopher. "
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        )
        assert event["source"] == {"component": "default-scheduler"}
        plugin.send([Device(DeviceId("g1"))])
        await node.pod_in("waits", "Running")
        node_object = await node.get("/api/v1/nodes/n1")
        assert node_object["status"]["capacity"][RESOURCE] == "1"
        await node.gone("waits", gracePeriodSeconds="0")


async def test_a_deleted_pod_leaves_its_device_to_the_next(root: Path) -> None:
    async with running_node(root) as node, gophers(node, "g1"):
        await node.create(pod("first", gophers=1))
        await node.pod_in("first", "Running")
        await node.create(pod("second", gophers=1))
        await node.event("FailedScheduling", "second")
        await node.gone("first")
        await node.pod_in("second", "Running")
        await node.gone("second")


async def test_a_restarted_node_adopts_its_pods(root: Path) -> None:
    async with running_node(root) as node, gophers(node, "g1"):
        await node.create(pod("stays", gophers=1))
        before = await node.pod_in("stays", "Running")
    async with running_node(root) as node:
        after = await node.pod_in("stays", "Running")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert (await node.get("/api/v1/nodes/n1"))["status"]["allocatable"][RESOURCE] == "0"
        holders = (await node.get("/plugbay/v1/devices"))["resources"][0]["devices"]
        assert [(device["id"], device["holder"]["pod"]) for device in holders] == [("g1", "stays")]
        assert await node.exec("stays", "sh", "-c", "echo $DEVICES") == (b"g1\n", b"", CommandEnd(0))
        events = (await node.get("/api/v1/events", fieldSelector="involvedObject.name=stays"))["items"]
        events.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        # Before them it may have waited for the plugin's first list.
        reasons = [event["reason"] for event in events if event["reason"] != "ImageNotUsed"]
        assert reasons[-3:] == ["Scheduled", "Created", "Started"]
        await node.gone("stays")
        assert not list((root / "containers").iterdir())


@pytest.mark.parametrize("spelling", ["link", "x/../root"])
async def test_a_node_keeps_its_pods_by_whatever_path_it_is_started(root: Path, spelling: str) -> None:
    (root.parent / "x").mkdir()
    (root.parent / "link").symlink_to(root)
    other = root.parent / spelling.replace("root", root.name)
    async with running_node(root) as node, gophers(node, "g1"):
        await node.create(pod("stays", gophers=1))
        before = await node.pod_in("stays", "Running")
        uid = (await node.get("/api/v1/nodes/n1"))["metadata"]["uid"]
    async with running_node(other) as node, gophers(node, "g1"):
        after = await node.pod_in("stays", "Running")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert (await node.get("/api/v1/nodes/n1"))["metadata"]["uid"] == uid
        same = NodeConfig(root)
        assert cgroup_prefix(node.config) == cgroup_prefix(same)
        assert (node.config.containers, node.config.pods) == (same.containers, same.pods)
        await node.create(pod("waits", gophers=1))
        await node.gone("stays")
        await node.pod_in("waits", "Running")
        await node.gone("waits")


_NODE = """
import asyncio, os, sys
from pathlib import Path
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.clock import SystemClock

async def main():
    config = NodeConfig(Path(sys.argv[1]), name="n1")
    ready = lambda: print("ready", flush=True)
    await run_node(config, environ=os.environ, clock=SystemClock(), stop=asyncio.Event(), ready=ready)

asyncio.run(main())
"""


async def test_a_killed_node_finds_its_pods_again(root: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _NODE, str(root), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        killed = Node(NodeConfig(root))
        async with gophers(killed, "g1"):
            await killed.create(pod("survivor", gophers=1))
            before = await killed.pod_in("survivor", "Running")
    finally:
        process.kill()
        await process.wait()
    async with running_node(root) as node:
        after = await node.pod_in("survivor", "Running")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        (device,) = (await node.get("/plugbay/v1/devices"))["resources"][0]["devices"]
        assert (device["id"], device["holder"]["pod"]) == ("g1", "survivor")
        await node.gone("survivor")


async def test_init_containers_run_before_app_containers_and_share_volumes(root: Path) -> None:
    spec: Json = {
        "restartPolicy": "Never",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [
            {
                "name": "first",
                "command": ["sh", "-c", 'echo "$PLUGBAY_MOUNTS"'],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
    }
    async with running_node(root) as node:
        await node.create(pod("p", "sh", "-c", "echo done", **spec))
        ended = await node.pod_in("p", "Succeeded")
        (first,) = ended["status"]["initContainerStatuses"]
        assert first["ready"]
        assert first["state"]["terminated"]["exitCode"] == 0
        (app,) = ended["status"]["containerStatuses"]
        assert app["state"]["terminated"]["reason"] == "Completed"
        assert await node.log("p") == b"done\n"
        assert not (root / "pods" / ended["metadata"]["uid"]).exists()
        await node.gone("p")


async def test_a_pod_bound_by_its_manifest_is_rejected_in_the_kubelets_words(root: Path) -> None:
    async with running_node(root) as node, gophers(node, "g1", "g2"):
        await node.create(pod("holder", gophers=1))
        await node.pod_in("holder", "Running")
        await node.create(pod("too-many", gophers=2, nodeName="n1"))
        failed = await node.pod_in("too-many", "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        text = "requested number of devices unavailable for example.com/gopher. Requested: 2, Available: 1"
        assert failed["status"]["message"] == f"Pod was rejected: Allocate failed due to {text}, which is unexpected"
        assert "containerStatuses" not in failed["status"]
        event = await node.event("UnexpectedAdmissionError", "too-many")
        await node.gone("holder", gracePeriodSeconds="0")
        assert event["message"] == f"Allocate failed due to {text}, which is unexpected"


async def test_the_log_of_the_instance_before_is_kept(root: Path) -> None:
    async with running_node(root) as node:
        await node.create(pod("crashes", "sh", "-c", "echo one; exit 1"))
        waits = await node.until(PODS, lambda _, pod: "CrashLoopBackOff" in str(pod["status"]))
        (status,) = waits["status"]["containerStatuses"]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 1
        assert await node.log("crashes") == b"one\n"
        with pytest.raises(RequestRefused, match="container c of pod crashes is not running"):
            await node.exec("crashes", "true")
        await node.gone("crashes")


async def test_a_command_that_cannot_be_run_says_so(root: Path) -> None:
    async with running_node(root) as node:
        await node.create(pod("p"))
        await node.pod_in("p", "Running")
        out, err, ended = await node.exec("p", "no-such-program")
        assert (out, err, ended.exit_code) == (b"", b"", 126)
        assert "no-such-program" in ended.problem
        await node.gone("p", gracePeriodSeconds="0")


async def test_refusals_are_v1_statuses(root: Path) -> None:
    async with running_node(root) as node:
        await node.create(pod("p", "true", restartPolicy="Never"))
        with pytest.raises(RequestRefused, match='pods "p" already exists'):
            await node.create(pod("p"))
        with pytest.raises(RequestRefused, match='pods "q" not found'):
            await node.get(f"{PODS}/q")
        with pytest.raises(RequestRefused, match=r"spec\.nodeName: names another node"):
            await node.create(pod("r", nodeName="n2"))
        with pytest.raises(RequestRefused, match="container x is not valid for pod p"):
            await node.get(f"{PODS}/p/log", container="x")
        await node.gone("p")


async def test_pod_resources_tell_the_nodes_pods(root: Path) -> None:
    paths = NodeConfig(root).kubelet_paths
    async with (
        running_node(root) as node,
        gophers(node, "g1", "g2"),
        PodResourcesClient(paths.pod_resources_socket) as client,
    ):
        await node.create(pod("holds", gophers=1))
        await node.create(pod("done", "true", restartPolicy="Never", gophers=1))
        await node.pod_in("holds", "Running")
        await node.pod_in("done", "Succeeded")
        (listed,) = await client.list()
        assert (listed.namespace, listed.name) == ("default", "holds")
        assert [each.device_ids for each in listed.containers[0].devices] == [("g1",)]
        assert [each.name for each in await client.list_v1alpha1()] == ["done", "holds"]
        await node.gone("holds")
        assert await client.list() == ()


async def test_the_status_tells_the_health_of_devices(root: Path) -> None:
    """The states that a real kubelet showed: golden ``kubelet-node/17-health-change``; scenarios 133, 135, 136."""

    def shown(pod_object: Any) -> Any:
        (status,) = pod_object["status"]["containerStatuses"]
        (resource,) = status["allocatedResourcesStatus"]
        assert resource["name"] == RESOURCE
        return {each["resourceID"]: each["health"] for each in resource["resources"]}

    def devices(**health: str) -> list[Device]:
        return [
            Device(DeviceId(id), health=HEALTHY if text == "Healthy" else unhealthy("Broken"))
            for id, text in health.items()
        ]

    def says(**health: str) -> Callable[[str, Any], bool]:
        return lambda _, pod_object: shown(pod_object) == health

    async with running_node(root) as node:
        async with gophers(node, "u0", "u1", "u2") as plugin:
            await node.create(pod("a", gophers=2))
            assert shown(await node.pod_in("a", "Running")) == {"u0": "Healthy", "u1": "Healthy"}
            for text in ("Unhealthy", "Healthy"):
                plugin.send(devices(u0=text, u1="Healthy", u2="Healthy"))
                await node.until(PODS, says(u0=text, u1="Healthy"))
            plugin.send(devices(u0="Unhealthy", u1="Unhealthy"))
            await node.until(PODS, says(u0="Unhealthy", u1="Unhealthy"))
            plugin.send(devices(u0="Unhealthy"))
            await node.until(PODS, says(u0="Unhealthy", u1="Healthy"))
        assert shown(await node.get(f"{PODS}/a")) == {"u0": "Unhealthy", "u1": "Healthy"}
        await node.gone("a")


async def test_hooks_and_deadline_with_real_processes(root: Path, tmp_path: Path) -> None:
    touched, left = tmp_path / "started", tmp_path / "left"
    manifest = pod("hooked", activeDeadlineSeconds=600)
    manifest["spec"]["containers"][0] |= {
        "env": [{"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "lifecycle": {
            "postStart": {"exec": {"command": ["sh", "-c", f"echo $UID_OF_POD > {touched}"]}},
            "preStop": {"exec": {"command": ["touch", str(left)]}},
        },
    }
    clock = LeapingClock()
    async with running_node(root, clock) as node:
        await node.create(manifest)
        running = await node.pod_in("hooked", "Running")
        assert touched.read_text().strip() == running["metadata"]["uid"]
        clock.leap(600)
        failed = await node.pod_in("hooked", "Failed")
        assert (failed["status"]["reason"], failed["status"]["message"]) == (
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
        )
        assert left.exists()
        await node.gone("hooked")


async def test_a_pod_that_is_put_again_changes_its_labels_only(root: Path) -> None:
    def put(value: Json) -> Any:
        return node.client.replace(f"{PODS}/{name_of(value)}", value)

    async with running_node(root) as node:
        manifest = pod("kept")
        with pytest.raises(RequestRefused, match='pods "kept" not found') as caught:
            await asyncio.to_thread(put, manifest)
        assert caught.value.reason == "NotFound"
        created = await node.create(manifest)
        running = await node.pod_in("kept", "Running")
        assert created["metadata"]["uid"] == running["metadata"]["uid"]
        same = await asyncio.to_thread(put, manifest)
        assert same["metadata"] == running["metadata"]
        manifest["metadata"]["labels"] = {"app": "gopher"}
        labelled = await asyncio.to_thread(put, manifest)
        assert labelled["metadata"]["labels"] == {"app": "gopher"}
        assert labelled["metadata"]["resourceVersion"] != running["metadata"]["resourceVersion"]
        with pytest.raises(RequestRefused, match=r"spec\.containers\[0\]\.command\[1\]: Forbidden") as caught:
            await asyncio.to_thread(put, pod("kept", "sleep", "2000"))
        assert caught.value.reason == "Invalid"
        with pytest.raises(RequestRefused, match="does not match the name on the URL"):
            await asyncio.to_thread(node.client.replace, f"{PODS}/other", manifest)
        await node.gone("kept")


async def test_after_a_reboot_pods_are_started_again_or_over_as_they_say(root: Path) -> None:
    """Table 4.7 of the device manager's behaviour: nothing runs, and the plugin is not back yet."""

    def reboot() -> None:
        """Kill everything, and have it belong to another boot."""
        for record in (root / "containers").glob("*/process.json"):
            process = json.loads(record.read_text())
            os.killpg(process["process"]["pid"], signal.SIGKILL)
            ended = os.pidfd_open(process["wrapper"]["pid"])
            select.select([ended], [], [], DEADLINE_S)
            os.close(ended)
            (record.parent / "exit.json").unlink()
            record.write_text(json.dumps(process | {"boot_id": "another"}))

    names = ("service", "once", "device")
    async with running_node(root) as node, gophers(node, "g1"):
        await node.create(pod("service"))
        await node.create(pod("once", restartPolicy="Never"))
        await node.create(pod("device", gophers=1))
        before = {name: await node.pod_in(name, "Running") for name in names}
    await asyncio.to_thread(reboot)
    async with running_node(root) as node:
        service = await node.until(PODS, lambda _, each: name_of(each) == "service" and "restartCount': 1" in str(each))
        assert service["metadata"]["uid"] == before["service"]["metadata"]["uid"]
        assert service["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
        once = await node.pod_in("once", "Failed")
        assert once["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
        device = await node.pod_in("device", "Failed")
        assert "no healthy devices present; cannot allocate unhealthy devices" in device["status"]["message"]
        for name in names:
            await node.gone(name, gracePeriodSeconds="0")


async def test_a_name_is_free_again_when_its_pod_is_gone(root: Path) -> None:
    async with running_node(root) as node:
        first = await node.create(pod("p", "sh", "-c", "trap '' TERM; echo deaf; sleep 1000 & wait; sleep 1000"))
        await node.pod_in("p", "Running")
        assert await node.first_words("p") == b"deaf\n"
        with pytest.raises(RequestRefused, match='pods "p" already exists'):
            await node.create(pod("p"))
        await node.delete("p", gracePeriodSeconds="30")
        with pytest.raises(RequestRefused, match='pods "p" already exists'):
            await node.create(pod("p"))
        await node.gone("p", gracePeriodSeconds="0")
        second = await node.create(pod("p"))
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        await node.pod_in("p", "Running")
        await node.gone("p")


async def test_events_tell_of_plugins_and_of_the_health_of_devices(root: Path) -> None:
    events = "/api/v1/namespaces/default/events"

    def tells(reason: str) -> Callable[[str, Any], bool]:
        return lambda _, event: event["reason"] == reason

    async with running_node(root) as node:
        async with gophers(node, "g1", "g2") as plugin:
            registered = await node.until(events, tells("PluginRegistered"))
            assert registered["involvedObject"]["kind"] == "Node"
            plugin.send([Device(DeviceId("g1"), health=unhealthy("Broken")), Device(DeviceId("g2"))])
            failed = await node.until(events, tells("DeviceUnhealthy"))
            assert failed["message"] == f"Device g1 of resource {RESOURCE} is unhealthy: Broken"
            assert failed["type"] == "Warning"
        await node.until(events, tells("PluginStopped"))
        (resource,) = (await node.get("/plugbay/v1/devices"))["resources"]
        assert [(each["health"], each["lastHealth"], each["reason"]) for each in resource["devices"]] == [
            ("Unknown", "Unhealthy", "Broken"),
            ("Unknown", "Healthy", ""),
        ]
