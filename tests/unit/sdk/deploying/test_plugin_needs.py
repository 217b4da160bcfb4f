"""What a process needs of its node: seen in its plugins, declared by their authors, put together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from plugbay import (
    Assignment,
    Capability,
    Device,
    DevicePlugin,
    HostDirectory,
    Memory,
    OnNodes,
    PluginSource,
    Privileged,
    Variable,
    resources,
)
from plugbay.errors import InvalidNvidiaConfig, NeedsRefused
from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.plugins.directory.plugin import DirectoryPlugin
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.serving.needs import nvidia_needs
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.sdk.author.needs import Need, NodeName, NodeReader
from plugbay.sdk.deploying.needs import needs_now
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, PluginNeeds, combined

SOCKETS = f"{KUBELET_ROOT}/device-plugins"
WHY = "a reason"


class Plain(DevicePlugin):
    resource_name = "example.com/card"

    def discover(self) -> list[Device]:
        return []


class Cleaning(Plain):
    def release(self, assignment: Assignment) -> None:
        pass


def needs_of(*members: DevicePlugin) -> PluginNeeds:
    return asyncio.run(needs_now(members))


def places(needs: PluginNeeds) -> dict[str, bool]:
    """Whether each directory is writable."""
    return {each.place: each.writable for each in needs.directories}


def with_watch(*paths: str | Path) -> DevicePlugin:
    plugin = Plain()
    plugin.watch = paths
    return plugin


def test_a_plugin_needs_its_socket_and_nothing_else() -> None:
    needs = needs_of(Plain())
    assert str(STOCK_ROOT) == KUBELET_ROOT
    assert (needs.served, places(needs)) == (("example.com/card",), {SOCKETS: True})
    assert (needs.capabilities, needs.privileged, needs.variables) == ((), (), ())


@pytest.mark.parametrize(
    ("watched", "mounted"),
    [
        ("/dev/serial/by-id", "/dev"),
        ("/sys/bus/usb/devices", ""),
        ("/sys/class/net", "/sys"),
        ("/sys/class/net/eth0", "/sys"),
        ("/sys/class/infiniband/mlx5_0/ports", "/sys"),
        ("/proc/mdstat", ""),
        ("/sys/fs/bpf", "/sys/fs/bpf"),
        ("/etc/gophers", "/etc/gophers"),
    ],
)
def test_watched_path(watched: str, mounted: str) -> None:
    needs = needs_of(with_watch(watched))
    assert places(needs) == {SOCKETS: True} | ({mounted: False} if mounted else {})


def test_watched_file_is_seen_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "cards.json").touch()
    assert places(needs_of(with_watch(tmp_path / "cards.json"))) == {SOCKETS: True, str(tmp_path): False}


@pytest.mark.parametrize(
    ("watched", "mounted"),
    [
        ("/etc/not-here/cards.json", "/etc/not-here"),
        ("/run/not-here/vendor/card.sock", "/run/not-here/vendor"),
        ("/etc/not-here/cards.d", "/etc/not-here/cards.d"),
        ("/etc/not-here/card-1.2", "/etc/not-here/card-1.2"),
        ("/etc/not-here.cards", "/etc/not-here.cards"),
    ],
)
def test_watched_file_that_only_nodes_have_is_seen_in_its_directory(watched: str, mounted: str) -> None:
    assert places(needs_of(with_watch(watched))) == {SOCKETS: True, mounted: False}


@pytest.mark.parametrize("watched", ["cards", "/", "/etc/hostname"])
def test_watched_path_that_no_container_should_have(watched: str) -> None:
    with pytest.raises(NeedsRefused, match=re.escape(f"example.com/card watches {watched}") + "|'cards'"):
        needs_of(with_watch(watched))


def test_hooks_and_cdi_show_what_they_need() -> None:
    plugin = Cleaning()
    plugin.cdi_kind, plugin.check_paths = "example.com/card", True
    assert places(needs_of(plugin)) == {
        "/dev": False,
        "/sys/fs/cgroup": False,
        SOCKETS: True,
        f"{KUBELET_ROOT}/pod-resources": False,
        "/var/run/cdi": True,
    }
    assert needs_of(plugin).one_at_a_time == ("example.com/card keeps track of who uses its devices",)
    assert needs_of(Plain()).one_at_a_time == ()


def test_nodes_that_plugins_are_for() -> None:
    def nodes(*members: DevicePlugin | PluginSource) -> list[str]:
        return [each.selector for each in asyncio.run(needs_now(members)).nodes]

    def card(*selectors: str, name: str = "example.com/card") -> DevicePlugin:
        plugin = Plain()
        plugin.resource_name, plugin.needs = name, [OnNodes(each, WHY) for each in selectors]
        return plugin

    @resources(every="1h", needs=[OnNodes("cards=true", WHY)])
    def cards() -> list[DevicePlugin]:
        return [card(), card("fast", name="example.com/fast")]

    assert nodes(card("a=1", "b")) == ["a=1", "b"]
    assert nodes(card("b"), card("a", name="example.com/other")) == ["a", "b"]
    assert nodes(card("a"), card(name="example.com/other")) == [], "one that goes everywhere takes the others along"
    assert nodes(cards) == ["cards=true", "fast"]


def test_ready_made_directory() -> None:
    plugin = DirectoryPlugin("example.com/gopher", Path("/etc/gophers"), env="GOPHER")
    [directory, _] = needs_of(plugin).directories
    assert (directory.path, directory.reason) == ("/etc/gophers", "example.com/gopher watches /etc/gophers")


@resources(watch="/etc/cards", needs=[Capability("NET_ADMIN", WHY)])
def found() -> Sequence[DevicePlugin]:
    return [Cleaning()]


@resources(needs=[Capability("NET_ADMIN", WHY)])
def nothing_found() -> Sequence[DevicePlugin]:
    return []


def test_directory_of_the_hosts_interfaces_is_not_the_pods_own() -> None:
    """A pod's own sysfs shows only its own network namespace."""
    needs = needs_of(DirectoryPlugin("example.com/card", Path("/sys/class/net"), env="CARD"))
    [sys] = [each for each in needs.directories if each.place == "/sys"]
    assert (sys.path, sys.reason) == ("/sys", "example.com/card watches /sys/class/net")


