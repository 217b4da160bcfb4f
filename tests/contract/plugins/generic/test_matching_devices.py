"""Devices by their properties, on a recorded machine: they come, go, and lose their drivers.

A directory sends no uevents: looks are asked for, as SIGHUP does.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from plugbay.errors import RpcFailed
from plugbay.plugins.generic.config.reading import read_config
from tests.contract.rigs.generic_node import GenericNode, generic_node, unhealthy, until
from tests.sysfs_trees import appear, lay_out, recorded, vanish

CONFIG = read_config(
    """
domain: example.com
devices:
  - name: "{driver}-stick"
    match: {subsystem: tty, bus: usb}
    env: {"SERIAL_${index}": "{path}"}
    health: {driver: true}
""",
    source="generic.yaml",
)
HUB = "/devices/pci0000:00/0000:00:14.0/usb1/1-1"
STICK = f"{HUB}/1-1.2"
STICKS = "example.com/cp210x-stick"


def pull_out(node: GenericNode, path: str) -> None:
    """Take a device away, with all that is below it."""
    for each in reversed(recorded("usb-sticks")):
        if each.path == path or each.path.startswith(f"{path}/"):
            vanish(each, node.root)
    node.source.refresh()


def plug_in(node: GenericNode, path: str) -> None:
    for each in recorded("usb-sticks"):
        if each.path == path or each.path.startswith(f"{path}/"):
            appear(each, node.root)
    node.source.refresh()


async def test_identical_sticks_stay_apart_and_keep_their_ids(sockets: Path) -> None:
    lay_out("usb-sticks", sockets / "machine")
    async with generic_node(sockets, CONFIG) as node:
        plugin = await node.resource(STICKS)
        await until(lambda: len(plugin.devices) == 4)
        known = list(plugin.devices)
        pull_out(node, STICK)
        await until(lambda: list(unhealthy(plugin).values()) == ["Vanished"])
        [gone] = unhealthy(plugin)
        plug_in(node, STICK)
        await until(lambda: not unhealthy(plugin))
        assert list(plugin.devices) == known
        assert gone in known
        assert not plugin.ended.is_set()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")
async def test_a_container_gets_what_the_rules_say(sockets: Path) -> None:
    lay_out("usb-sticks", sockets / "machine")
    for number in range(4):
        node = sockets / f"machine/dev/ttyUSB{number}"
        node.unlink()
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    async with generic_node(sockets, CONFIG) as machine:
        plugin = await machine.resource(STICKS)
        await until(lambda: len(plugin.devices) == 4)
        answer = await plugin.client.allocate(list(plugin.devices))
        assert answer is not None
        assert answer.edits.env == {f"SERIAL_{number}": f"/dev/ttyUSB{number}" for number in range(4)}
        (sockets / "machine/dev/ttyUSB1").unlink()
        with pytest.raises(RpcFailed, match="/dev/ttyUSB1"):
            await plugin.client.allocate(list(plugin.devices))


async def test_a_resource_comes_with_its_first_device(sockets: Path) -> None:
    lay_out("usb-sticks", sockets / "machine")
    async with generic_node(sockets, CONFIG) as node:
        await node.resource(STICKS)
        others = [each for each in node.source.members if each.resource_name == "example.com/ftdi-sio-stick"]
        assert len(others) == 1
        [path] = [each.path for each in recorded("usb-sticks") if each.node == "ttyUSB4"]
        stick = path.partition("/tty")[0].rpartition("/")[0]
        pull_out(node, stick)
        await until(lambda: node.source.members)
        plug_in(node, stick)
        await until(lambda: others[0] in node.source.members)


async def test_a_device_without_its_driver_is_unhealthy_until_it_is_bound(sockets: Path) -> None:
    lay_out("usb-sticks", sockets / "machine")
    config = read_config(
        "domain: example.com\n"
        'devices: [{name: stick, usb: [{vendor: "10c4", product: "ea60"}], health: {driver: true}}]\n',
        source="generic.yaml",
    )
    async with generic_node(sockets, config) as node:
        plugin = await node.resource("example.com/stick")
        await until(lambda: len(plugin.devices) == 4)
        interface = f"{STICK}/1-1.2:1.0"
        uevent = node.root / f"sys{interface}/uevent"
        before = uevent.read_text()
        uevent.write_text("".join(line for line in before.splitlines(True) if not line.startswith("DRIVER=")))
        pull_out(node, f"{interface}/ttyUSB1")  # which is what the driver had made
        await until(lambda: list(unhealthy(plugin).values()) == ["DriverUnbound"])
        uevent.write_text(before)
        plug_in(node, f"{interface}/ttyUSB1")
        await until(lambda: not unhealthy(plugin))
