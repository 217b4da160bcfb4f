"""Devices that come, go and change while they are served, on a machine of files."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.cdi.directories import save
from plugbay.cdi.spec import Edits, Spec, SpecDevice, SpecDeviceNode
from plugbay.errors import InvalidDocument, RpcFailed
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, Gifts, HealthRule, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.selecting.ids import id_of_paths
from plugbay.plugins.generic.serving import absent, vanishing
from plugbay.sdk.process import recent_allocations
from plugbay.testing.fakes.kubelet import RegisteredPlugin
from plugbay.wire.convert import edits_to_pb
from tests.contract.rigs.generic_node import GenericNode, generic_node, unhealthy, until

TTY = "example.com/tty"


def entry(name: str, *patterns: str, count: int = 1, grace_s: float = 60.0) -> Entry:
    rules = tuple(PathRule(pattern, takes_any_file=True) for pattern in patterns)
    return Entry(name, "example.com", (RuleGroup(Paths(rules), count=count, health=HealthRule(grace_s=grace_s)),))


def config(*entries: Entry) -> GenericConfig:
    return GenericConfig("generic.yaml", entries)


TTYS = config(entry("tty", "/dev/ttyUSB*"))


def edits_of(*paths: str) -> bytes:
    """The answer to an Allocate as a kubelet keeps it."""
    edits = ContainerEdits(device_nodes=tuple(map(DeviceNode, paths)))
    return edits_to_pb(edits).SerializeToString()


async def paths_of(plugin: RegisteredPlugin) -> list[str]:
    """The host paths that containers get with the devices."""
    paths = []
    for device in list(plugin.devices):
        answer = await plugin.client.allocate([device])
        assert answer is not None
        paths += [node.host_path for node in answer.edits.device_nodes]
    return sorted(paths)


async def test_devices_are_listed_and_given(sockets: Path) -> None:
    async with generic_node(sockets, TTYS, "/dev/ttyUSB0", "/dev/ttyUSB1", "/dev/ttyS0") as node:
        plugin = await node.resource(TTY)
        await until(lambda: len(plugin.devices) == 2)
        assert await paths_of(plugin) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]


async def test_a_new_device_is_listed_over_the_same_stream(sockets: Path) -> None:
    async with generic_node(sockets, TTYS) as node:
        plugin = await node.resource(TTY)
        assert await plugin.next_list() == ()
        node.add("/dev/ttyUSB0")
        await until(lambda: len(plugin.devices) == 1)
        node.add("/dev/ttyUSB1")
        await until(lambda: len(plugin.devices) == 2)
        assert not plugin.ended.is_set()
        assert await paths_of(plugin) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]


async def test_a_device_that_vanishes_is_unhealthy_until_it_is_back(sockets: Path) -> None:
    async with generic_node(sockets, TTYS, "/dev/ttyUSB0", "/dev/ttyUSB1") as node:
        plugin = await node.resource(TTY)
        await until(lambda: len(plugin.devices) == 2)
        known = set(plugin.devices)
        node.remove("/dev/ttyUSB1")
        await until(lambda: list(unhealthy(plugin).values()) == ["Vanished"])
        assert set(plugin.devices) == known
        node.add("/dev/ttyUSB1")
        await until(lambda: not unhealthy(plugin))
        assert set(plugin.devices) == known


async def test_after_its_grace_time_it_is_not_listed(sockets: Path) -> None:
    rules = config(entry("tty", "/dev/ttyUSB*", grace_s=0.05))
    async with generic_node(sockets, rules, "/dev/ttyUSB0") as node:
        plugin = await node.resource(TTY)
        await until(lambda: plugin.devices)
        node.remove("/dev/ttyUSB0")
        await until(lambda: not plugin.devices)
        assert not plugin.ended.is_set()


async def test_a_device_that_a_pod_holds_stays_listed(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vanishing, "HELD_AGAIN_S", 0.05)
    rules = config(entry("tty", "/dev/ttyUSB*", grace_s=0.05))
    async with generic_node(sockets, rules, "/dev/ttyUSB0", "/dev/ttyUSB1") as node:
        plugin = await node.resource(TTY)
        await until(lambda: len(plugin.devices) == 2)
        held, _ = list(plugin.devices)
        checkpoint = node.kubelet.paths.checkpoint
        given = PodDevicesEntry("pod", "main", TTY, {-1: [held]})
        checkpoint.write_bytes(encode(CheckpointData([given])))
        node.remove("/dev/ttyUSB0")
        node.remove("/dev/ttyUSB1")
        await until(lambda: list(plugin.devices) == [held])
        assert unhealthy(plugin) == {held: "Vanished"}
        checkpoint.write_bytes(encode(CheckpointData([])))
        await until(lambda: not plugin.devices)
        assert not plugin.ended.is_set()


async def test_a_device_that_vanished_while_no_plugin_ran_is_listed(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent, "HELD_AGAIN_S", 0.05)
    checkpoint = KubeletPaths(sockets / "k").checkpoint
    checkpoint.parent.mkdir(parents=True)
    gone, there = id_of_paths(0, ["/dev/ttyUSB0"]), id_of_paths(0, ["/dev/ttyUSB1"])
    given = PodDevicesEntry("pod", "main", TTY, {-1: [gone, there]}, edits_of("/dev/ttyUSB0", "/dev/ttyUSB1"))
    checkpoint.write_bytes(encode(CheckpointData([given])))
    async with generic_node(sockets, TTYS, "/dev/ttyUSB1") as node:
        plugin = await node.resource(TTY)
        await until(lambda: unhealthy(plugin) == {gone: "Vanished"} and set(plugin.devices) == {gone, there})
        with pytest.raises(RpcFailed):
            await plugin.client.allocate([gone])
        node.add("/dev/ttyUSB0")
        await until(lambda: not unhealthy(plugin))
        assert await paths_of(plugin) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]


async def test_it_is_listed_until_no_pod_has_it(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent, "HELD_AGAIN_S", 0.05)
    checkpoint = KubeletPaths(sockets / "k").checkpoint
    checkpoint.parent.mkdir(parents=True)
    gone = id_of_paths(0, ["/dev/ttyUSB0"])
    given = PodDevicesEntry("pod", "main", TTY, {-1: [gone]})
    checkpoint.write_bytes(encode(CheckpointData([given])))
    async with generic_node(sockets, TTYS) as node:
        plugin = await node.resource(TTY)
        await until(lambda: unhealthy(plugin) == {gone: "Vanished"})
        checkpoint.write_bytes(encode(CheckpointData([])))
        await until(lambda: not plugin.devices)


async def test_a_device_that_a_pod_has_under_another_id_keeps_that(sockets: Path) -> None:
    """It would be given to a second pod under its own."""
    checkpoint = KubeletPaths(sockets / "k").checkpoint
    checkpoint.parent.mkdir(parents=True)
    given = PodDevicesEntry("pod", "main", TTY, {-1: ["by-another-plugin"]}, edits_of("/dev/ttyUSB0"))
    checkpoint.write_bytes(encode(CheckpointData([given])))
    async with generic_node(sockets, TTYS, "/dev/ttyUSB0", "/dev/ttyUSB1") as node:
        plugin = await node.resource(TTY)
        free = id_of_paths(0, ["/dev/ttyUSB1"])
        await until(lambda: set(plugin.devices) == {"by-another-plugin", free} and not unhealthy(plugin))
        assert await paths_of(plugin) == ["/dev/ttyUSB0", "/dev/ttyUSB1"]
        node.remove("/dev/ttyUSB0")
        await until(lambda: unhealthy(plugin) == {"by-another-plugin": "Vanished"})
        node.add("/dev/ttyUSB0")
        await until(lambda: set(plugin.devices) == {"by-another-plugin", free} and not unhealthy(plugin))


async def test_so_does_a_device_that_the_pod_has_by_its_name_in_cdi(sockets: Path) -> None:
    checkpoint = KubeletPaths(sockets / "k").checkpoint
    checkpoint.parent.mkdir(parents=True)
    edits = ContainerEdits(cdi_devices=("example.com/tty=former", "example.com/tty=gone"))
    answer = edits_to_pb(edits).SerializeToString()
    checkpoint.write_bytes(encode(CheckpointData([PodDevicesEntry("pod", "main", TTY, {-1: ["former"]}, answer)])))
    node = SpecDeviceNode("/dev/tty", host_path="/dev/ttyUSB0")
    spec = Spec(
        kind="example.com/tty", version="0.5.0", devices=(SpecDevice("former", edits=Edits(device_nodes=(node,))),)
    )
    save(spec, sockets / "cdi", "example.com-tty_plugbay.example.com_tty")
    group = RuleGroup(Paths((PathRule("/dev/ttyUSB*", takes_any_file=True),)), gifts=Gifts(cdi_kind="example.com/tty"))
    rules = config(Entry("tty", "example.com", (group,)))
    async with generic_node(sockets, rules, "/dev/ttyUSB0", "/dev/ttyUSB1") as served:
        plugin = await served.resource(TTY)
        await until(lambda: set(plugin.devices) == {"former", id_of_paths(0, ["/dev/ttyUSB1"])})
        assert not unhealthy(plugin)


async def test_a_device_that_was_given_a_moment_ago_stays_listed(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet may not have written that down yet."""
    monkeypatch.setattr(vanishing, "HELD_AGAIN_S", 0.05)
    monkeypatch.setattr(recent_allocations, "UNWRITTEN_S", 1.0)
    rules = config(entry("tty", "/dev/ttyUSB*", grace_s=0.0))
    async with generic_node(sockets, rules, "/dev/ttyUSB0", "/dev/ttyUSB1") as node:
        plugin = await node.resource(TTY)
        await until(lambda: len(plugin.devices) == 2)
        given, _ = list(plugin.devices)
        await plugin.client.allocate([given])
        node.remove("/dev/ttyUSB0")
        node.remove("/dev/ttyUSB1")
        await until(lambda: list(plugin.devices) == [given])
        assert unhealthy(plugin) == {given: "Vanished"}
        await until(lambda: not plugin.devices)


