"""``plugbay cni`` as a process, with plugins that are programs of ours."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Done, Plugbay
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine

SEEDS = Path(__file__).parents[2] / "golden" / "cni" / "kubernetes-docs"
EXAMPLE = Path(__file__).parents[3] / "examples" / "cni" / "10-plugbay.conflist"
GOOD: dict[str, Any] = {
    "cniVersion": "1.0.0",
    "name": "net",
    "plugins": [{"type": "first", "capabilities": {"portMappings": True}}, {"type": "second"}],
}


class Cni:
    """The command on one machine."""

    def __init__(self, plugbay: Plugbay, root: Path) -> None:
        self.machine = Machine(root)
        self.machine.install("first", MAKES)
        self.machine.install("second", PASSES)
        self.conf = root / "conf"
        self.conf.mkdir()
        self.options = ("--conf-dir", str(self.conf), "--bin-dir", str(self.machine.binaries))
        self.cached = ("--cache-dir", str(root / "cache"))
        self._plugbay = plugbay

    def configure(self, name: str = "10-net.conflist", content: object = GOOD) -> Path:
        path = self.conf / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    async def __call__(self, *argv: str) -> Done:
        return await self._plugbay("cni", *argv, *self.options, *self.cached)

    def start(self, *argv: str) -> Any:
        return self._plugbay.start("cni", *argv, *self.options, *self.cached)


@pytest.fixture
def cni(plugbay: Plugbay, tmp_path: Path) -> Cni:
    return Cni(plugbay, tmp_path)


async def test_container_is_attached_checked_and_detached(cni: Cni) -> None:
    cni.configure()
    added = await cni(
        "add", "c1", "--netns", "/run/netns/c1", "--port", "8080:80", "--args", "A=b;C=d", "--args", "E=f"
    )
    assert added.code == 0, added
    assert json.loads(added.out)["ips"][0] == {"address": "10.1.0.5/24", "interface": 0}
    first, _ = cni.machine.calls
    assert first["environ"]["CNI_ARGS"] == "A=b;C=d;E=f"
    mapping = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}
    assert first["config"]["runtimeConfig"] == {"portMappings": [mapping]}
    assert await cni("check", "c1") == (0, "", "")
    assert await cni("del", "c1") == (0, "", "")
    calls = cni.machine.calls
    assert [(each["plugin"], each["environ"]["CNI_COMMAND"]) for each in calls] == [
        *(("first", "CHECK"), ("second", "CHECK"), ("second", "DEL"), ("first", "DEL"))
    ]
    for each in calls:
        assert each["environ"]["CNI_ARGS"] == "A=b;C=d;E=f", "what it was given then"
        assert each["environ"]["CNI_NETNS"] == "/run/netns/c1"
    assert calls[-1]["config"]["runtimeConfig"] == {"portMappings": [mapping]}


async def test_namespace_may_be_a_name(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "web")).code == 0
    assert cni.machine.calls[0]["environ"]["CNI_NETNS"] == "/var/run/netns/web"


async def test_failed_add_is_undone(cni: Cni) -> None:
    cni.configure()
    cni.machine.install("second", 'if command == "ADD": fail(11, "not now", "later")')
    failed = await cni("add", "c1", "--netns", "/n", "-o", "json")
    assert failed.code == 1
    assert json.loads(failed.out) == {"code": 11, "msg": "not now", "details": "later"}
    assert failed.err == 'plugbay: error: plugin type="second" failed (add): not now; later\n'
    assert cni.machine.called() == [("first", "ADD"), ("second", "ADD"), ("second", "DEL"), ("first", "DEL")]


async def test_second_add_does_not_undo_the_first(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "/n")).code == 0
    assert cni.machine.calls
    again = await cni("add", "c1", "--netns", "/n")
    assert again == (2, "", "plugbay: error: container c1 is on network net already; see `plugbay cni del`\n")
    assert not cni.machine.calls
    assert (await cni("add", "c1", "--netns", "/n", "--ifname", "net1")).code == 0


async def test_one_of_several_interfaces_is_detached(cni: Cni) -> None:
    cni.configure()
    for ifname in ("eth0", "net1"):
        assert (await cni("add", "c1", "--netns", "/n", "--ifname", ifname)).code == 0
    assert await cni("del", "c1", "--ifname", "net1", "--netns", "/other") == (0, "", "")
    assert [each.name for each in cni.machine.results.iterdir()] == ["net-c1-eth0"]
    assert {each["environ"]["CNI_NETNS"] for each in cni.machine.calls[-2:]} == {"/other"}


async def test_arguments_of_del_are_used(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "/n", "--port", "8080:80", "--args", "A=b")).code == 0
    assert await cni("del", "c1", "--port", "8081:81", "--args", "C=d") == (0, "", "")
    first = cni.machine.calls[-1]
    assert first["environ"]["CNI_ARGS"] == "C=d"
    assert [each["hostPort"] for each in first["config"]["runtimeConfig"]["portMappings"]] == [8081]


async def test_hung_plugin_is_ended(cni: Cni) -> None:
    cni.configure()
    for name in ("first", "second"):  # in sh, which undoes it long before the time is up
        cni.machine.install(name, 'if [ "$CNI_COMMAND" = ADD ]; then sleep 600; fi\n', head="#!/bin/sh\n")
    hung = await cni("add", "c1", "--netns", "/n", "--timeout", "2s")
    assert hung.code == 1
    assert hung.err.endswith("/first did not end within 2 s and was killed\n")


async def test_killed_add_can_be_undone(cni: Cni, tmp_path: Path) -> None:
    """SIGKILL in the middle: the plugins are asked to undo what they did, with or without what is remembered."""
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    cni.configure()
    hang = f"import time\nif command == 'ADD': open({str(fifo)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    cni.machine.install("second", hang)
    async with cni.start("add", "c1", "--netns", "/n") as process:
        orphan = int(await asyncio.to_thread(fifo.read_text))
        process.kill()
        await process.wait()
    os.kill(orphan, signal.SIGKILL)
    assert cni.machine.calls
    assert await cni("del", "c1") == (0, "", "")
    assert cni.machine.called() == [("second", "DEL"), ("first", "DEL")]


async def test_garbage_needs_an_answer_about_what_to_keep(cni: Cni) -> None:
    cni.configure()
    for container in ("c1", "c2"):
        await cni("add", container, "--netns", "/n")
    assert cni.machine.calls
    asked = await cni("gc")
    assert (asked.code, asked.out) == (2, "")
    assert "one of the arguments --keep --keep-none is required" in asked.err
    assert await cni("gc", "--keep", "c1", "--keep", "c9:net1") == (0, "", "")
    assert {each["environ"]["CNI_CONTAINERID"] for each in cni.machine.calls} == {"c2"}


async def test_status_tells_who_is_ready(cni: Cni) -> None:
    cni.configure("10-net.conflist", GOOD | {"cniVersion": "1.1.0"})
    cni.configure("20-gone.conf", {"name": "gone", "cniVersion": "1.0.0", "type": "nope"})
    cni.configure("30-bad.conflist", "{")
    shown = await cni("status")
    assert shown.code == 1
    lines = [line.split(None, 4) for line in shown.out.splitlines()]
    assert lines[0] == ["NETWORK", "VERSION", "PLUGINS", "READY", "REASON"]
    assert lines[1] == ["net", "1.1.0", "first,second", "True"]
    assert lines[2][:4] == ["gone", "1.0.0", "nope", "False"]
    assert lines[3][:4] == ["<none>", "<none>", "<none>", "False"]
    assert cni.machine.called() == [("first", "STATUS"), ("second", "STATUS")]
    one = await cni("status", "--network", "net", "-o", "json")
    ready = {"ready": True, "reason": "", "plugins": ["first", "second"], "network": "net", "cniVersion": "1.1.0"}
    assert (one.code, json.loads(one.out)) == (0, [ready])


async def test_status_names_a_version_that_nobody_knows(cni: Cni) -> None:
    cni.configure("10-net.conflist", GOOD | {"cniVersion": "9.9.9"})
    shown = await cni("status")
    assert shown.code == 1
    assert shown.out.splitlines()[1].split(None, 4)[3:] == [
        "False",
        "9.9.9 is not a version of the CNI specification that plugbay knows; there are "
        "0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    ]
    assert cni.machine.called() == []


async def test_versions_are_asked(cni: Cni) -> None:
    cni.machine.install("old", 'if command == "VERSION": fail(4, "unknown CNI_COMMAND: VERSION")', head=OLD)
    shown = await cni("version")
    assert shown == (
        0,
        "PLUGIN   VERSIONS\nfirst    0.4.0, 1.0.0, 1.1.0\nold      0.1.0\nsecond   0.4.0, 1.0.0, 1.1.0\n",
        "",
    )
    assert (await cni("version", "nope")).out == "", "no table without a row"
    missing = await cni("version", "first", "nope", "-o", "json")
    assert missing.code == 1
    assert [each["plugin"] for each in json.loads(missing.out)] == ["first"]
    assert missing.err.startswith('plugbay: error: failed to find plugin "nope" in path [')


async def test_no_plugin_is_said_beside_the_output(plugbay: Plugbay, tmp_path: Path) -> None:
    assert await plugbay("cni", "version", "--bin-dir", str(tmp_path)) == (0, "", "No CNI plugins found.\n")


OLD = """#!/bin/sh
echo '{"code": 4, "msg": "unknown CNI_COMMAND: VERSION"}'; exit 1
"""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("add", "../x", "--netns", "/n"), 'container ID "../x" has to begin with'),
        (("add", "c1", "--netns", "/n", "--ifname", "a/b"), 'interface name "a/b" contains / or : or whitespace'),
        (("add", "c1", "--netns", "/n", "--ifname", "x" * 16), "is longer than 15 bytes"),
        (("add", "c1", "--netns", "/n", "--args", "novalue"), "--args wants NAME=VALUE, found 'novalue'"),
        (("add", "c1", "--netns", "/n", "--args", "a=b=c"), 'argument "a=b=c" needs a name, and can hold no'),
        (("add", "c1", "--netns", "/n", "--port", "99999:80"), "host port 99999 is not between 0 and 65535"),
        (("add", "c1", "--netns", "/n", "--port", "80"), "wants [IP:]HOST:CONTAINER[/PROTOCOL]"),
        (("add", "c1", "--netns", "/n", "--port", "80:80/icmp"), "'ICMP' is not a valid Protocol"),
        (("add", "c1", "--netns", "/n", "--capability", "mac={"), "--capability mac: not JSON"),
        (("add", "c1", "--netns", "/n", "--annotation", "kubernetes.io/ingress-bandwidth=5"), "unreasonably small"),
        (("add", "c1", "--netns", "/n", "--network", "nope"), 'no CNI network named "nope" in '),
        (("add", "c1", "--netns", "/n", "--timeout", "0"), "wants a time above 0"),
        (("validate", "/nope.conflist"), "/nope.conflist: cannot be read: No such file or directory"),
        (("validate", "--annotation", "kubernetes.io/egress-bandwidth=x"), "is not a number"),
    ],
)
async def test_nonsense_is_refused_before_anything_runs(cni: Cni, argv: tuple[str, ...], message: str) -> None:
    cni.configure()
    refused = await cni(*argv)
    assert refused.code in (1, 2)
    assert message in refused.err
    assert refused.err.startswith("plugbay: error: ")
    assert (refused.out, cni.machine.called()) == ("", [])


async def test_no_network_is_told(cni: Cni) -> None:
    told = f"plugbay: error: no CNI network in {cni.conf}; put a .conflist file there\n"
    for argv in (("add", "c1", "--netns", "/n"), ("del", "c1"), ("status",), ("validate",)):
        assert await cni(*argv) == (1, "", told)


@pytest.mark.parametrize("name", ["portmap", "bandwidth"])
async def test_lists_of_the_kubernetes_documentation_are_valid(cni: Cni, name: str) -> None:
    cni.machine.install("host-local", "")
    cni.machine.install(name, "")
    path = SEEDS / f"{name}.conflist"
    shown = await cni("validate", str(path))
    assert (shown.code, shown.err) == (0, "")
    missing, hint, valid = shown.out.splitlines()
    assert missing == f'{path}:6:1: warning: plugins[0].type: no binary "calico" in {cni.machine.binaries}'
    assert hint == "  hint: it comes with Calico, whose pod on each node puts it there; install that first"
    assert valid.startswith(f'{path}: valid: network "k8s-pod-network", version 0.4.0, plugins calico, {name}; ')


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "missing binary": (lambda it: it["plugins"].append({"type": "nope"}), 'plugins[2].type: no binary "nope" in '),
    "official": (lambda it: it["plugins"].append({"type": "tuning"}), "package containernetworking-plugins"),
    "binary's version": (lambda it: it.update(cniVersion="0.3.1"), 'binary "first" cannot use version 0.3.1'),
    "no such version": (lambda it: it.update(cniVersion="1.0"), "1.0 is not a version of the CNI specification"),
    "chained first": (lambda it: it["plugins"].insert(0, {"type": "portmap"}), "cannot be the first"),
    "type": (lambda it: it["plugins"][0].update(type="a/b"), "'a/b' is not a file name"),
    "subnet": (lambda it: it["plugins"].insert(0, bridge("10.0.0.0")), "'10.0.0.0' is not a subnet, such as"),
    "host-bits": (
        lambda it: it["plugins"].insert(0, bridge("10.0.0.5/24")),
        "10.0.0.5/24 is an address, not a network, which would be 10.0.0.0/24",
    ),
    "small": (lambda it: it["plugins"].insert(0, bridge("10.0.0.0/31")), "network 10.0.0.0/31 is too small"),
    "range": (lambda it: it["plugins"].insert(0, bridge("10.9.0.0/24", rangeEnd="10.8.0.9")), "10.8.0.9 is not in"),
    "no ranges": (lambda it: it["plugins"].insert(0, bridge("")), "no IP ranges specified"),
    "flat ranges": (
        lambda it: it["plugins"].insert(0, {"type": "bridge", "ipam": {"type": "host-local", "ranges": [{}]}}),
        "plugins[0].ipam.ranges[0]: is an object, not a list of ranges",
    ),
    "kind": (lambda it: it["plugins"].insert(0, {"type": "bridge", "mtu": "1400"}), "mtu: is a text, not an integer"),
    "truth": (lambda it: it["plugins"].insert(0, {"type": "bridge", "vlan": True}), "vlan: is true, not an integer"),
    "ipam": (lambda it: it["plugins"].insert(0, {"type": "bridge", "ipam": "x"}), "ipam is a text, not an object"),
    "ipam type": (lambda it: it["plugins"].insert(0, {"type": "bridge", "ipam": {"a": 1}}), "ipam: missing 'type'"),
    "name": (lambda it: it.update(name="a b"), "invalid characters found in network name"),
    "portmap": (lambda it: it["plugins"].append({"type": "portmap", "markMasqBit": 32}), "between 0 and 31"),
    "backend": (lambda it: it["plugins"].append({"type": "portmap", "backend": "ipvs"}), "unrecognized backend"),
    "rate": (lambda it: it["plugins"].append({"type": "bandwidth", "ingressRate": 5}), "ingressBurst must also be set"),
    "burst": (lambda it: it["plugins"].append({"type": "bandwidth", "egressRate": 1, "egressBurst": 2**36}), "4 GB"),
    "ptp": (lambda it: it["plugins"].insert(0, {"type": "ptp"}), "ptp needs ipam"),
    "bridge": (
        lambda it: it["plugins"].insert(0, {"type": "bridge", "hairpinMode": True, "promiscMode": True}),
        "cannot set hairpin mode and promiscuous mode",
    ),
}


def bridge(subnet: str, **members: str) -> dict[str, Any]:
    return {"type": "bridge", "ipam": {"type": "host-local", "subnet": subnet, **members}}


@pytest.mark.parametrize("case", BROKEN)
async def test_broken_list_is_explained(cni: Cni, case: str) -> None:
    document = json.loads(json.dumps(GOOD))
    damage, problem = BROKEN[case]
    damage(document)
    path = cni.configure(content=document)
    shown = await cni("validate")
    assert (shown.code, shown.err) == (1, "")
    assert problem in shown.out
    assert shown.out.startswith(f"{path}:")
    assert ": valid: " not in shown.out


async def test_syntax_error_has_a_place(cni: Cni) -> None:
    path = cni.configure(content='{\n  "name": "n",\n  "plugins": [,]\n}\n')
    assert await cni("validate") == (1, f"{path}:3:15: error: not JSON: expecting value\n", "")
    listed = await cni("validate", "-o", "json")
    (finding,) = json.loads(listed.out)
    assert (finding["severity"], finding["file"], finding["line"], finding["column"]) == ("error", str(path), 3, 15)


async def test_what_a_pod_needs_has_to_be_there(cni: Cni, tmp_path: Path) -> None:
    cni.configure()
    assert (await cni("validate", "--port", "8080:80")).code == 0
    needs = await cni("validate", "--annotation", "kubernetes.io/ingress-bandwidth=1M")
    assert needs.code == 1
    assert "error: plugins: the pod needs the capability bandwidth, which no plugin of the list has\n" in needs.out
    cni.configure("20-next.conflist", {"cniVersion": "1.0.0", "name": "next", "plugins": [{"type": "first"}]})
    assert (await cni("validate", "--port", "8080:80")).code == 0, "pods get the first"
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {kubernetes.io/egress-bandwidth: 1M}}\n"
        "spec: {containers: [{name: c, image: x, ports: [{containerPort: 80, hostPort: 8080}]}]}\n"
    )
    assert (await cni("validate", "--pod", str(pod))).out.splitlines()[0] == needs.out.splitlines()[0]


HOST_PORTS = [{"containerPort": 80, "hostPort": 8080}]


@pytest.mark.parametrize(
    ("ports", "spec", "code"),
    [
        (HOST_PORTS, {}, 1),
        ([{"containerPort": 80}], {}, 0),
        ([{"containerPort": 8080}], {"hostNetwork": True}, 0),
    ],
    ids=["host port", "no host port", "host's network"],
)
async def test_pods_own_host_ports_need_a_plugin(
    cni: Cni, tmp_path: Path, ports: list[dict[str, int]], spec: dict[str, Any], code: int
) -> None:
    cni.configure(content={"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "first"}]})
    spec = {"containers": [{"name": "c", "image": "x"}, {"name": "d", "image": "x", "ports": ports}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / "pod.yaml").write_text(json.dumps(pod))
    shown = await cni("validate", "--pod", str(tmp_path / "pod.yaml"))
    assert (shown.code, shown.err) == (code, "")
    assert ("error: plugins: the pod needs the capability portMappings" in shown.out) is (code == 1)


@pytest.mark.parametrize(
    ("engine", "members", "code"),
    [
        ("containerd-1", {"cniVersion": "1.1.0"}, 1),
        ("containerd-2", {"cniVersion": "1.1.0"}, 0),
        ("containerd-1", {"cniVersions": ["1.1.0"]}, 0),
        ("plugbay", {"cniVersions": ["1.1.0"]}, 0),
    ],
)
async def test_version_must_suit_the_engine(cni: Cni, engine: str, members: dict[str, Any], code: int) -> None:
    cni.configure(content=GOOD | members)
    shown = await cni("validate", "--engine", engine)
    assert shown.code == code
    assert ("containerd-1 cannot use version 1.1.0; it knows 1.0.0" in shown.out) is bool(code)


async def test_networks_must_not_overlap(cni: Cni) -> None:
    for kind in ("bridge", "host-local"):
        cni.machine.install(kind, "")
    for name, subnet in (("10-a", "10.201.0.0/16"), ("20-b", "10.201.7.0/24"), ("30-c", "127.1.0.0/16")):
        cni.configure(f"{name}.conflist", {"cniVersion": "1.0.0", "name": name, "plugins": [bridge(subnet)]})
    shown = await cni("validate")
    assert shown.code == 1
    assert "20-b.conflist:" in shown.out
    assert "plugins[0].ipam.subnet: 10.201.7.0/24 overlaps 10.201.0.0/16 of network 10-a\n" in shown.out


async def test_order_and_names_are_looked_at(cni: Cni) -> None:
    cni.configure("100-a.conf", {"cniVersion": "1.0.0", "name": "net", "type": "first"})
    cni.configure("20-b.conflist")
    shown = await cni("validate")
    assert shown.code == 0
    assert 'warning: name: another network is named "net" too' in shown.out
    assert "20-b.conflist: warning: comes after 100-a.conf: names are sorted as texts, not as numbers" in shown.out
    assert "pods get the single plugin of 100-a.conf, which comes first, and not this list" in shown.out


async def test_plugins_beside_a_list_are_looked_at(cni: Cni) -> None:
    cni.configure(content={"cniVersion": "1.0.0", "name": "net"})
    assert "error: error parsing configuration list: no plugin configs found" in (await cni("validate")).out
    (cni.conf / "net").mkdir()
    (cni.conf / "net" / "1.conf").write_text('{"type": "first"}')
    assert (await cni("validate")).code == 0
    assert (await cni("add", "c1", "--netns", "/n")).code == 0
    (cni.conf / "net" / "2.conf").write_text("{")
    assert f"{cni.conf / 'net' / '2.conf'}: error: not JSON" in (await cni("validate")).out


async def test_misspelled_members_are_noticed(cni: Cni) -> None:
    cni.machine.install("bridge", "")
    cni.configure(
        content=GOOD | {"plugins": [{"type": "bridge", "isGatway": True, "MTU": 1400}], "cniversion": "1.0.0"}
    )
    shown = await cni("validate")
    assert 'plugins[0].isGatway: is not known here, and ignored\n  hint: did you mean "isGateway"?' in shown.out
    assert 'cniversion: is not known here, and ignored\n  hint: did you mean "cniVersion"?' in shown.out
    assert "MTU" not in shown.out


async def test_limits_that_are_ignored_are_noticed(cni: Cni) -> None:
    cni.machine.install("bandwidth", "")
    limits = {"type": "bandwidth", "ingressRate": 8000, "ingressBurst": 8000}
    for capabilities, ignored in (({}, False), ({"bandwidth": True}, True)):
        document = GOOD | {"plugins": [{"type": "first"}, limits | {"capabilities": capabilities}]}
        cni.configure(content=document)
        shown = await cni("validate")
        assert (shown.code, "the limits of pods are ignored" in shown.out) == (0, ignored)


async def test_example_is_valid(cni: Cni) -> None:
    for kind in ("bridge", "host-local", "portmap", "bandwidth"):
        cni.machine.install(kind, "")
    wishes = shlex.split("--port 8080:80 --annotation kubernetes.io/ingress-bandwidth=1M --engine containerd-1")
    shown = await cni("validate", str(EXAMPLE), *wishes)
    assert shown.code == 0, shown
    assert shown.out.startswith(f'{EXAMPLE}: valid: network "plugbay"'), "not even a warning"