def test_resources_that_are_found() -> None:
    needs = asyncio.run(needs_now([found]))
    assert needs.served == ("example.com/card",)
    assert {"/etc/cards", "/sys/fs/cgroup"} < places(needs).keys()
    assert needs.capabilities == (Capability("NET_ADMIN", WHY),)
    needs = asyncio.run(needs_now([nothing_found]))
    assert (needs.served, needs.capabilities) == (("nothing_found",), (Capability("NET_ADMIN", WHY),))


def of_nvidia(*flags: str) -> PluginNeeds:
    return combined(("nvidia",), nvidia_needs(NodeSettings(parse_arguments(flags))))


def test_nvidia_needs_no_right_but_what_its_flags_ask_for() -> None:
    plain = of_nvidia()
    assert (plain.directories, plain.capabilities, plain.privileged) == ((), (), ())
    assert [each.name for each in plain.variables] == ["NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"]
    assert [each.name for each in of_nvidia("--mig-strategy=mixed").capabilities] == ["SYS_ADMIN"]
    assert [each.name for each in of_nvidia("--device-list-strategy=volume-mounts").capabilities] == ["SYS_ADMIN"]
    assert of_nvidia("--pass-device-specs").privileged
    assert places(of_nvidia("--device-list-strategy=cdi-cri")) == {"/driver-root": False, "/var/run/cdi": True}
    assert places(of_nvidia("--mps-root=/run/mps")) == {"/dev/shm": True, "/mps": True}
    [driver] = of_nvidia("--driver-root=/run/nvidia/driver").directories
    assert (driver.path, driver.place) == ("/run/nvidia/driver", "/driver-root")


