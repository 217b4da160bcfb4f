"""Commands as processes of their own, against a whole node that runs pods."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import fake_plugin

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 30
RESOURCE = "example.com/gopher"

GOPHER_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: gopher-pod
spec:
  containers:
  - name: gopher
    image: busybox
    command: ["sleep", "3600"]
    resources: {limits: {example.com/gopher: 1}}
"""


async def test_a_pod_is_run_watched_described_and_deleted(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        argv = ["pod", "run", "web", "--env", "COLOR=blue", "--", "sh", "-c", "echo hello; exec sleep 3600"]
        assert await plugbay(*argv) == (0, "pod/web created\n", "")
        await plugbay.until_running("web")

        assert (await plugbay("pod", "get")).rows[0][:4] == ["web", "1/1", "Running", "0"]
        assert (await plugbay("pod", "get", "-A", "-o", "wide")).rows[0][:4] == ["default", "web", "1/1", "Running"]
        assert (await plugbay("pod", "get", "-o", "name")).out == "pod/web\n"
        assert json.loads((await plugbay("pod", "get", "web", "-o", "json")).out)["metadata"]["name"] == "web"
        assert json.loads((await plugbay("pod", "get", "-o", "json")).out)["kind"] == "List"
        page = (await plugbay("pod", "describe", "web")).out
        assert "Name:         web\n" in page
        assert "Successfully assigned default/web to n1" in page

        assert await plugbay("pod", "delete", "web", "--now") == (0, 'pod "web" deleted\n', "")
        assert await plugbay("pod", "get") == (0, "", "No resources found in default namespace.\n")


async def test_an_image_that_is_not_used_is_told(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        note = "Warning: the process runtime uses no images: programs come from this machine, not from alpine\n"
        done = await plugbay("pod", "run", "web", "--image", "alpine", "--", "sleep", "3600")
        assert done == (0, "pod/web created\n", note)
        events = (await plugbay("events", "--types=Warning")).out
        assert "ImageNotUsed" in events
        assert 'Container image "alpine" is not used: the process runtime runs the programs of this machine' in events


async def test_images_of_manifests_are_told_of_once_when_pods_are_made(plugbay: Plugbay) -> None:
    containers = [
        {"name": name, "image": image, "command": ["sleep", "3600"]}
        for name, image in (("a", "alpine"), ("b", "nginx"))
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}}
    async with plugbay.node_up():
        note = "Warning: the process runtime uses no images: programs come from this machine, not from alpine, nginx\n"
        done = await plugbay("pod", "apply", "-f", "-", given=json.dumps(pod))
        assert done == (0, "pod/web created\n", note)
        assert await plugbay("pod", "apply", "-f", "-", given=json.dumps(pod)) == (0, "pod/web unchanged\n", "")


async def test_exec_keeps_streams_apart_and_ends_like_the_command(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--env", "COLOR=blue", "--", "sleep", "3600")
        await plugbay.until_running("web")
        script = "echo $COLOR; echo oops >&2; exit 7"
        done = await plugbay("pod", "exec", "web", "--", "sh", "-c", script)
        assert done == (7, "blue\n", "oops\ncommand terminated with exit code 7\n")
        assert await plugbay("pod", "exec", "web", "--", "true") == (0, "", "")
        done = await plugbay("pod", "exec", "web", "-c", "nope", "--", "true")
        assert done.code == 1
        assert done.err.startswith("plugbay: error: container nope is not valid for pod web")


async def test_exec_ends_quietly_when_its_reader_goes(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
        pipe = asyncio.subprocess.PIPE
        read, write = os.pipe()
        argv = ("pod", "exec", "web", "--", "sh", "-c", "while echo y; do :; done")
        async with plugbay.start(*argv, stdout=write, stderr=pipe) as process:
            os.close(write)
            os.close(read)
            async with asyncio.timeout(DEADLINE_S):
                _, err = await process.communicate()
            assert (process.returncode, err) == (141, b"")


async def test_output_that_cannot_be_written_is_an_error(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        full = os.open("/dev/full", os.O_WRONLY)
        async with plugbay.start("node", "get", stdout=full, stderr=asyncio.subprocess.PIPE) as process:
            os.close(full)
            _, err = await process.communicate()
        assert (process.returncode, err) == (1, b"plugbay: error: input or output failed: No space left on device\n")


async def test_logs_are_shown_whole_in_part_and_as_they_come(plugbay: Plugbay) -> None:
    gate = plugbay.root / "gate"
    os.mkfifo(gate)
    async with plugbay.node_up():
        script = f"echo one; echo two; cat '{gate}'; echo three"
        await plugbay("pod", "run", "talker", "--restart", "Never", "--", "sh", "-c", script)
        await plugbay.until_running("talker")
        async with plugbay.start("pod", "logs", "talker", "-f") as follow:
            await plugbay.line_with(follow, "two")
            assert await plugbay("pod", "logs", "talker") == (0, "one\ntwo\n", "")
            assert await plugbay("pod", "logs", "talker", "--tail", "1") == (0, "two\n", "")
            for option in ("--since=5m", "--since=2500000h"):
                assert await plugbay("pod", "logs", "talker", option) == (0, "one\ntwo\n", "")
            stamped = (await plugbay("pod", "logs", "talker", "--timestamps")).out.splitlines()
            times, words = zip(*(line.split(" ", 1) for line in stamped), strict=True)
            assert words == ("one", "two")
            assert all(datetime.fromisoformat(each).tzinfo for each in times)
            await asyncio.to_thread(gate.write_bytes, b"open\n")
            await plugbay.line_with(follow, "three")
            async with asyncio.timeout(DEADLINE_S):
                assert await follow.wait() == 0


async def test_a_pod_of_two_containers_says_which_one_is_meant(plugbay: Plugbay) -> None:
    manifest = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec:\n  restartPolicy: Never\n  containers:\n"
        "  - {name: a, command: [sleep, '3600']}\n  - {name: b, command: [sleep, '3600']}\n"
    )
    async with plugbay.node_up():
        assert (await plugbay("pod", "run", "-f", "-", given=manifest)).out == "pod/two created\n"
        await plugbay.until_running("two")
        done = await plugbay("pod", "exec", "two", "--", "true")
        assert done == (0, "", 'Defaulted container "a" out of: a, b\n')
        assert await plugbay("pod", "exec", "two", "-c", "b", "--", "true") == (0, "", "")
        assert await plugbay("pod", "logs", "two", "b") == (0, "", "")
        assert "container nope is not valid for pod two" in (await plugbay("pod", "logs", "two", "nope")).err


async def test_a_pod_that_does_not_fit_says_why_in_its_events(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        assert (await plugbay("pod", "run", "-f", "-", given=GOPHER_POD)).out == "pod/gopher-pod created\n"
        async with plugbay.start("events", "--for", "pod/gopher-pod", "-w") as watch:
            line = await plugbay.line_with(watch, "FailedScheduling")
        assert "1 Insufficient example.com/gopher" in line
        assert (await plugbay("pod", "get")).rows[0][:3] == ["gopher-pod", "0/1", "Pending"]
        done = await plugbay("events", "--for", "node/gopher-pod")
        assert done == (0, "", "No events found in default namespace.\n")


async def test_refusals_are_one_sentence_and_exit_code_1(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        refused = {
            ("pod", "run", "web", "--", "true"): 'pods "web" already exists',
            ("pod", "get", "nope"): 'pods "nope" not found',
            ("pod", "describe", "nope"): 'pods "nope" not found',
            ("pod", "exec", "nope", "--", "true"): 'pods "nope" not found',
            ("pod", "logs", "nope"): 'pods "nope" not found',
            ("pod", "delete", "nope"): 'pods "nope" not found',
            ("node", "get", "nope"): 'nodes "nope" not found',
        }
        for argv, sentence in refused.items():
            assert await plugbay(*argv) == (1, "", f"plugbay: error: {sentence}\n")
        done = await plugbay("pod", "delete", "nope", "web", "--grace-period=0")
        assert done == (1, 'pod "web" deleted\n', 'plugbay: error: pods "nope" not found\n')
        assert await plugbay("pod", "delete", "nope", "--ignore-not-found") == (0, "", "")


async def test_the_node_is_listed_and_described(plugbay: Plugbay) -> None:
    manifests = plugbay.root / "manifests"
    manifests.mkdir()
    (manifests / "bad.yaml").write_text("kind: Nothing")
    async with plugbay.node_up("--manifests", str(manifests)):
        assert (await plugbay("node", "get")).rows[0][:2] == ["n1", "Ready"]
        assert json.loads((await plugbay("node", "get", "-o", "json")).out)["items"][0]["metadata"]["name"] == "n1"
        page = (await plugbay("node", "describe")).out
        assert page.startswith("Name:               n1\n")
        assert "\nCapacity:\n" in page
        async with plugbay.start("events", "-w") as events:
            told = await plugbay.line_with(events, "Node/n1")
        assert "bad.yaml" in told
        page = (await plugbay("node", "describe")).out
        _, _, shown = page.partition("\nEvents:\n")
        [event] = [line.split() for line in shown.splitlines() if "bad.yaml" in line]
        assert event[0] == "Warning"
        assert event[1] in told.split()
        assert " ".join(event[4:]) in " ".join(told.split())


async def test_a_node_started_again_without_manifests_ends_their_pods(plugbay: Plugbay) -> None:
    manifests = plugbay.root / "manifests"
    manifests.mkdir()
    (manifests / "web.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, command: [sleep, '3600']}]}\n"
    )
    async with plugbay.node_up("--manifests", str(manifests)) as node:
        async with plugbay.start("pod", "get", "-w") as watch:
            await plugbay.line_with(watch, " Running ")
        await plugbay.stop(node)
    async with plugbay.node_up():
        assert (await plugbay("pod", "wait", "--for=delete", "web-n1")).code == 0


async def test_devices_are_shown_with_their_holder(plugbay: Plugbay) -> None:
    paths = KubeletPaths(plugbay.root)
    async with plugbay.node_up():
        devices = [Device(DeviceId("g1")), Device(DeviceId("g2"), health=unhealthy())]
        async with fake_plugin(RESOURCE, paths.device_plugins / "gopher.sock", devices) as plugin:
            await plugin.register(paths.registration_socket)
            await plugbay("pod", "run", "-f", "-", given=GOPHER_POD)
            await plugbay.until_running("gopher-pod")
            assert (await plugbay("pod", "get", "-o", "wide")).rows[0][-1] == f"{RESOURCE}=g1"
            assert (await plugbay("node", "get")).rows[0][-3:] == [RESOURCE, "1", "2"]
            page = [line.split() for line in (await plugbay("node", "describe")).out.splitlines()]
            assert ["g1", RESOURCE, "Healthy", "<none>", "default/gopher-pod/gopher"] in page
            assert ["g2", RESOURCE, "Unhealthy", "<none>", "<none>"] in page
            page = [line.split() for line in (await plugbay("pod", "describe", "gopher-pod")).out.splitlines()]
            assert [f"{RESOURCE}:", "g1", "(Healthy)"] in page
            await plugbay("pod", "delete", "gopher-pod", "--grace-period=0")


async def test_a_drained_node_is_empty_and_takes_pods_again_when_it_is_told(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        for name in ("a", "b"):
            await plugbay("pod", "run", name, "-n", "lab", "--", "sleep", "3600")
        await plugbay("pod", "wait", "-n", "lab", "--for=condition=Ready", "--all")
        done = await plugbay("node", "drain", "n1", "--grace-period=1")
        assert (done.code, done.err) == (0, "")
        cordoned, first, second, *evicted, drained = done.out.splitlines()
        assert (cordoned, drained) == ("node/n1 cordoned", "node/n1 drained")
        assert [first, second] == ["evicting pod lab/a", "evicting pod lab/b"]
        assert sorted(evicted) == ["pod/a evicted", "pod/b evicted"]
        assert (await plugbay("node", "get")).rows[0][1] == "Ready,SchedulingDisabled"
        assert ["Unschedulable:", "true"] in [
            line.split() for line in (await plugbay("node", "describe")).out.splitlines()
        ]

        await plugbay("pod", "run", "waits", "--", "sleep", "3600")
        async with plugbay.start("events", "--for", "pod/waits", "-w") as events:
            assert "unschedulable" in await plugbay.line_with(events, "FailedScheduling")
        assert (await plugbay("node", "cordon", "n1")).out == "node/n1 already cordoned\n"
        assert (await plugbay("node", "uncordon", "n1")).out == "node/n1 uncordoned\n"
        await plugbay.until_running("waits")
        assert (await plugbay("node", "uncordon", "n1")).out == "node/n1 already uncordoned\n"


async def test_a_drain_that_takes_too_long_says_which_pod_is_left(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        stubborn = "trap '' TERM; echo deaf; while true; do sleep 1; done"
        await plugbay("pod", "run", "a", "--", "sh", "-c", stubborn)
        await plugbay.until_running("a")
        async with plugbay.start("pod", "logs", "-f", "a") as logs:
            await plugbay.line_with(logs, "deaf")
        done = await plugbay("node", "drain", "n1", "--timeout=200ms")
        assert (done.code, done.out) == (1, "node/n1 cordoned\nevicting pod default/a\n")
        assert done.err == "plugbay: error: pod default/a has not ended within 0.2 s\n"
        done = await plugbay("node", "drain", "n2")
        assert done == (1, "", 'plugbay: error: nodes "n2" not found\n')


async def test_a_second_node_on_the_same_root_is_refused(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        done = await plugbay("node", "up")
        assert (done.code, done.out) == (1, "")
        assert done.err == f"plugbay: error: another plugbay node (pid {node.pid}) is running on {plugbay.root}\n"
        assert (await plugbay("node", "get")).code == 0


async def test_a_stopped_node_leaves_its_pods_running(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
        before = json.loads((await plugbay("pod", "get", "web", "-o", "json")).out)["status"]["containerStatuses"]
        node.terminate()
        await plugbay.line_with(node, "its pods go on")
        async with asyncio.timeout(DEADLINE_S):
            assert await node.wait() == 0
        assert (await plugbay("pod", "get")).code == 1
    async with plugbay.node_up():
        await plugbay.until_running("web")
        after = json.loads((await plugbay("pod", "get", "web", "-o", "json")).out)["status"]["containerStatuses"]
        assert after == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_node_stops_in_order_by_any_of_these_signals(plugbay: Plugbay, number: signal.Signals) -> None:
    async with plugbay.node_up() as node:
        node.send_signal(number)
        await plugbay.line_with(node, "node stopped; its pods go on")
        assert await asyncio.wait_for(node.wait(), DEADLINE_S) == 0


async def test_a_node_ends_well_when_its_terminal_closes(plugbay: Plugbay) -> None:
    """The kernel tells it, the shell may tell it once more, and nothing can be written any more."""
    terminal, its_end = os.openpty()
    on_terminal = ("setsid", "--ctty", sys.executable, "-m", "plugbay", "--root", str(plugbay.root), "node", "up")
    node = await asyncio.create_subprocess_exec(*on_terminal, stdin=its_end, stdout=its_end, stderr=its_end)
    os.close(its_end)
    try:
        async with asyncio.timeout(DEADLINE_S):
            said = b""
            while b"SIGTERM or Ctrl-C stops" not in said:
                said += await asyncio.to_thread(os.read, terminal, 4096)
            os.close(terminal)
            node.send_signal(signal.SIGHUP)
            assert await node.wait() == 0
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    assert not (plugbay.root / "plugbay.sock").exists()


async def test_a_node_that_was_told_to_ignore_its_terminal_goes_on(plugbay: Plugbay) -> None:
    ignoring = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    argv = (*ignoring, sys.executable, "-m", "plugbay", "--root", str(plugbay.root), "node", "up", "--name", "n1")
    node = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        await plugbay.line_with(node, "SIGTERM or Ctrl-C stops")
        node.send_signal(signal.SIGHUP)
        assert (await plugbay("node", "get", "-o", "name")).out == "node/n1\n"
        await plugbay.stop(node)
    finally:
        if node.returncode is None:
            node.kill()
        await node.communicate()


async def test_a_watch_ends_by_ctrl_c_and_by_the_nodes_end(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        pipe = asyncio.subprocess.PIPE
        async with (
            plugbay.start("pod", "get", "-w", stderr=pipe) as interrupted,
            plugbay.start("pod", "get", "-w", stderr=pipe) as cut,
        ):
            await plugbay.line_with(interrupted, "web")
            await plugbay.line_with(cut, "web")
            async with asyncio.timeout(DEADLINE_S):
                interrupted.send_signal(signal.SIGINT)
                _, err = await interrupted.communicate()
                assert (interrupted.returncode, err) == (130, b"")
                await plugbay("pod", "delete", "web", "--grace-period=0")
                await plugbay.stop(node)
                _, err = await cut.communicate()
                assert cut.returncode == 1
                assert err.startswith(b"plugbay: error: no plugbay node answers at ")
