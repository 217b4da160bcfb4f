"""A plugin of ours tells an onlooker what a kubelet does not: reasons, paths on the host, when it registered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay import Device, DeviceNode, unhealthy
from plugbay.kubelet.paths import KubeletPaths
from plugbay.observe.joining.node import join
from plugbay.observe.places import places_of
from plugbay.observe.reading.node import read_node
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.view import Witness
from plugbay.ops.clock import SystemClock
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs.http_pages import page_once
from tests.contract.sdk.test_pages import NAME, Things, served


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


async def test_the_page_of_a_plugin_adds_to_the_view(paths: KubeletPaths) -> None:
    made = Things()
    made.devices = [
        Device("a", numa_nodes=[1], device_nodes=[DeviceNode("/dev/a")], health=unhealthy("Burnt", "it smells")),
        Device("b"),
    ]
    async with asyncio.timeout(30), fake_kubelet(paths), served(paths, made) as address:
        await page_once(address, "/readyz", 200)
        places = places_of(paths.root, is_own=False, status_pages=(address,))
        view = join(await read_node(places, now=SystemClock().now(), asking=AllowedCalls.NOTHING))
        listening = {each.name for each in view.sockets if each.is_listening}
    (resource,) = view.resources
    assert (resource.name, resource.capacity, resource.allocatable) == (NAME, 2, 1)
    assert resource.plugin is not None
    assert resource.plugin.state == "streaming"
    assert resource.plugin.socket in listening
    assert resource.plugin.since is not None
    assert resource.plugin.registered is not None
    assert (resource.plugin.registrations, resource.plugin.open_streams, resource.plugin.life) == (1, 1, ())
    burnt, _ = resource.devices
    assert (str(burnt.health), burnt.health.message) == ("Unhealthy: Burnt", "it smells")
    assert (burnt.health.witness, burnt.health.since is not None) == (Witness.PLUGIN, True)
    assert (burnt.numa_nodes, burnt.host_paths) == ((1,), ("/dev/a",))
