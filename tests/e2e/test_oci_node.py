"""A node with real containers on a real pod network, as processes of their own in namespaces of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.kernel.cgroups import hierarchies
from tests.contract.cni.test_official import ASK_TCP, ASK_UDP, ECHO
from tests.contract.conftest import DEADLINE_S, Done, Plugbay
from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import BINARIES, PrivateMachine, needs_private_machine, private_machine

ROOT = Path(__file__).parents[2]
PYTHON = str(Path(sys.executable).resolve())
"""In a container too, wherever the virtual environment lies: /tmp is the container's own."""
NETWORKS = ROOT / "examples" / "cni"
pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.timeout(120)]


class Node:
    """A node on a private machine, and the command to talk to it."""

    def __init__(self, machine: PrivateMachine, plugbay: Plugbay) -> None:
        self.machine = machine
        self.plugbay = plugbay

    @asynccontextmanager
    async def up(self) -> AsyncIterator[asyncio.subprocess.Process]:
        options = ("--runtime", "oci", "--cni-conf-dir", str(NETWORKS), "--cni-bin-dir", str(BINARIES))
        argv = (sys.executable, "-m", "plugbay", "--root", str(self.plugbay.root), "node", "up", "--name", "n1")
        async with self.machine.start(*argv, "--log-level", "warning", *options) as process:
            await self.plugbay.line_with(process, "SIGTERM or Ctrl-C stops the node and leaves its pods running")
            try:
                yield process
            except BaseException:
                await self.plugbay("pod", "delete", "--all", "--force")
                raise

    async def run(self, name: str, *argv: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        main = {"name": "main", "command": list(argv), **spec.pop("container", {})}
        metadata = {"name": name, "annotations": annotations or {}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [main], **spec}}
        done = await self.plugbay("pod", "run", "-f", "-", given=json.dumps(pod))
        assert done.code == 0, done

    async def pod(self, name: str) -> Any:
        return json.loads((await self.plugbay("pod", "get", name, "-o", "json")).out)

    async def exec(self, name: str, *argv: str) -> Done:
        return await self.plugbay("pod", "exec", name, "--", *argv)

    async def until_event(self, text: str) -> str:
        async with asyncio.timeout(DEADLINE_S), self.plugbay.start("events", "-w") as watch:
            return await self.plugbay.line_with(watch, text)


@pytest.fixture
def plugbay(sockets: Path) -> Plugbay:
    return Plugbay(sockets)


@pytest.fixture
def nothing_left(plugbay: Plugbay) -> Any:
    async def check(machine: PrivateMachine) -> None:
        await machine.text("mkdir", "-p", "/run/netns", "/var/lib/cni/results", "/var/lib/cni/networks")
        assert await machine.leavings() == ()
        oci = plugbay.root / "oci"
        there = [each for each in oci.rglob("*") if not each.is_dir() and not each.is_relative_to(oci / "etc")]
        assert [each for each in there if each.is_socket() or each.stat().st_size] == []
        assert str(plugbay.root) not in await machine.text("cat", "/proc/self/mountinfo")
        own = hashlib.sha256(bytes(plugbay.root)).hexdigest()[:8]
        assert not [each for root in hierarchies(proc_root=Path("/proc")) for each in root.glob(f"*{own}*")]

    return check


@pytest.mark.e2e
@needs_private_machine
async def test_pods_have_networks_ports_and_limits_and_survive_the_node(plugbay: Plugbay, nothing_left: Any) -> None:
    async with private_machine() as machine:
        node = Node(machine, plugbay)
        ports = [
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
        ]
        limits = {"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "8M"}
        async with node.up() as process:
            await node.run("web", PYTHON, "-c", ECHO, annotations=limits, container={"ports": ports})
            await node.run("client", "sleep", "600")
            await node.run("host", "sleep", "600", hostNetwork=True)
            for name in ("web", "client", "host"):
                await plugbay.until_running(name)
            async with plugbay.start("pod", "logs", "-f", "web") as log:
                await plugbay.line_with(log, "ready")
            status = (await node.pod("web"))["status"]
            ip, other = (each["ip"] for each in status["podIPs"])
            assert (status["podIP"], ip.split(".")[0], other.split(":")[0]) == (ip, "10", "fd00")
            on_host = (await node.pod("host"))["status"]
            assert on_host["podIP"] == on_host["hostIP"]
            assert len(await machine.shapers()) == 2
            assert await node.exec("client", PYTHON, "-c", ASK_TCP, ip, "80") == (0, "GOPHER\n", "")
            assert await machine.python(ASK_TCP, "127.0.0.1", "8080") == "GOPHER\n"
            assert await machine.python(ASK_UDP, "127.0.0.1", "5353") == "GOPHER\n"
            links = await node.exec("host", "ls", "/sys/class/net")
            assert "plugbay0" in links.out
            process.kill()
            await process.wait()
        before = status["containerStatuses"][0]["containerID"]
        assert await machine.python(ASK_TCP, "127.0.0.1", "8080") == "GOPHER\n", "no node is needed for that"
        async with node.up() as process:
            await plugbay.until_running("web")
            status = (await node.pod("web"))["status"]
            assert (status["podIP"], status["containerStatuses"][0]["containerID"]) == (ip, before)
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            await nothing_left(machine)
            process.terminate()
            await process.wait()


@pytest.mark.e2e
@needs_private_machine
async def test_what_a_network_cannot_do_is_refused_before_a_sandbox_is_made(
    plugbay: Plugbay, nothing_left: Any
) -> None:
    async with private_machine() as machine:
        node = Node(machine, plugbay)
        async with node.up() as process:
            await node.run("bad", "sleep", "600", annotations={"kubernetes.io/ingress-bandwidth": "much"})
            event = await node.until_event("FailedCreatePodSandBox")
            assert "kubernetes.io/ingress-bandwidth" in event
            await node.run("kata", "sleep", "600", runtimeClassName="kata")
            event = await node.until_event('runtimeclass.node.k8s.io "kata" not found')
            assert (await node.pod("bad"))["status"]["phase"] == "Pending"
            assert not list((plugbay.root / "oci").glob("netns/*"))
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            await nothing_left(machine)
            process.terminate()
            await process.wait()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ("--runtime", "process", "--cni-conf-dir", "/x"),
            "--cni-conf-dir needs --runtime oci: the process runtime confines nothing",
        ),
        (("--runtime", "oci", "--oci-engine", "nope"), "no OCI engine runs containers here: nope: not found"),
        (("--runtime", "oci", "--oci-rootfs", "/nope"), "/nope: is not a directory, and containers need one"),
        (("--runtime", "oci"), "holds containers of the process runtime; delete their pods with --runtime process"),
        (("--runtime=oci",), "holds containers that other runs; delete their pods with --oci-engine other first"),
    ],
)
async def test_node_that_cannot_run_containers_says_why(
    plugbay: Plugbay, options: tuple[str, ...], problem: str
) -> None:
    if options == ("--runtime", "oci"):
        (plugbay.root / "containers" / "u_c_0").mkdir(parents=True)
    if options == ("--runtime=oci",):
        (plugbay.root / "oci" / "engine" / "other" / "c1").mkdir(parents=True)
    done = await plugbay("node", "up", "--log-level", "warning", *options)
    assert done.code != 0
    assert problem in done.err
    assert "Traceback" not in done.err