@pytest.mark.parametrize("pattern", ["/dev/serial/by-id/x", "/dev/serial/by-id/*", "/dev/*/by-id/x"])
async def test_directories_may_come_later(sockets: Path, pattern: str) -> None:
    async with generic_node(sockets, config(entry("tty", pattern))) as node:
        plugin = await node.resource(TTY)
        assert await plugin.next_list() == ()
        node.add("/dev/serial/by-id/x")
        await until(lambda: plugin.devices)
        node.remove("/dev/serial/by-id/x")
        (node.root / "dev/serial/by-id").rmdir()
        (node.root / "dev/serial").rmdir()
        await until(lambda: unhealthy(plugin))
        node.add("/dev/serial/by-id/x")
        await until(lambda: not unhealthy(plugin))


async def test_a_kubelet_that_restarts_gets_all_devices_again(sockets: Path) -> None:
    async with generic_node(sockets, TTYS, "/dev/ttyUSB0") as node:
        before = await node.resource(TTY)
        await until(lambda: before.devices)
        await node.kubelet.restart()
        node.add("/dev/ttyUSB1")
        after = await node.resource(TTY)
        await until(lambda: len(after.devices) == 2)
        assert set(before.devices) < set(after.devices)


class Rules:
    """A config as a test changes it, and the file that tells of it."""

    def __init__(self, directory: Path, first: GenericConfig) -> None:
        self.file = directory / "generic.yaml"
        self.say(first)

    def say(self, now: GenericConfig | Exception) -> None:
        self._now = now
        self.file.write_text(str(now))

    def load(self) -> GenericConfig:
        if isinstance(self._now, Exception):
            raise self._now
        return self._now


