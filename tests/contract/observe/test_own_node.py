"""A node of ours as an onlooker sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.model.devices import Device
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.observe.exporting.series import node_metrics
from plugbay.observe.following import followed
from plugbay.observe.joining.node import join
from plugbay.observe.places import is_own_root, places_of
from plugbay.observe.reading.node import read_node
from plugbay.observe.view import ObservedNode, PluginView, Witness
from plugbay.ops.clock import SystemClock
from tests.contract.observe.test_export import OWN
from tests.contract.rigs.node_run import RESOURCE, gophers, pod, root, running_node

__all__ = ["root"]


async def test_our_node_tells_the_life_of_a_plugin(root: Path) -> None:
    places = places_of(root, is_own=True)

    registered_s: list[object] = []

    async def plugin_with(open_streams: int, steps: int) -> PluginView:
        while True:
            view = join(await read_node(places, now=SystemClock().now()))
            for resource in view.resources:
                plugin = resource.plugin
                if plugin is not None and (plugin.open_streams, len(plugin.life)) == (open_streams, steps):
                    registered_s[:] = _values(view, "plugbay_node_plugin_registered_timestamp_seconds")
                    return plugin
            await asyncio.sleep(0.02)

    async with asyncio.timeout(40), running_node(root) as node:
        async with gophers(node, "g1"):
            await plugin_with(1, 2)
        plugin = await plugin_with(0, 3)
        assert plugin.life[-1].text == "its stream ended"
        assert plugin.registered == plugin.life[0].at
        assert registered_s == [plugin.life[0].at.timestamp()]
        async with gophers(node, "g1"):
            plugin = await plugin_with(1, 5)
        assert plugin.registrations == 2
        assert plugin.registered == plugin.life[3].at
        assert [each.at for each in plugin.life] == sorted(each.at for each in plugin.life)


def _values(view: ObservedNode, name: str) -> list[object]:
    return [value for metric in node_metrics(view).metrics if metric.name == name for _, value in metric.samples]


async def test_our_node_tells_holders_reasons_and_refused_pods(root: Path) -> None:
    places = places_of(root, is_own=True)

    async def read() -> ObservedNode:
        return join(await read_node(places, now=SystemClock().now()))

    async with asyncio.timeout(40), running_node(root) as node, gophers(node, "g1", "g2") as plugin:
        assert is_own_root(root)
        owners = [{"apiVersion": "v1", "kind": "Thing", "name": "boss", "uid": "o1", "controller": True}]
        manifest = pod("holder", gophers=1)
        manifest["metadata"]["ownerReferences"] = owners
        await node.create(manifest)
        shown = await node.pod_in("holder", "Running")
        await node.create(pod("too-many", gophers=9, nodeName="n1"))
        await node.pod_in("too-many", "Failed")
        plugin.send([Device(DeviceId("g1"), health=unhealthy("Burnt")), Device(DeviceId("g2"))])
        async for view in followed(read, places):
            (resource,) = view.resources
            if (resource.capacity, resource.allocatable) == (2, 1) and not any(
                device.disagreements for device in resource.devices
            ):
                break
        (holder,) = resource.devices[0].holders
        assert str(resource.devices[0].health) == "Unhealthy: Burnt"
        assert (str(holder), holder.uid) == ("default/holder/c", shown["metadata"]["uid"])
        assert holder.requested_by == "Thing/boss"
        assert holder.since is not None
        assert holder.witnesses >= {Witness.NODE, Witness.POD_RESOURCES}
        assert (resource.name, resource.free, view.problems) == (RESOURCE, 1, ())
        assert resource.plugin is not None
        assert resource.plugin.state == "Live"
        assert (resource.plugin.registrations, resource.plugin.open_streams) == (1, 1)
        assert [(each.text, each.socket) for each in resource.plugin.life] == [
            ("registered", resource.plugin.socket),
            ("sent its first list", resource.plugin.socket),
        ]
        assert [(each.name, each.is_listening) for each in view.sockets if "gopher" in each.name] == [
            (resource.plugin.socket, True)
        ]
        assert sum((view.rejections or {}).values()) == 1
        assert view.name == "n1"
        (rejected,) = view.rejected
        assert (rejected.namespace, rejected.pod) == ("default", "too-many")
        assert rejected.reason == "UnexpectedAdmissionError"
        assert "Requested: 9, Available: 1" in rejected.message
        assert rejected.at is not None
        labels = {metric.name: [set(labels) for labels, _ in metric.samples] for metric in node_metrics(view).metrics}
        for name, expected in OWN.items():
            assert all(found == expected for found in labels[name])
        assert labels["plugbay_node_plugin_registered_timestamp_seconds"]
        assert labels["plugbay_node_admission_failures_total"]
        assert not labels["plugbay_node_cpus"]
        await node.gone("holder", gracePeriodSeconds="0")
        async for view in followed(read, places):
            if not view.resources[0].allocated:
                break
