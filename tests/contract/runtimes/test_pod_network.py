"""A pod's whole network: loopback, the default network, its addresses; with plugins that are programs of ours."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.cni.chain import Attachment
from plugbay.cni.result import Interface
from plugbay.documents import JsonObject
from plugbay.errors import (
    InvalidNetworkConfig,
    InvalidNetworkResult,
    NamespaceUnusable,
    NetworkNotFound,
    NetworkPluginFailed,
    NetworkPluginMissing,
)
from plugbay.kernel.links import LinkState, link_state
from plugbay.kernel.netns import in_netns, make_netns, remove_netns
from plugbay.runtimes.oci.network import PodNetwork, bring_up_loopback, pod_args
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine
from tests.contract.rigs.private_machine import BINARIES

PROC = Path("/proc")
PLUGINS = [{"type": "first", "capabilities": {"portMappings": True}}, {"type": "second"}]
ARGS = pod_args(namespace="default", name="web", uid="u1", container_id="c1")

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


class Sandbox:
    """A machine with a network, and one pod on it."""

    def __init__(self, root: Path) -> None:
        self.machine = Machine(root)
        self.machine.install("first", MAKES)
        self.machine.install("second", PASSES)
        self.conf = root / "conf"
        self.conf.mkdir()
        self.list = self.conf / "10-net.conflist"
        self.list.write_text(json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": PLUGINS}))
        self.network = PodNetwork(self.machine.runtime, self.conf, proc_root=PROC)
        self.netns = root / "netns" / "web"
        mappings: JsonObject = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}
        self.pod = Attachment("c1", str(self.netns), args=ARGS, capabilities=mappings)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    try:
        make_netns(made.netns, proc_root=PROC)
    except NamespaceUnusable as error:
        pytest.skip(str(error))
    yield made
    remove_netns(made.netns)


async def test_pod_gets_loopback_and_addresses_of_both_families(sandbox: Sandbox) -> None:
    addresses = await sandbox.network.add(sandbox.pod)
    assert [str(each) for each in addresses.ips] == ["10.1.0.5", "fd00::5"]
    assert str(addresses.ip) == "10.1.0.5"
    assert in_netns(sandbox.netns, lambda: link_state("lo")) is LinkState.UP
    first, _ = sandbox.machine.calls
    assert dict(each.split("=") for each in first["environ"]["CNI_ARGS"].split(";")) == {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": "default",
        "K8S_POD_NAME": "web",
        "K8S_POD_INFRA_CONTAINER_ID": "c1",
        "K8S_POD_UID": "u1",
    }
    await sandbox.machine.runtime.check(await sandbox.network.load(), sandbox.pod)


async def test_installed_loopback_plugin_is_used(sandbox: Sandbox) -> None:
    sandbox.machine.install("loopback", "print(json.dumps({'cniVersion': config['cniVersion']}))")
    await sandbox.network.add(sandbox.pod)
    loopback, *_ = sandbox.machine.calls
    assert loopback["config"] == {"cniVersion": "0.3.1", "name": "cni-loopback", "type": "loopback"}
    assert loopback["environ"]["CNI_IFNAME"] == "lo"
    assert sorted(each.name for each in sandbox.machine.results.iterdir()) == ["cni-loopback-c1-lo", "net-c1-eth0"]
    await sandbox.network.remove(sandbox.pod)
    assert sandbox.machine.called() == [("second", "DEL"), ("first", "DEL"), ("loopback", "DEL")]


async def test_removal_uses_what_was_configured_then(sandbox: Sandbox) -> None:
    await sandbox.network.add(sandbox.pod)
    assert sandbox.machine.calls
    sandbox.list.unlink()
    remove_netns(sandbox.netns)
    await sandbox.network.remove(Attachment("c1", str(sandbox.netns)))
    second, first = sandbox.machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    assert first["environ"]["CNI_NETNS"] == "", "it is gone"
    assert first["config"]["runtimeConfig"] == sandbox.pod.capabilities
    assert not list(sandbox.machine.results.iterdir())
    await sandbox.network.remove(sandbox.pod)  # nothing is known, and nothing can be done
    assert not sandbox.machine.calls


async def test_pod_that_nobody_remembers_is_removed_all_the_same(sandbox: Sandbox) -> None:
    """As after a SIGKILL between a plugin's ADD and the writing of the result."""
    await sandbox.network.remove(sandbox.pod)
    second, first = sandbox.machine.calls
    assert (second["plugin"], first["plugin"]) == ("second", "first")
    assert first["config"]["runtimeConfig"] == sandbox.pod.capabilities