async def test_changed_rules_leave_other_resources_alone(sockets: Path) -> None:
    rules = Rules(sockets, config(entry("tty", "/dev/ttyUSB*"), entry("other", "/dev/o*"), entry("old", "/dev/x")))
    async with generic_node(sockets, rules.load, "/dev/ttyUSB0", "/dev/o1", "/dev/x", file=rules.file) as node:
        plugins = await registered(node, 3)
        rules.say(config(entry("tty", "/dev/ttyUSB*"), entry("other", "/dev/o*", count=2), entry("new", "/dev/x")))
        new = await node.resource("example.com/new")
        await until(lambda: new.devices)
        await plugins["example.com/old"].until_ended()
        await until(lambda: len(plugins["example.com/other"].devices) == 2)
        assert not plugins[TTY].ended.is_set()
        assert not plugins["example.com/other"].ended.is_set(), "more copies of its devices need no registration"
        assert len(node.kubelet.attempts) == 4


async def registered(node: GenericNode, count: int) -> dict[str, RegisteredPlugin]:
    found = [await node.kubelet.next_registration() for _ in range(count)]
    for plugin in found:
        await until(lambda plugin=plugin: plugin.devices)  # type: ignore[misc]
    return {plugin.registration.resource_name: plugin for plugin in found}


async def test_broken_rules_change_nothing_and_are_told(sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = Rules(sockets, TTYS)
    async with generic_node(sockets, rules.load, "/dev/ttyUSB0", file=rules.file) as node:
        plugin = await node.resource(TTY)
        await until(lambda: plugin.devices)
        with caplog.at_level(logging.ERROR):
            rules.say(InvalidDocument("wants a list", "devices", 3, "generic.yaml"))
            await until(lambda: node.source.config_state and node.source.config_state.problem)
        assert "configuration rejected, keeping the previous one: generic.yaml:3: devices: wants a list" in caplog.text
        node.add("/dev/ttyUSB1")
        await until(lambda: len(plugin.devices) == 2)
        rules.say(config(entry("tty", "/dev/ttyUSB*"), entry("other", "/dev/o*")))
        await node.resource("example.com/other")
        assert node.source.config_state is not None
        assert node.source.config_state.problem == ""
        assert not plugin.ended.is_set()


async def test_a_further_group_of_an_entry_keeps_what_is_gone_of_another(sockets: Path) -> None:
    alone, further = entry("tty", "/dev/ttyUSB*"), entry("tty", "/dev/ttyACM*")
    rules = Rules(sockets, config(alone))
    async with generic_node(sockets, rules.load, "/dev/ttyUSB0", "/dev/ttyACM0", file=rules.file) as node:
        plugin = await node.resource(TTY)
        await until(lambda: plugin.devices)
        node.remove("/dev/ttyUSB0")
        await until(lambda: unhealthy(plugin))
        gone = unhealthy(plugin)
        rules.say(config(replace(alone, groups=alone.groups + further.groups)))
        await until(lambda: len(plugin.devices) == 2)
        assert unhealthy(plugin) == gone


async def test_a_resource_without_rules_loses_its_vanished_devices(sockets: Path) -> None:
    rules = Rules(sockets, TTYS)
    async with generic_node(sockets, rules.load, "/dev/ttyUSB0", file=rules.file) as node:
        plugin = await node.resource(TTY)
        await until(lambda: plugin.devices)
        node.remove("/dev/ttyUSB0")
        await until(lambda: unhealthy(plugin))
        rules.say(config(entry("tty", "/dev/ttyACM*")))
        await until(lambda: not plugin.devices)
