"""The official plugins, in namespaces of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plugbay.cni.addresses import cidr
from plugbay.cni.invoke import Plugins
from plugbay.cni.result import parse
from plugbay.cni.result_encoding import encode
from tests.contract.rigs.private_machine import BINARIES, PrivateMachine, needs_private_machine, private_machine
from tests.unit.cni.recorded import recorded_calls

EXAMPLES = Path(__file__).parents[3] / "examples" / "cni"
ECHO = """
import socket, selectors
tcp, udp = socket.create_server(("", 80)), socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("", 53))
poll = selectors.DefaultSelector()
for each in (tcp, udp): poll.register(each, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in poll.select():
        if key.fileobj is tcp:
            with tcp.accept()[0] as client: client.sendall(client.recv(99).upper())
        else:
            text, peer = udp.recvfrom(99)
            udp.sendto(text.upper(), peer)
"""
ASK_TCP = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as server:
    server.sendall(b"gopher"); print(server.recv(99).decode())
"""
ASK_UDP = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as server:
    server.settimeout(20)
    server.sendto(b"gopher", (sys.argv[1], int(sys.argv[2]))); print(server.recv(99).decode())
"""
RECORDED = {(each.release, each.name): each for each in recorded_calls()}


async def add(machine: PrivateMachine, name: str, *options: str) -> dict[str, Any]:
    argv = ("add", name, "--netns", name, "--make-netns", "--loopback", "--conf-dir", str(EXAMPLES))
    done = await machine.cni(*argv, *options)
    assert done.code == 0, done
    result: dict[str, Any] = json.loads(done.out)
    return result


@needs_private_machine
async def test_pods_are_on_the_network_and_leave_nothing() -> None:
    ports = ("--port", "8080:80", "--port", "5353:53/udp")
    limits = ("ingress-bandwidth=10M", "egress-bandwidth=8M")
    annotations = [part for each in limits for part in ("--annotation", f"kubernetes.io/{each}")]
    async with private_machine() as machine:
        web = await add(machine, "web", *ports, *annotations)
        await add(machine, "other")
        own = [str(cidr(each["address"]).ip) for each in web["ips"]]
        assert [each.rpartition(".")[0] or each.rpartition("::")[0] for each in own] == ["10.213.97", "fd00:10:213:97"]

        async with machine.serving(ECHO, netns="web"):
            assert await machine.python(ASK_TCP, "127.0.0.1", "8080") == "GOPHER\n"
            assert await machine.python(ASK_UDP, "127.0.0.1", "5353") == "GOPHER\n"
            assert await machine.python(ASK_TCP, own[0], "80", netns="other") == "GOPHER\n"
            assert await machine.python(ASK_TCP, "127.0.0.1", "80", netns="web") == "GOPHER\n"

        # The second table of the plugin's arithmetic: what the annotations' rates come to with the largest burst.
        shown = {each["options"]["rate"]: each["options"]["burst"] for each in await machine.shapers()}
        assert shown == {1_250_000: 193_273_526, 1_000_000: 261_993_004}

        found = "\n".join(await machine.leavings())
        assert all(f"-A POSTROUTING -s {each}/" in found for each in own), "what is looked for below can be seen"

        for name in ("web", "other"):
            assert await machine.cni("del", name, "--remove-netns") == (0, "", "")
            assert await machine.cni("del", name, "--remove-netns", "--conf-dir", str(EXAMPLES)) == (0, "", "")
        assert await machine.leavings() == ()


@needs_private_machine
async def test_bridge_tells_what_it_made() -> None:
    """The bridge, the host's end and the container's, in that order; nothing of the answer is lost on its way."""
    async with private_machine() as machine:
        result = await add(machine, "web")
        outside = json.loads(await machine.text("ip", "-j", "link"))
        inside = json.loads(await machine.text("ip", "-n", "web", "-j", "link"))
        macs = {each["ifname"]: each["address"] for each in (*outside, *inside)}
        (veth,) = (name for name in macs if name.startswith("veth"))
        ends: list[dict[str, str]] = [{"name": name, "mac": macs[name]} for name in ("plugbay0", veth, "eth0")]
        ends[2]["sandbox"] = "/var/run/netns/web"
        assert result == {
            "cniVersion": "1.0.0",
            "interfaces": ends,
            "ips": [
                {"address": "10.213.97.2/24", "gateway": "10.213.97.1", "interface": 2},
                {"address": "fd00:10:213:97::2/64", "gateway": "fd00:10:213:97::1", "interface": 2},
            ],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        }
        assert (await machine.cni("del", "web", "--remove-netns")).code == 0
        assert await machine.leavings() == ()


@needs_private_machine
async def test_container_gets_the_addresses_it_was_promised(tmp_path: Path) -> None:
    document = json.loads((EXAMPLES / "10-plugbay.conflist").read_bytes())
    bridge = document["plugins"][0] | {"capabilities": {"mac": True, "ips": True, "deviceID": True}}
    (tmp_path / "n.conflist").write_text(json.dumps(document | {"plugins": [bridge]}))
    wanted = ("mac", "02:0a:00:00:00:09"), ("ips", ["10.213.97.9/24", "fd00:10:213:97::9/64"])
    options = [part for name, value in wanted for part in ("--capability", f"{name}={json.dumps(value)}")]
    async with private_machine() as machine:
        result = await add(machine, "web", *options, "--conf-dir", str(tmp_path))
        assert [each["address"] for each in result["ips"]] == wanted[1][1]
        (link,) = json.loads(await machine.text("ip", "-n", "web", "-j", "link", "show", "eth0"))
        assert link["address"] == wanted[0][1]
        assert (await machine.cni("del", "web", "--remove-netns", "--conf-dir", str(tmp_path))).code == 0
        assert await machine.leavings() == ()


@needs_private_machine
async def test_failed_add_leaves_nothing() -> None:
    async with private_machine() as machine:
        await add(machine, "first")
        # Port mappings with a host address that is none pass bridge and fail in portmap.
        broken = ("--capability", 'portMappings=[{"hostPort":8080,"containerPort":80,"protocol":"foo"}]')
        argv = ("add", "web", "--netns", "web", "--make-netns", "--conf-dir", str(EXAMPLES))
        done = await machine.cni(*argv, *broken)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith('plugbay: error: plugin type="portmap" failed (add): ')
        assert (await machine.cni("del", "first", "--remove-netns")).code == 0
        assert await machine.leavings() == ()


@needs_private_machine
async def test_namespace_may_go_first() -> None:
    async with private_machine() as machine:
        await add(machine, "web", "--port", "8080:80")
        await machine.text("ip", "netns", "del", "web")
        assert await machine.cni("del", "web") == (0, "", "")
        left = await machine.leavings()
        # Without the namespace, the bridge plugin does not learn for which address it masqueraded.
        assert [each for each in left if "ACCEPT" not in each and "-A POSTROUTING" not in each] == []


@needs_private_machine
async def test_check_and_garbage_collection(tmp_path: Path) -> None:
    """With a list of its own: CHECK of portmap 1.1.1 fails for host ports, that of bandwidth crashes without limits."""
    document = json.loads((EXAMPLES / "10-plugbay.conflist").read_bytes())
    bridge, portmap, _ = document["plugins"]
    bridge["ipam"]["ranges"] = bridge["ipam"]["ranges"][:1]
    document["plugins"] = [bridge, portmap]
    (tmp_path / "n.conflist").write_text(json.dumps(document))
    conf = ("--conf-dir", str(tmp_path))
    async with private_machine() as machine:
        await add(machine, "kept", *conf)
        await add(machine, "stale", "--port", "8080:80", *conf)
        assert await machine.cni("check", "kept", *conf) == (0, "", "")
        rename = ("nsenter", "--net=/run/netns/kept", "ip", "link", "set")
        await machine.text(*rename, "eth0", "name", "lost")
        lost = await machine.cni("check", "kept", *conf, "-o", "json")
        assert (lost.code, json.loads(lost.out)["code"]) == (1, 999)
        await machine.text(*rename, "lost", "name", "eth0")
        assert await machine.cni("gc", "--keep", "kept", *conf) == (0, "", "")
        remembered = (await machine.text("ls", "/var/lib/cni/results")).split()
        assert remembered == ["cni-loopback-kept-lo", "cni-loopback-stale-lo", "plugbay-kept-eth0"]
        assert await machine.cni("gc", "--keep-none", *conf) == (0, "", "")
        assert await machine.text("ip", "netns", "del", "stale") == ""
        assert [each for each in await machine.leavings() if "/netns/" not in each and "loopback" not in each] == []


async def release() -> str:
    """Which of the recorded releases is installed."""
    newest = (await Plugins([BINARIES], environ={}).versions("loopback")).newest
    return {"1.0.0": "1.1.1", "1.1.0": "1.9.1"}.get(newest, "")


@needs_private_machine
@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
async def test_loopback_answers_as_recorded(version: str, tmp_path: Path) -> None:
    """The older release knows no 1.1.0, and says so."""
    name = f"lo ADD {version}"
    recorded = RECORDED.get((await release(), name))
    if recorded is None:
        pytest.skip("another release is installed than was recorded")
    (tmp_path / "lo.conflist").write_text(
        json.dumps({"name": "lo", "cniVersion": version, "plugins": [{"type": "loopback"}]})
    )
    async with private_machine() as machine:
        netns = "/run/netns/c1"
        argv = (
            "add",
            "c1",
            "--netns",
            netns,
            "--make-netns",
            "--ifname",
            "lo",
            "--conf-dir",
            str(tmp_path),
            "-o",
            "json",
        )
        done = await machine.cni(*argv)
    assert done.code == recorded.status, done
    answer = json.loads(recorded.output)
    expected = answer if recorded.status else encode(parse(answer, version=""))
    assert json.loads(done.out) == json.loads(json.dumps(expected).replace("$BASE/gns/c1", netns))


@needs_private_machine
@pytest.mark.parametrize(
    ("name", "plugin", "options"),
    [
        ("lo ADD gone netns", {"type": "loopback"}, {"netns": "/nope"}),
        ("lo ADD non netns", {"type": "loopback"}, {"netns": "/etc/hostname"}),
        ("version 9", {"type": "loopback"}, {"version": "9.0.0"}),
        ("pm no prev", {"type": "portmap"}, {"capability": True}),
        ("pm bad port", {"type": "portmap"}, {"hostPort": 0}),
        ("pm bad cport", {"type": "portmap"}, {"containerPort": 0}),
        ("pm both mark", {"type": "portmap", "externalSetMarkChain": "X", "markMasqBit": 5}, {}),
        ("pm bit 32", {"type": "portmap", "markMasqBit": 32}, {}),
        ("bw noprev", {"type": "bandwidth", "ingressRate": 8000, "ingressBurst": 8000}, {}),
        ("bw rate only", {"type": "bandwidth", "ingressRate": 8000}, {}),
        ("bw burst only", {"type": "bandwidth", "ingressBurst": 8000}, {}),
    ],
)
async def test_error_is_as_recorded(name: str, plugin: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    installed = await release()
    if (installed, name) not in RECORDED:
        pytest.skip("another release is installed than was recorded")
    able = plugin | {"capabilities": {"portMappings": True}}
    document = {"name": "n", "cniVersion": options.get("version", "1.0.0"), "plugins": [able]}
    (tmp_path / "n.conflist").write_text(json.dumps(document))
    mapping = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"} | options
    capability = f"portMappings={json.dumps([mapping])}"
    async with private_machine() as machine:
        assert (await machine("ip", "netns", "add", "c1")).code == 0
        netns = options.get("netns", "c1")
        argv = ("add", "cid1", "--netns", netns, "--capability", capability, "--conf-dir", str(tmp_path), "-o", "json")
        done = await machine.cni(*argv)
    assert done.code == 1
    said = json.loads(done.out)
    recorded = json.loads(RECORDED[installed, name].output)
    if name == "lo ADD non netns":  # the number is that of the file system it was recorded on
        said["msg"], recorded["msg"] = said["msg"].rpartition(" ")[0], recorded["msg"].rpartition(" ")[0]
    assert said == recorded