async def test_failed_add_is_undone(sandbox: Sandbox) -> None:
    sandbox.machine.install("second", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(NetworkPluginFailed, match="not now"):
        await sandbox.network.add(sandbox.pod)
    assert sandbox.machine.called() == [("first", "ADD"), ("second", "ADD"), ("second", "DEL"), ("first", "DEL")]


async def test_cancelled_add_is_undone(sandbox: Sandbox, tmp_path: Path) -> None:
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    hang = f"import time\nif command == 'ADD': open({str(fifo)!r}, 'w').close(); time.sleep(600)"
    sandbox.machine.install("second", hang)
    async with asyncio.TaskGroup() as tasks:
        adding = tasks.create_task(sandbox.network.add(sandbox.pod))
        await asyncio.to_thread(fifo.read_bytes)
        adding.cancel()
    assert sandbox.machine.called()[2:] == [("second", "DEL"), ("first", "DEL")]


async def test_pod_without_address_is_none(sandbox: Sandbox) -> None:
    sandbox.machine.install("second", "print('{}')")
    with pytest.raises(InvalidNetworkResult, match="network net gave eth0 no IP address"):
        await sandbox.network.add(sandbox.pod)
    assert not list(sandbox.machine.results.iterdir())


async def test_failed_undoing_is_logged_and_does_not_hide_the_failure(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.machine.install("second", 'fail(100, command + " failed")')
    with pytest.raises(NetworkPluginFailed, match="ADD failed"):
        await sandbox.network.add(sandbox.pod)
    assert "the network of container c1 is left half-made; " in caplog.text
    assert "DEL failed" in caplog.text


@pytest.mark.parametrize("broken", [None, "{", '{"name": "net", "plugins": [{"type": "nope"}]}'])
async def test_pod_needs_a_network(sandbox: Sandbox, broken: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Without one it is not added, and removing it is no trouble."""
    sandbox.list.unlink()
    if broken:
        sandbox.list.write_text(broken)
    with pytest.raises((NetworkNotFound, InvalidNetworkConfig, NetworkPluginMissing)):
        await sandbox.network.add(sandbox.pod)
    await sandbox.network.remove(sandbox.pod)
    assert not sandbox.machine.calls
    assert "half-made" not in caplog.text


def test_built_in_loopback_answers_as_the_official_plugin(sandbox: Sandbox) -> None:
    result = bring_up_loopback(sandbox.netns, proc_root=PROC)
    (lo,) = result.interfaces
    assert lo == Interface("lo", "00:00:00:00:00:00", sandbox=str(sandbox.netns))
    assert [str(each.address) for each in result.ips] in (["127.0.0.1/8", "::1/128"], ["127.0.0.1/8"])
    assert all(each.interface == 0 and each.gateway is None for each in result.ips)


@pytest.mark.skipif(not (BINARIES / "loopback").exists(), reason="needs the official loopback plugin")
async def test_built_in_loopback_equals_the_installed_plugin(sandbox: Sandbox) -> None:
    own = bring_up_loopback(sandbox.netns, proc_root=PROC)
    shutil.copy(BINARIES / "loopback", sandbox.machine.binaries)
    await sandbox.network.add(sandbox.pod)
    theirs = json.loads((sandbox.machine.results / "cni-loopback-c1-lo").read_bytes())["result"]
    assert theirs["cniVersion"] == own.version
    assert theirs["ips"] == [
        {"address": str(ip.address), "version": str(ip.address.version), "interface": 0} for ip in own.ips
    ]
    assert theirs["interfaces"] == [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": str(sandbox.netns)}]


async def test_strange_address_on_loopback_is_refused(sandbox: Sandbox) -> None:
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    inside = ("nsenter", f"--net={sandbox.netns}", "ip")
    for argv in (
        ("link", "set", "lo", "up"),
        ("address", "add", "192.0.2.1/24", "dev", "lo"),
        ("address", "del", "127.0.0.1/8", "dev", "lo"),
    ):
        process = await asyncio.create_subprocess_exec(*inside, *argv)
        assert await process.wait() == 0
    with pytest.raises(NamespaceUnusable, match=r"has an address that is not loopback: 192\.0\.2\.1/24"):
        bring_up_loopback(sandbox.netns, proc_root=PROC)
