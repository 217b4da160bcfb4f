"""What scripts ask of a node: its devices, and waiting for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin

if TYPE_CHECKING:
    from tests.contract.conftest import Done, Plugbay

DEADLINE_S = 30
RESOURCE = "example.com/gopher"
OTHER = "example.com/other"


@asynccontextmanager
async def gophers(plugbay: Plugbay, *ids: str) -> AsyncIterator[FakePlugin]:
    paths = KubeletPaths(plugbay.root)
    devices = [Device(DeviceId(each)) for each in ids]
    async with fake_plugin(RESOURCE, paths.device_plugins / "gopher.sock", devices) as plugin:
        await plugin.register(paths.registration_socket)
        yield plugin


async def wait(plugbay: Plugbay, condition: str, *options: str) -> Done:
    return await plugbay("node", "wait", f"--for={condition}", *options)


async def test_a_node_is_waited_for_until_it_has_so_many_devices(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        late = "plugbay: error: timed out waiting for the condition on nodes/n1: "
        done = await wait(plugbay, f"resource={RESOURCE}", "--timeout=50ms")
        assert done == (1, "", f"{late}the node has no {RESOURCE}: no plugin has offered it\n")
        async with (
            plugbay.start("node", "wait", f"--for=resource={RESOURCE}=2") as waiting,
            asyncio.timeout(DEADLINE_S),
        ):
            async with gophers(plugbay, "g1", "g2"):
                out, _ = await waiting.communicate()
                assert (waiting.returncode, out) == (0, b"node/n1 condition met\n")
                assert (await wait(plugbay, f"resource={RESOURCE}>=1", "--timeout=0", "node/n1")).code == 0
                done = await wait(plugbay, f"capacity={RESOURCE}=3", "--timeout=50ms")
                assert done == (1, "", f"{late}{RESOURCE} has capacity 2, of which 2 can be allocated\n")
                done = await wait(plugbay, "condition=Ready", "n2")
                assert done == (1, "", 'plugbay: error: nodes "n2" not found\n')
            assert (await wait(plugbay, f"resource={RESOURCE}=0")).code == 0  # its plugin is gone


async def test_a_device_that_turns_unhealthy_ends_a_wait(plugbay: Plugbay) -> None:
    async with plugbay.node_up(), gophers(plugbay, "g1", "g2") as plugin:
        assert (await wait(plugbay, f"resource={RESOURCE}=2")).code == 0
        async with plugbay.start("node", "get", "-w", "-o", "jsonpath={.status.allocatable}{'\\n'}") as watch:
            assert f'"{RESOURCE}":"2"' in (await plugbay.line_with(watch, RESOURCE)).replace(" ", "")
            plugin.send([Device(DeviceId("g1")), Device(DeviceId("g2"), health=unhealthy())])
            assert (await wait(plugbay, f"resource={RESOURCE}=1")).code == 0
            assert f'"{RESOURCE}":"1"' in (await plugbay.line_with(watch, RESOURCE)).replace(" ", "")
        assert (await wait(plugbay, f"capacity={RESOURCE}=2", "--timeout=0")).code == 0


async def test_a_watch_of_the_node_shows_its_cordon(plugbay: Plugbay) -> None:
    async with plugbay.node_up(), plugbay.start("node", "get", "-w") as watch:
        await plugbay.line_with(watch, " Ready ")
        await plugbay("node", "cordon", "n1")
        await plugbay.line_with(watch, "Ready,SchedulingDisabled")


async def test_the_nodes_devices_are_listed_for_people_and_programs(plugbay: Plugbay) -> None:
    devices = ("node", "devices")
    async with plugbay.node_up():
        assert await plugbay(*devices) == (0, "", "No devices found.\n")
        async with gophers(plugbay, "g1", "g2"):
            await wait(plugbay, f"resource={RESOURCE}=2")
            await plugbay("pod", "run", "web", "--resource", f"{RESOURCE}=1", "--", "sleep", "3600")
            await plugbay.until_running("web")
            held, free = (await plugbay(*devices)).rows
            assert held == [RESOURCE, "g1", "Healthy", "<none>", "default/web/web"]
            assert free == [RESOURCE, "g2", "Healthy", "<none>", "<none>"]
            assert (await plugbay(*devices, "-o", "wide")).rows[1][-2:] == ["Live", "gopher.sock"]
            assert (await plugbay(*devices, "-o", "name")).out == f"{RESOURCE}=g1\n{RESOURCE}=g2\n"
            assert (await plugbay(*devices, "-o", "jsonpath={.items[*].id}")).out == "g1 g2"
            first, _ = items(await plugbay(*devices, RESOURCE, "-o", "json"))
            assert (first["resourceName"], first["id"], first["health"]) == (RESOURCE, "g1", "Healthy")
            assert (first["holder"]["pod"], first["plugin"]) == ("web", "Live")
            done = await plugbay(*devices, OTHER)
            assert done == (1, "", f"plugbay: error: the node has no resource {OTHER}: no plugin has offered it\n")


def items(done: Done) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.out)["items"]
    return found


async def test_pages_can_be_had_as_json(plugbay: Plugbay) -> None:
    async with plugbay.node_up(), gophers(plugbay, "g1"):
        await wait(plugbay, f"resource={RESOURCE}=1")
        await plugbay("pod", "run", "web", "--resource", f"{RESOURCE}=1", "--", "sleep", "3600")
        await plugbay.until_running("web")
        node = json.loads((await plugbay("node", "describe", "-o", "json")).out)
        assert (node["node"]["kind"], node["devices"]["resources"][0]["resourceName"]) == ("Node", RESOURCE)
        pod = json.loads((await plugbay("pod", "describe", "web", "-o", "json")).out)
        assert pod["devices"]["containers"][0]["devices"] == [{"resourceName": RESOURCE, "deviceIDs": ["g1"]}]
        assert "Scheduled" in [event["reason"] for event in pod["events"]]


async def test_nodes_and_events_are_selected(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        get = ("node", "get", "-o", "name", "-l")
        assert (await plugbay(*get, "kubernetes.io/os=linux")).out == "node/n1\n"
        assert await plugbay("node", "get", "-l", "kubernetes.io/os=plan9") == (0, "", "No resources found.\n")
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay("pod", "run", "big", "--resource", f"{OTHER}=1", "--", "sleep", "3600")
        await plugbay.until_running("web")
        warnings = ("events", "--types=warning")
        async with plugbay.start(*warnings, "-w") as watch:
            assert "pod/big" in (await plugbay.line_with(watch, "Warning")).lower()
        assert {row[1] for row in (await plugbay(*warnings)).rows} == {"Warning"}
        assert {row[1] for row in (await plugbay("events", "--types=Normal,Warning")).rows} == {"Normal", "Warning"}


@pytest.mark.parametrize("types", ["", "Bad", "Warning,", "Warning Normal"])
async def test_types_of_events_that_are_not_known_are_refused(plugbay: Plugbay, types: str) -> None:
    done = await plugbay("events", f"--types={types}")
    assert done.code == 2
    assert f"wants Normal, Warning or both with a comma between, found {types!r}" in done.err
