"""This kernel's own devices: loop devices made and removed, terminals, nodes whose driver comes and goes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, Gifts, HealthRule, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.serving import health
from tests.contract.rigs.generic_node import generic_node, unhealthy, until

LOOP_CTL_ADD = 0x4C80
LOOP_CTL_REMOVE = 0x4C81
ROOT = Path("/")


def config(name: str, *patterns: str, opens: bool = False) -> GenericConfig:
    rules = tuple(PathRule(pattern) for pattern in patterns)
    group = RuleGroup(Paths(rules), health=HealthRule(opens=opens))
    return GenericConfig("generic.yaml", (Entry(name, "example.com", (group,)),))


class LoopNode:
    """A loop device of a number that no other program uses, which comes and goes."""

    def __init__(self) -> None:
        self.number = 100_000 + os.getpid() % 100_000
        self.path = f"/dev/loop{self.number}"
        self._is_there = False

    def come(self) -> None:
        self._ask(LOOP_CTL_ADD)
        self._is_there = True

    def go(self) -> None:
        if self._is_there:
            self._ask(LOOP_CTL_REMOVE)
        self._is_there = False

    def _ask(self, request: int) -> None:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(control, request, self.number)
        finally:
            os.close(control)


@pytest.fixture
def loop() -> Iterator[LoopNode]:
    node = LoopNode()
    try:
        node.come()
    except OSError as error:
        pytest.skip(f"no loop devices can be made: {error}")
    node.go()
    yield node
    node.go()


@pytest.mark.root
@pytest.mark.skipif(not os.access("/dev/loop-control", os.W_OK), reason="makes loop devices")
async def test_a_loop_device_comes_goes_and_comes_back(sockets: Path, loop: LoopNode) -> None:
    async with generic_node(sockets, config("loop", f"{loop.path}*"), root=ROOT) as node:
        plugin = await node.resource("example.com/loop")
        assert await plugin.next_list() == ()
        loop.come()
        await until(lambda: plugin.devices)
        [device] = plugin.devices
        answer = await plugin.client.allocate([DeviceId(device)])
        assert answer is not None
        assert [each.host_path for each in answer.edits.device_nodes] == [loop.path]
        loop.go()
        await until(lambda: unhealthy(plugin) == {device: "Vanished"})
        loop.come()
        await until(lambda: not unhealthy(plugin))
        assert list(plugin.devices) == [device]
        assert node.source.looks.events["uevent"] > 0


async def test_a_terminal_is_healthy_while_its_other_end_is_there(sockets: Path) -> None:
    main, other = pty.openpty()
    try:
        terminal = os.ttyname(other)
        async with generic_node(sockets, config("terminal", terminal, opens=True), root=ROOT) as node:
            plugin = await node.resource("example.com/terminal")
            await until(lambda: plugin.devices and not unhealthy(plugin))
            os.close(other)
            os.close(main)
            await until(lambda: "Vanished" in unhealthy(plugin).values())
            main, other = pty.openpty()
            if os.ttyname(other) == terminal:  # the kernel gives the lowest number that is free
                await until(lambda: not unhealthy(plugin))
    finally:
        os.close(main)
        os.close(other)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")
async def test_a_node_that_does_not_open_is_unhealthy_until_it_does(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "OPENS_EVERY_S", 0.02)
    async with generic_node(sockets, config("thing", "/dev/thing*", opens=True)) as node:
        (node.root / "sys/dev/char").mkdir(parents=True)
        thing = node.root / "dev/thing0"
        os.mknod(thing, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        plugin = await node.resource("example.com/thing")
        await until(lambda: plugin.devices and not unhealthy(plugin))
        _replace(thing, os.makedev(239, 77))
        await until(lambda: list(unhealthy(plugin).values()) == ["OpenFails"])
        _replace(thing, os.makedev(1, 3))
        await until(lambda: not unhealthy(plugin))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")
async def test_a_directory_of_nodes_is_given_by_itself_or_in_cdi_by_what_is_in_it_now(sockets: Path) -> None:
    entries = [
        Entry(name, "example.com", (RuleGroup(Paths((PathRule("/dev/snd"),)), 2, gifts=gifts),), is_shared=True)
        for name, gifts in (("audio", Gifts()), ("audio-cdi", Gifts(cdi_kind="example.com/audio")))
    ]
    sound = sockets / "machine/dev/snd"
    sound.mkdir(parents=True)
    os.mknod(sound / "seq", stat.S_IFCHR | 0o600, os.makedev(116, 1))
    async with generic_node(sockets, GenericConfig("generic.yaml", tuple(entries))) as node:
        registered = [await node.kubelet.next_registration() for _ in entries]
        plugins = {plugin.registration.resource_name: plugin for plugin in registered}
        await until(lambda: all(len(plugin.devices) == 2 for plugin in plugins.values()))
        for name, given in (("example.com/audio", ["/dev/snd"]), ("example.com/audio-cdi", [])):
            answer = await plugins[name].client.allocate(list(plugins[name].devices)[:1])
            assert answer is not None
            assert [each.host_path for each in answer.edits.device_nodes] == given
        os.mknod(sound / "timer", stat.S_IFCHR | 0o600, os.makedev(116, 33))
        await until(lambda: spelt_nodes(sockets / "cdi") == {"/dev/snd/seq", "/dev/snd/timer"})


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")
async def test_cdi_has_what_is_now_at_any_depth_of_a_directory_of_nodes(sockets: Path) -> None:
    group = RuleGroup(Paths((PathRule("/dev/bus/usb"),)), gifts=Gifts(cdi_kind="example.com/usb"))
    bus = sockets / "machine/dev/bus/usb"
    (bus / "001").mkdir(parents=True)
    os.mknod(bus / "001/001", stat.S_IFCHR | 0o600, os.makedev(189, 0))
    rules = GenericConfig("generic.yaml", (Entry("usb", "example.com", (group,)),))
    async with generic_node(sockets, rules) as node:
        plugin = await node.resource("example.com/usb")
        await until(lambda: plugin.devices)
        os.mknod(bus / "001/004", stat.S_IFCHR | 0o600, os.makedev(189, 3))
        await until(lambda: spelt_nodes(sockets / "cdi") == {"/dev/bus/usb/001/001", "/dev/bus/usb/001/004"})
        (bus / "002").mkdir()
        os.mknod(bus / "002/001", stat.S_IFCHR | 0o600, os.makedev(189, 128))
        await until(lambda: "/dev/bus/usb/002/001" in spelt_nodes(sockets / "cdi"))
        (bus / "001/004").unlink()
        await until(lambda: spelt_nodes(sockets / "cdi") == {"/dev/bus/usb/001/001", "/dev/bus/usb/002/001"})


def spelt_nodes(directory: Path) -> set[str]:
    """The container paths of the nodes in the only CDI spec."""
    [file] = directory.glob("*.json")
    devices = json.loads(file.read_text())["devices"]
    return {node["path"] for device in devices for node in device["containerEdits"]["deviceNodes"]}


def _replace(node: Path, number: int) -> None:
    fresh = node.with_name(".fresh")
    os.mknod(fresh, stat.S_IFCHR | 0o600, number)
    fresh.rename(node)
