"""``plugbay cni validate`` as a process: what it says about good and broken networks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.cni_command import GOOD, Cni

SEEDS = Path(__file__).parents[2] / "golden" / "cni" / "kubernetes-docs"
EXAMPLE = Path(__file__).parents[3] / "examples" / "cni" / "10-plugbay.conflist"


@pytest.fixture
def cni(plugbay: Plugbay, tmp_path: Path) -> Cni:
    return Cni(plugbay, tmp_path)


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
