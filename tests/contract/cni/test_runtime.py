"""Operations over networks, with plugins that are programs of ours."""

from __future__ import annotations

import base64
import json
import re

import pytest

from plugbay.cni.chain import Attachment
from plugbay.cni.result import Result
from plugbay.cni.runtime import CniRuntime
from plugbay.documents import JsonObject
from plugbay.errors import InvalidNetworkConfig, NetworkPluginFailed, PathUnusable
from tests.contract.cni.runtime_parts import C1, machine
from tests.contract.rigs.fake_cni import Machine, network

__all__ = ["machine"]


async def test_add_goes_through_the_chain(machine: Machine) -> None:
    result = await machine.runtime.attach(network("first", "second"), C1)
    assert [str(each.address) for each in result.ips] == ["10.1.0.5/24", "fd00::5/64"]
    first, second = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    assert first["environ"] == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "/run/netns/c1",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=web",
        "CNI_PATH": ":".join(map(str, machine.plugins.directories)),
        "CNI_NETNS_OVERRIDE": "1",
    }
    assert "prevResult" not in first["config"]
    assert second["config"]["prevResult"]["ips"][0] == {"address": "10.1.0.5/24", "interface": 0}


async def test_del_goes_back_with_the_result_and_forgets_it(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.detach(net, C1)
    second, first = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    assert first["config"]["prevResult"] == second["config"]["prevResult"]
    assert first["config"]["prevResult"]["cniVersion"] == "1.0.0"
    assert not list(machine.results.iterdir())


async def test_del_can_be_repeated_and_comes_without_add(machine: Machine) -> None:
    gone = Attachment("c1", "")
    for _ in range(2):
        await machine.runtime.detach(network("first", "second"), gone)
    calls = machine.calls
    assert [each["plugin"] for each in calls] == ["second", "first"] * 2
    assert all("prevResult" not in each["config"] and each["environ"]["CNI_NETNS"] == "" for each in calls)


async def test_del_before_0_4_is_not_told_the_result(machine: Machine) -> None:
    net = network("first", version="0.3.1")
    await machine.runtime.attach(net, C1)
    await machine.runtime.detach(net, C1)
    assert ["prevResult" in each["config"] for each in machine.calls] == [False, False]


async def test_failed_add_stops_and_caches_nothing(machine: Machine) -> None:
    machine.install("fails", 'fail(11, "not now", "later")')
    with pytest.raises(NetworkPluginFailed) as failure:
        await machine.runtime.attach(network("first", "fails", "second"), C1)
    assert (failure.value.code, failure.value.message, failure.value.details) == (11, "not now", "later")
    assert str(failure.value) == 'plugin type="fails" failed (add): not now; later'
    assert machine.called() == [("first", "ADD"), ("fails", "ADD")]
    assert not machine.results.exists()


async def test_failed_del_keeps_the_result(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    machine.install("second", 'fail(100, "stuck")')
    with pytest.raises(NetworkPluginFailed, match=re.escape('plugin type="second" failed (delete): stuck')):
        await machine.runtime.detach(net, C1)
    assert machine.called()[2:] == [("second", "DEL")]
    assert [each.name for each in machine.results.iterdir()] == ["net-c1-eth0"]


async def test_cached_result_is_as_libcni_writes_it(machine: Machine) -> None:
    net = network({"type": "first", "capabilities": {"mac": True}})
    attachment = Attachment(
        "c1", "/run/netns/c1", args=(("A", "b"),), capabilities={"mac": "02::", "ips": ["10.1.0.9"]}
    )
    await machine.runtime.attach(net, attachment)
    path = machine.results / "net-c1-eth0"
    cached = json.loads(path.read_bytes())
    assert base64.b64decode(cached.pop("config")) == net.content
    assert cached.pop("result")["ips"][0]["address"] == "10.1.0.5/24"
    assert cached == {
        "kind": "cniCacheV1",
        "containerId": "c1",
        "ifName": "eth0",
        "networkName": "net",
        "netns": "/run/netns/c1",
        "cniArgs": [["A", "b"]],
        "capabilityArgs": {"mac": "02::", "ips": ["10.1.0.9"]},
    }
    assert (path.stat().st_mode & 0o777, machine.results.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_plugins_get_the_capabilities_they_declare(machine: Machine) -> None:
    first = {"type": "first", "capabilities": {"mac": True, "ips": False, "dns": True}}
    capabilities: JsonObject = {"mac": "02:00:00:00:00:01", "ips": ["10.1.0.9"]}
    await machine.runtime.attach(network(first, "second"), Attachment("c1", "/n", capabilities=capabilities))
    one, two = machine.calls
    assert one["config"]["runtimeConfig"] == {"mac": "02:00:00:00:00:01"}
    assert one["config"]["capabilities"] == first["capabilities"], "as libcni passes it"
    assert "runtimeConfig" not in two["config"]


async def test_everything_remembered_is_undone_without_configuration(machine: Machine) -> None:
    net = network({"type": "first", "capabilities": {"mac": True}})
    for ifname in ("eth0", "net1"):
        await machine.runtime.attach(net, Attachment("c1", "/n", ifname, (("A", ifname),), {"mac": ifname}))
    await machine.runtime.attach(net, Attachment("c2", "/n"))
    assert machine.calls
    undone = await machine.runtime.detach_cached("c1", netns="")
    calls = machine.calls
    assert [each.attachment.ifname for each in undone] == ["eth0", "net1"]
    assert [each["environ"]["CNI_IFNAME"] for each in calls] == ["net1", "eth0"]
    assert [each["environ"]["CNI_ARGS"] for each in calls] == ["A=net1", "A=eth0"]
    assert [each["environ"]["CNI_NETNS"] for each in calls] == ["", ""]
    assert [each["config"]["runtimeConfig"]["mac"] for each in calls] == ["net1", "eth0"]
    assert [each.name for each in machine.results.iterdir()] == ["net-c2-eth0"]


async def test_previous_result_has_the_lists_version(machine: Machine) -> None:
    machine.install("old", 'print(json.dumps({"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.7/24"}}))')
    await machine.runtime.attach(network("old", "second", version="1.1.0"), C1)
    _, second = machine.calls
    assert second["config"]["prevResult"] == {"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.7/24"}]}


async def test_result_without_version_is_of_the_lists(machine: Machine) -> None:
    machine.install("silent", "print('null')")
    assert await machine.runtime.attach(network("silent", version="0.4.0"), C1) == Result("0.4.0")


async def test_legacy_cache_is_read(machine: Machine) -> None:
    machine.results.mkdir(parents=True)
    old = {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.8/24"}]}
    (machine.results / "net-c1-eth0").write_text(json.dumps(old))
    await machine.runtime.detach(network("first"), C1)
    assert machine.calls[0]["config"]["prevResult"] == {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.8/24"}]}


@pytest.mark.parametrize(
    "content", ["", "{", '{"kind":"cniCacheV1","containerId":5}', '{"ips":[{"address":"x"}]}', "[]"]
)
async def test_damaged_cache_is_ignored_and_removed(machine: Machine, content: str) -> None:
    machine.results.mkdir(parents=True)
    (machine.results / "net-c1-eth0").write_text(content)
    await machine.runtime.detach(network("first"), C1)
    assert "prevResult" not in machine.calls[0]["config"]
    assert not list(machine.results.iterdir())


async def test_check_with_a_damaged_cache_fails_and_leaves_it(machine: Machine) -> None:
    net = network("first")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    (machine.results / "net-c1-eth0").write_text("{")
    with pytest.raises(PathUnusable, match=r"net-c1-eth0: is damaged: not JSON"):
        await machine.runtime.check(net, C1)
    assert not machine.calls
    assert (machine.results / "net-c1-eth0").read_text() == "{"


async def test_check_asks_everyone_in_order(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.check(net, C1)
    calls = machine.calls
    assert [(each["plugin"], each["environ"]["CNI_COMMAND"]) for each in calls] == [
        ("first", "CHECK"),
        ("second", "CHECK"),
    ]
    assert all(each["config"]["prevResult"]["ips"] for each in calls)


async def test_check_can_be_switched_off(machine: Machine) -> None:
    await machine.runtime.check(network("first", disableCheck=True), C1)
    assert not machine.calls


async def test_check_needs_0_4(machine: Machine) -> None:
    with pytest.raises(InvalidNetworkConfig, match=r"version 0\.3\.1 does not support the CHECK command"):
        await machine.runtime.check(network("first", version="0.3.1", disableCheck=True), C1)


async def test_status_is_asked_from_1_1_on(machine: Machine) -> None:
    machine.install("second", 'if command == "STATUS": fail(50, "not available")')
    await machine.runtime.status(network("first", "second", version="1.0.0"))
    assert not machine.calls
    with pytest.raises(NetworkPluginFailed) as failure:
        await machine.runtime.status(network("first", "second", "first", version="1.1.0"))
    assert failure.value.code == 50
    first, second = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    nothing = {"CNI_CONTAINERID": "", "CNI_NETNS": "", "CNI_IFNAME": "", "CNI_ARGS": ""}
    assert nothing.items() <= first["environ"].items()


async def test_garbage_is_detached_and_told(machine: Machine) -> None:
    net = network("first", "second", version="1.1.0")
    for container in ("c1", "c2", "c3"):
        await machine.runtime.attach(net, Attachment(container, f"/{container}", args=(("A", container),)))
    await machine.runtime.attach(network("first", name="other"), Attachment("c4", "/c4"))
    assert machine.calls
    assert await machine.runtime.collect_garbage(net, [("c2", "eth0")]) == []
    calls = machine.calls
    told = [(each["plugin"], each["environ"]["CNI_COMMAND"], each["environ"]["CNI_ARGS"]) for each in calls]
    assert told == [
        *[(plugin, "DEL", f"A={container}") for container in ("c1", "c3") for plugin in ("second", "first")],
        ("first", "GC", ""),
        ("second", "GC", ""),
    ]
    valid = [{"containerID": "c2", "ifname": "eth0"}]
    assert calls[-1]["config"]["cni.dev/valid-attachments"] == calls[-1]["config"]["cni.dev/attachments"] == valid
    assert sorted(each.name for each in machine.results.iterdir()) == ["net-c2-eth0", "other-c4-eth0"]


async def test_garbage_with_a_damaged_result_is_detached_without_it(machine: Machine) -> None:
    net = network("first")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    path = machine.results / "net-c1-eth0"
    path.write_text(path.read_text().replace("10.1.0.5/24", "nowhere"))
    assert await machine.runtime.collect_garbage(net, []) == []
    (told,) = machine.calls
    assert (told["environ"]["CNI_COMMAND"], "prevResult" in told["config"]) == ("DEL", False)
    assert not list(machine.results.iterdir())


async def test_garbage_collection_goes_on_after_failures(machine: Machine) -> None:
    net = network("first", version="1.1.0")
    for container in ("c1", "c2"):
        await machine.runtime.attach(net, Attachment(container, "/n"))
    machine.install("first", 'fail(100, command + os.environ["CNI_CONTAINERID"])')
    failed = await machine.runtime.collect_garbage(net, [])
    assert [each.message for each in failed if isinstance(each, NetworkPluginFailed)] == ["DELc1", "DELc2", "GC"]


async def test_garbage_collection_can_be_switched_off(machine: Machine) -> None:
    net = network("first", disableGC=True)
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.collect_garbage(net, [])
    assert not machine.calls


async def test_what_is_begun_is_remembered_until_it_is_undone(machine: Machine) -> None:
    """As after a SIGKILL in the middle of ADD: by another process, without today's configuration."""
    net = network({"type": "first", "capabilities": {"mac": True}}, "fails")
    machine.install("fails", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(NetworkPluginFailed):
        await machine.runtime.attach(net, Attachment("c1", "/n", args=(("A", "b"),), capabilities={"mac": "x"}))
    assert machine.calls
    undone = await CniRuntime(machine.plugins, machine.runtime.cache).detach_cached("c1")
    assert [(each.network, each.result) for each in undone] == [("net", None)]
    _, first = machine.calls
    assert (first["plugin"], first["environ"]["CNI_ARGS"], first["environ"]["CNI_NETNS"]) == ("first", "A=b", "/n")
    assert first["config"]["runtimeConfig"] == {"mac": "x"}
    assert "prevResult" not in first["config"]
    assert machine.runtime.cache.entries() == []


async def test_garbage_includes_what_was_only_begun(machine: Machine) -> None:
    net = network("first", "fails")
    machine.install("fails", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(NetworkPluginFailed):
        await machine.runtime.attach(net, C1)
    assert await machine.runtime.collect_garbage(net, []) == []
    assert machine.called()[2:] == [("fails", "DEL"), ("first", "DEL")]
    assert machine.runtime.cache.entries() == []
