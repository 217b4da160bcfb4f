"""The devices of the kernel that runs the tests: made, renamed, removed, and told of by uevents. Nothing stays."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from plugbay.kernel.uevent import Uevent, Uevents, open_uevents
from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.config.rules import (
    AllOf,
    Entry,
    GenericConfig,
    HealthRule,
    Interfaces,
    Match,
    RuleGroup,
    Where,
)
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.testing.fakes.kubelet import RegisteredPlugin
from plugbay.testing.fakesysfs.machine import FakeSysfs
from tests.contract.rigs.generic_node import generic_node, unhealthy
from tests.contract.rigs.made_devices import CONTROL, NUMBER, ip_link, loop_device, veth

DEADLINE_S: Final = 30
LOOP: Final = f"loop{NUMBER}"
BLOCK: Final = SysPath(f"/devices/virtual/block/{LOOP}")
NAMES: Final = tuple(f"pb{end}{os.getpid() % 100_000}" for end in "abc")


def machine() -> SysMachine:
    return SysMachine(Path("/sys"), Path("/dev"))


@asynccontextmanager
async def listening() -> AsyncIterator[Uevents]:
    try:
        async with asyncio.timeout(DEADLINE_S), open_uevents() as uevents:
            yield uevents
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT):
            raise
        pytest.skip(f"no uevents here: {error}")


async def until(uevents: Uevents, found: SysMachine, action: str, path: str) -> frozenset[SysPath]:
    """The changes up to an event; other tests and the machine itself have theirs."""
    changed: set[SysPath] = set()
    async for event in uevents:
        if isinstance(event, Uevent):
            changed |= found.apply(event)
            if (event.action, event.path) == (action, path):
                break
    return frozenset(changed)


@pytest.mark.parametrize(
    ("node", "name", "number"),
    [("/dev/fuse", "fuse", (10, 229)), ("/dev/net/tun", "tun", (10, 200)), ("/dev/kvm", "kvm", (10, 232))],
)
def test_nodes_of_capabilities_are_devices(node: str, name: str, number: tuple[int, int]) -> None:
    if not Path(node).exists():
        pytest.skip(f"{node} is not there")
    device = machine().by_node(node)
    assert device is not None
    assert (device.name, device.number, device.node, device.is_block) == (name, number, node, False)
    assert machine().identity(device) == f"virtual:misc/{name}"


def test_every_device_has_an_identity_of_its_own_and_its_node() -> None:
    found = machine()
    devices = found.all()
    assert devices
    identities = [found.identity(device) for device in devices]
    assert len(set(identities)) == len(identities)
    for device in devices:
        assert found.facts(device)
        if device.subsystem in ("mem", "misc", "tty") and os.path.exists(device.node):  # others come and go in tests
            rdev = os.stat(device.node).st_rdev
            assert device.number == (os.major(rdev), os.minor(rdev))
            assert found.by_node(device.node) == machine().by_node(device.node) == device


def test_a_pair_of_terminals_is_no_device_of_sysfs() -> None:
    """The master's node is one; the other end lives in a file system of its own."""
    try:
        master, slave = os.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be made here: {error}")
    try:
        pts = os.ttyname(slave)
        assert stat.S_ISCHR(os.stat(pts).st_mode)
        assert machine().by_node(pts) is None
        assert machine().by_node("/dev/ptmx") is not None
    finally:
        os.close(master)
        os.close(slave)


async def test_a_loop_device_comes_and_goes_with_uevents() -> None:
    if not CONTROL.exists():
        pytest.skip("there are no loop devices")
    async with listening() as uevents:
        found = machine()
        assert BLOCK not in {each.path for each in found.devices_of("block")}
        with loop_device():
            assert BLOCK in await until(uevents, found, "add", BLOCK)
            device = found.device(BLOCK)
            assert device is not None
            assert (device.node, device.is_block, device.devtype) == (f"/dev/{LOOP}", True, "disk")
            assert device in found.devices_of("block")
            assert found.by_node(f"/dev/{LOOP}") == device
            assert found.identity(device) == f"virtual:block/{LOOP}"
        assert BLOCK in await until(uevents, found, "remove", BLOCK)
        assert found.device(BLOCK) is None
        assert found.by_node(f"/dev/{LOOP}") is None
    assert not Path(f"/dev/{LOOP}").exists()


def test_a_comparison_finds_a_loop_device_without_uevents() -> None:
    if not CONTROL.exists():
        pytest.skip("there are no loop devices")
    found = machine()
    assert BLOCK not in {each.path for each in found.devices_of("block")}
    with loop_device():
        assert BLOCK in found.refresh()
        assert BLOCK in {each.path for each in found.devices_of("block")}
    assert BLOCK in found.refresh()
    assert BLOCK not in {each.path for each in found.devices_of("block")}


