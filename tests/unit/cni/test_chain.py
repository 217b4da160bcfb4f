"""What a plugin is told, and what may be attached."""

from __future__ import annotations

import json

import pytest

from plugbay.cni.capabilities import WELL_KNOWN
from plugbay.cni.chain import Attachment, CniCommand, garbage_input, plugin_input, variables
from plugbay.cni.config import NetworkConfig, parse_list
from plugbay.cni.result import Result
from plugbay.documents import JsonValue
from plugbay.errors import InvalidAttachment


def network(plugin: dict[str, object]) -> NetworkConfig:
    document = {"name": "net", "cniVersion": "0.4.0", "plugins": [plugin]}
    return parse_list(json.dumps(document).encode(), source="net.conflist")


def test_name_and_version_of_the_list_win() -> None:
    net = network({"type": "a", "name": "own", "cniVersion": "9.9.9", "x": {"B": 1, "a": [1.5, 12345678901234567890]}})
    given = plugin_input(net, net.plugins[0], capabilities={"mac": "x"}, previous=None)
    assert given == b'{"cniVersion":"0.4.0","name":"net","type":"a","x":{"B":1,"a":[1.5,12345678901234567890]}}'


def test_previous_result_is_in_the_lists_version() -> None:
    net = network({"type": "a"})
    given = json.loads(plugin_input(net, net.plugins[0], capabilities={}, previous=Result("1.1.0")))
    assert given["prevResult"] == {"cniVersion": "0.4.0", "dns": {}}


def test_garbage_is_told_under_both_names() -> None:
    net = network({"type": "a"})
    given = json.loads(garbage_input(net, net.plugins[0], [("c1", "eth0")]))
    entries = [{"containerID": "c1", "ifname": "eth0"}]
    assert (given["cni.dev/valid-attachments"], given["cni.dev/attachments"]) == (entries, entries)


def test_all_variables_are_always_there() -> None:
    names = {f"CNI_{each}" for each in ("COMMAND", "CONTAINERID", "NETNS", "ARGS", "IFNAME", "PATH")}
    for attachment in (None, Attachment("c1", "")):
        assert variables(CniCommand.DEL, attachment, ["/a", "/b"]).keys() == names
    assert variables(CniCommand.GC, None, ["/a", "/b"])["CNI_PATH"] == "/a:/b"


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "a\n", "é", ".."])
def test_strange_container_is_refused(name: str) -> None:
    with pytest.raises(InvalidAttachment, match="container ID"):
        Attachment(name, "/n")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "a\0", "x" * 16, "é" * 8])
def test_strange_interface_is_refused(name: str) -> None:
    with pytest.raises(InvalidAttachment, match="interface name"):
        Attachment("c1", "/n", name)


@pytest.mark.parametrize("pair", [("", "x"), ("a", "b=c"), ("a", "b;c"), ("a=", "b"), ("a", "\0")])
def test_arguments_that_plugins_would_split_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidAttachment, match="argument"):
        Attachment("c1", "/n", args=(pair,))


def test_longest_names_are_fine() -> None:
    Attachment("A0_.-", "", "é" * 7 + "x", (("A", ""),))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deviceID", "0000:04:00.5"),
        ("infinibandGUID", "c2:11:22:33:44:55:66:77"),
        ("mac", "02:00:00:00:00:01"),
        ("ips", ["10.1.0.9/24", "fd00::9"]),
        ("dns", {"servers": ["10.0.0.1"], "searches": [], "options": ["ndots:1"]}),
        ("ipRanges", [[{"subnet": "10.1.0.0/24"}]]),
        ("aliases", ["web"]),
        ("cgroupPath", "/pod"),
        ("io.kubernetes.cri.pod-annotations", {"a": "b"}),
    ],
)
def test_capability_reaches_who_declares_it_and_nobody_else(name: str, value: JsonValue) -> None:
    assert name in WELL_KNOWN
    plugins = [{"type": "first", "capabilities": {name: True}}, {"type": "second", "capabilities": {name: False}}]
    content = json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": plugins}).encode()
    network = parse_list(content, source="net.conflist")
    told = [
        json.loads(plugin_input(network, plugin, capabilities={name: value, "other": 1}, previous=None))
        for plugin in network.plugins
    ]
    assert [each.get("runtimeConfig") for each in told] == [{name: value}, None]