def test_nvidia_needs_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("version: v1\n")
    (tmp_path / "cdi").write_text("flags: {nvidiaDriverRoot: /run/driver, plugin: {deviceListStrategy: cdi-cri}}\n")
    (tmp_path / "mig").write_text("flags: {migStrategy: mixed}\n")
    one = of_nvidia(f"--config-file={tmp_path / 'cdi'}")
    assert places(one) == {"/driver-root": False, "/var/run/cdi": True}
    assert (one.directories[0].path, one.node_reader) == ("/run/driver", ())
    assert not of_nvidia(f"--config-file={tmp_path / 'plain'}").directories
    all_of_them = of_nvidia(f"--config-file-srcdir={tmp_path}")
    assert all_of_them.directories == one.directories
    assert [each.name for each in all_of_them.capabilities] == ["SYS_ADMIN"]
    assert all_of_them.node_reader == (
        "the label nvidia.com/device-plugin.config of the node chooses the configuration",
    )
    (tmp_path / "broken").write_text("flags: {migStrategy: half}\n")
    with pytest.raises(InvalidNvidiaConfig, match="half"):
        of_nvidia(f"--config-file-srcdir={tmp_path}")


def test_needs_are_there_once_with_all_their_reasons() -> None:
    wanted: list[Need] = [
        Capability("SYS_NICE", "it is fast"),
        Capability("NET_ADMIN", "b"),
        Capability("NET_ADMIN", "a"),
        HostDirectory("/opt/card/lib", "the library"),
        HostDirectory("/opt/card", "the tools"),
        HostDirectory("/opt/card/state", "its state", writable=True),
        HostDirectory("/opt/cards", "other cards"),
        Privileged("x"),
        Privileged("x"),
        Memory(50, WHY),
        Memory(100, WHY),
    ]
    needs = combined(("r",), wanted)
    assert needs.capabilities == (Capability("NET_ADMIN", "b; a"), Capability("SYS_NICE", "it is fast"))
    assert needs.directories == (
        HostDirectory("/opt/card", "the tools; the library"),
        HostDirectory("/opt/card/state", "its state", writable=True),
        HostDirectory("/opt/cards", "other cards"),
    )
    assert (needs.privileged, needs.memory_mib) == (("x",), 100)


def test_a_process_that_reads_its_node_knows_its_name() -> None:
    needs = combined(("r",), [NodeName("names choose"), NodeReader("labels choose"), NodeReader("labels choose")])
    assert (needs.node_name, needs.node_reader) == (("names choose", "labels choose"), ("labels choose",))
    needs = combined(("r",), [NodeName("names choose")])
    assert (needs.node_name, needs.node_reader) == (("names choose",), ())


def test_directory_with_another_place_covers_nothing_but_its_own() -> None:
    needs = combined(
        ("r",),
        [HostDirectory("/", WHY, container_path="/host"), HostDirectory("/host/opt", WHY), *of_nvidia().variables],
    )
    assert [each.path for each in needs.directories] == ["/", "/host/opt"]
    needs = combined(
        ("r",), [HostDirectory("/", WHY, container_path="/host"), HostDirectory("/o", WHY, False, "/host/o")]
    )
    assert [each.path for each in needs.directories] == ["/"]


@pytest.mark.parametrize(
    "wanted",
    [
        [HostDirectory("/a", WHY), HostDirectory("/b", WHY, container_path="/a")],
        [Variable("A", "1", WHY), Variable("A", "2", WHY)],
        [NodeName("'1' and '2'"), Variable("NODE_NAME", "x", WHY)],
        [Variable("NODE_NAME", "x", WHY), NodeReader("'1' and '2'")],
    ],
    ids=["directories", "variables", "name", "reader"],
)
def test_needs_that_exclude_each_other(wanted: list[Need]) -> None:
    with pytest.raises(NeedsRefused, match=r"(?s)wanted .*(/a and /b|'1' and '2')"):
        combined(("r",), wanted)