@pytest.mark.skipif(shutil.which("ip") is None or os.geteuid() != 0, reason="needs root and ip")
async def test_an_interface_is_renamed_and_keeps_one_place() -> None:
    async with listening() as uevents:
        found = machine()
        assert found.devices_of("net")
        here, there, later = (SysPath(f"/devices/virtual/net/{name}") for name in NAMES)
        with veth(NAMES[0], NAMES[1]):
            await until(uevents, found, "add", here)
            if found.device(there) is None:
                await until(uevents, found, "add", there)
            device = found.device(here)
            assert device is not None
            assert (device.node, device.subsystem) == ("", "net")
            assert found.identity(device) == f"virtual:net/{NAMES[0]}"
            ip_link("set", NAMES[0], "name", NAMES[2])
            assert {here, later} <= await until(uevents, found, "move", later)
            assert found.device(here) is None
            assert {there, later} <= {each.path for each in found.devices_of("net")}
        await until(uevents, found, "remove", there)
        if found.device(later) is not None:
            await until(uevents, found, "remove", later)
        assert not {here, there, later} & {each.path for each in found.devices_of("net")}


def rules(what: Match | Interfaces, *, grace_s: float = 0.0) -> GenericConfig:
    group = RuleGroup(what, health=HealthRule(grace_s=grace_s))
    return GenericConfig("generic.yaml", (Entry("made", "example.com", (group,)),))


async def listed(plugin: RegisteredPlugin, count: int) -> list[DeviceId]:
    """Wait for a list of this length."""
    async with asyncio.timeout(DEADLINE_S):
        while len(plugin.devices) != count:
            await plugin.next_list()
    return sorted(plugin.devices)


async def until_vanished(plugin: RegisteredPlugin) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while list(unhealthy(plugin).values()) != ["Vanished"]:
            await plugin.next_list()


async def test_a_loop_device_is_offered_while_it_is_there(sockets: Path) -> None:
    if not CONTROL.exists():
        pytest.skip("there are no loop devices")
    config = rules(Match(AllOf((Where("subsystem", ("block",)), Where("name", (LOOP,))))))
    async with generic_node(sockets, config, root=Path("/")) as node:
        plugin = await node.resource("example.com/made")
        assert await listed(plugin, 0) == []
        with loop_device():
            [device] = await listed(plugin, 1)
            answer = await plugin.client.allocate([device])
            assert answer is not None
            assert [each.host_path for each in answer.edits.device_nodes] == [f"/dev/{LOOP}"]
        await until_vanished(plugin)  # and listed for a while, as a pod may have it


@pytest.mark.skipif(shutil.which("ip") is None or os.geteuid() != 0, reason="needs root and ip")
async def test_an_interface_is_offered_under_the_name_it_has(sockets: Path) -> None:
    config = rules(Interfaces(Where("name", (f"{NAMES[0]}", f"{NAMES[2]}"))))
    async with generic_node(sockets, config, root=Path("/")) as node:
        plugin = await node.resource("example.com/made")
        assert await listed(plugin, 0) == []
        with veth(NAMES[0], NAMES[1]):
            [before] = await listed(plugin, 1)
            ip_link("set", NAMES[0], "name", NAMES[2])
            async with asyncio.timeout(DEADLINE_S):
                while list(plugin.devices) in ([], [before]):
                    await plugin.next_list()
            assert len(plugin.devices) == 1
        assert await listed(plugin, 0) == []


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="needs root and unshare")
async def test_an_interface_that_moved_into_its_pod_is_well(sockets: Path) -> None:
    config = rules(Interfaces(Where("name", NAMES[:2])), grace_s=60)
    with veth(NAMES[1], NAMES[0]):
        async with generic_node(sockets, config, root=Path("/")) as node:
            plugin = await node.resource("example.com/made")
            taken, other = await listed(plugin, 2)
            answer = await plugin.client.allocate([taken])
            assert answer is not None
            pod = await asyncio.create_subprocess_exec("unshare", "-n", "sleep", "inf")
            try:
                await in_own_network(pod.pid)
                name = node.source.members[0].offered.units[taken].interfaces[0]  # type: ignore[attr-defined]
                ip_link("set", name, "netns", str(pod.pid))
                ip_link("set", *(set(NAMES[:2]) - {name}), "netns", str(pod.pid))
                async with asyncio.timeout(DEADLINE_S):
                    while not unhealthy(plugin):
                        await plugin.next_list()
                assert unhealthy(plugin) == {other: "Vanished"}
                assert taken in plugin.devices
            finally:
                pod.kill()
                await pod.wait()


async def test_interfaces_of_another_network_are_looked_for(sockets: Path) -> None:
    config = rules(Interfaces(Where("name", ("fast0",))))
    async with generic_node(sockets, config) as node:  # its sysfs does not show the network of this process
        sysfs = FakeSysfs(node.root)
        sysfs.virtual("net", "other0")
        node.look_again()
        plugin = await node.resource("example.com/made")
        assert await listed(plugin, 0) == []
        sysfs.virtual("net", "fast0")
        assert len(await listed(plugin, 1)) == 1


async def in_own_network(pid: int) -> None:
    """Wait until a process has left this network namespace."""
    async with asyncio.timeout(DEADLINE_S):
        while os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)
