"""Pods on a real containerd: what they are granted arrives, and nothing is lost, doubled or left."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.kernel.cgroups import hierarchies
from plugbay.model.cri import SandboxState
from plugbay.wire.cri import CriClient
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.test_cli_exec import SHELL, terminal
from tests.e2e.containerd import Containerd, knows_cdi, version
from tests.e2e.images import BUSYBOX, ECHO

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROC: Final = Path("/proc")
PLUGIN: Final = """
from pathlib import Path
from plugbay import Device, DeviceNode, Mount, plugin

@plugin("example.com/fuse")
def fuses() -> list[Device]:
    return [
        Device(
            name,
            env={"GOPHER": name},
            mounts=[Mount("/gopher", %r, read_only=True)],
            device_nodes=[DeviceNode("/dev/gopher", "/dev/fuse")],
        )
        for name in ("f0", "f1")
    ]

@plugin("example.com/plain")
def plain() -> list[Device]:
    return [Device("p0", cdi_devices=["example.com/cdi=plain"])]

@plugin("example.com/hooked")
def hooked() -> list[Device]:
    return [Device("h0", cdi_devices=["example.com/cdi=hooked"])]
"""
LOOK: Final = """
echo $GOPHER
(exec 3<>/dev/gopher) && echo opened
mknod /tmp/kvm c 10 232 && (exec 3<>/tmp/kvm) 2>&1 | sed "s/.*: //"
touch /gopher/new 2>/dev/null || echo read-only
cat /gopher/word
"""
SURROUNDED: Final = """
hostname
cat /etc/resolv.conf
tail -n1 /etc/hosts
echo $(id -u) $(id -G)
stat -c %g /v
touch /new 2>/dev/null || echo read-only
cat /proc/sys/net/ipv4/ip_unprivileged_port_start
grep -h Seccomp: /proc/self/status
grep -h NoNewPrivs: /proc/self/status
grep -h CapBnd: /proc/self/status
test $$ != 1 && echo not first
echo farewell > /dev/termination-log
"""
SERVE: Final = "while true; do echo tcp | nc -l -p 8080; done"
ASK: Final = """
import socket, sys, time
kind = socket.SOCK_STREAM if sys.argv[1] == "tcp" else socket.SOCK_DGRAM
deadline = time.monotonic() + 20
while True:
    with socket.socket(socket.AF_INET, kind) as asking:
        asking.settimeout(20)
        try:
            asking.connect((sys.argv[2], int(sys.argv[3])))
            if sys.argv[1] == "udp":
                asking.send(b"udp")
            sys.stdout.write(asking.recv(99).decode())
            break
        except (ConnectionRefusedError, ConnectionResetError):
            # It serves one after the other, and does not listen in between, nor at first.
            if time.monotonic() > deadline:
                raise
    time.sleep(0.02)
"""
ECHO_UDP: Final = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
    echo.bind(("", 5353))
    print("bound", flush=True)
    word, asker = echo.recvfrom(99)
    echo.sendto(word, asker)
"""


class Node(Plugbay):
    """The command, on a root whose node runs pods on ``engine``."""

    def __init__(self, root: Path, engine: Containerd) -> None:
        super().__init__(root)
        self.engine = engine

    def inside(self) -> Node:
        """The same on the engine's own network, where its streams can be reached."""
        made = Node(self.root, self.engine)
        made._argv = (*self.engine.network, *self._argv)
        return made

    @asynccontextmanager
    async def up(self, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
        async with self.node_up("--runtime", "cri", "--cri-socket", str(self.engine.socket), *options) as node:
            yield node

    async def apply(self, *pods: dict[str, Any]) -> None:
        done = await self("pod", "apply", "-f", "-", given="\n---\n".join(map(json.dumps, pods)))
        assert done.code == 0, done

    async def pod(self, name: str) -> dict[str, Any]:
        done = await self("pod", "get", name, "-o", "json")
        assert done.code == 0, done
        found: dict[str, Any] = json.loads(done.out)
        return found

    async def wait(self, name: str, what: str) -> None:
        done = await self("pod", "wait", f"--for={what}", name, "--timeout=28s")
        assert done.code == 0, (done, (await self("pod", "describe", name)).out)

    async def ended(self, name: str, phase: str) -> dict[str, Any]:
        """How the only container of a pod ended."""
        await self.wait(name, f"jsonpath={{.status.phase}}={phase}")
        end: dict[str, Any] = container(await self.pod(name))["state"]["terminated"]
        return end

    async def log(self, name: str, *options: str) -> str:
        done = await self("pod", "logs", name, *options)
        assert done.code == 0, done
        return done.out


def cgroups(root: Path) -> str:
    """The pattern of the names of pods' cgroups, on the node that lives in ``root``."""
    return f"plugbay-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}-*"


@pytest.fixture
def node(sockets: Path, engine: Containerd) -> Iterator[Node]:
    made = Node(sockets, engine)
    yield made
    engine.until_no_more_than(0)  # what was broken off is cleared away by and by
    assert [each for root in hierarchies(proc_root=PROC) for each in root.glob(cgroups(sockets))] == []
    engine.until_nothing_runs()
    assert engine.leavings() == []
    assert list((sockets / "logs/pods").glob("*")) == []
    assert [each for each in sockets.rglob("*") if each.is_socket()] == []


@pytest.fixture
async def plugin(node: Node, tmp_path: Path) -> AsyncIterator[None]:
    """Two devices, each of them ``/dev/fuse`` under another name."""
    (tmp_path / "word").write_text("hello\n")
    (tmp_path / "plugin.py").write_text(PLUGIN % str(tmp_path))
    async with node.start("serve", str(tmp_path / "plugin.py"), "--log-level", "error") as serving:
        yield
        serving.terminate()
        await serving.wait()


def pod(name: str, script: str = "", *, image: str = BUSYBOX, restart: str = "Always", **fields: Any) -> dict[str, Any]:
    """``fields`` are the container's; those of the spec come in a mapping ``spec``, of the metadata in ``metadata``."""
    spec, metadata = fields.pop("spec", {}), fields.pop("metadata", {})
    command = {"command": ["sh", "-c", script]} if script else {}
    only = {"name": "main", "image": image, **command, **fields}
    # A shell that is PID 1 ignores SIGTERM.
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [only], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def cdi(name: str) -> dict[str, Any]:
    """Of a container that is given a CDI device."""
    return {"resources": {"limits": {f"example.com/{name}": "1"}}}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (status,) = pod["status"]["containerStatuses"]
    found: dict[str, Any] = status
    return found


FUSE: Final[dict[str, Any]] = {"resources": {"limits": {"example.com/fuse": "1"}}}


@pytest.mark.usefixtures("plugin")
async def test_a_granted_device_arrives_and_no_other(node: Node) -> None:
    async with node.up():
        await node.apply(pod("looks", LOOK, restart="Never", **FUSE))
        await node.ended("looks", "Succeeded")
        assert await node.log("looks") == "f0\nopened\nOperation not permitted\nread-only\nhello\n"


@pytest.mark.usefixtures("plugin")
async def test_init_container_hands_its_device_on_and_the_sidecar_stays(node: Node) -> None:
    note: dict[str, Any] = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}
    init = {"name": "init", "image": BUSYBOX, "command": ["sh", "-c", "echo $GOPHER > /notes/had"], **FUSE, **note}
    sidecar = {"name": "side", "image": BUSYBOX, "command": ["sleep", "1000"], "restartPolicy": "Always"}
    spec = {"initContainers": [init, sidecar], "volumes": [{"name": "notes", "emptyDir": {}}]}
    async with node.up():
        await node.apply(
            pod("reuses", "echo had $(cat /notes/had), have $GOPHER; sleep 1000", **FUSE, **note, spec=spec)
        )
        await node.wait("reuses", "condition=Ready")
        async with node.start("pod", "logs", "-f", "reuses") as log:
            await node.line_with(log, "had f0, have f0")
        done = await node("pod", "exec", "reuses", "-c", "side", "--", "hostname")
        assert (done.code, done.out) == (0, "reuses\n")


async def test_containers_end_as_a_kubelet_tells_it(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("well", "exit 0", restart="Never"),
            pod("badly", "echo bad >&2; exit 3", restart="Never", terminationMessagePolicy="FallbackToLogsOnError"),
            pod("never", restart="Never", command=["/no/such"]),
            pod("eats", "tail /dev/zero", restart="Never", resources={"limits": {"memory": "24Mi"}}),
        )
        well, badly = await node.ended("well", "Succeeded"), await node.ended("badly", "Failed")
        assert (well["exitCode"], well["reason"]) == (0, "Completed")
        assert (badly["exitCode"], badly["reason"], badly["message"]) == (3, "Error", "bad\n")
        never = await node.ended("never", "Failed")
        assert (never["exitCode"], never["reason"]) == (128, "StartError")
        assert "/no/such" in never["message"]
        assert 'container "main" in pod "never" is terminated' in (await node("pod", "logs", "never")).err
        eats = await node.ended("eats", "Failed")
        assert (eats["exitCode"], eats["reason"]) == (137, "OOMKilled")
        assert await node.log("badly") == "bad\n"


async def test_exec_logs_and_stop(node: Node) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo 1; printf 2; sleep 0.1; echo 3; while true; do sleep 0.1; done"
    async with node.up():
        await node.apply(
            pod("talks", script, spec={"terminationGracePeriodSeconds": 20}),
            pod("absent", image="localhost/test/none:1", imagePullPolicy="Never"),
        )
        early = await node("pod", "logs", "-f", "absent")
        assert (early.code, 'container "main" in pod "absent" is waiting to start: ' in early.err) == (1, True), early
        await node.wait("talks", "condition=Ready")
        async with node.start("pod", "logs", "-f", "talks") as log:
            await node.line_with(log, "23")
            assert await node.log("talks", "--tail", "1") == "23\n"
            time, _, text = (await node.log("talks", "--tail", "1", "--since", "1h", "--timestamps")).partition(" ")
            assert (text, datetime.fromisoformat(time).tzinfo is not None) == ("23\n", True)
            done = await node("pod", "exec", "talks", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
            assert done == (7, "out\n", "err\ncommand terminated with exit code 7\n")
            done = await node("pod", "exec", "talks", "--", "nope")
            assert done.code == 126
            assert "executable file not found" in done.err
            done = await node("pod", "exec", "-i", "talks", "--", "cat", given="x")
            assert (done.code, "cannot be reached" in done.err) == (126, True), done
            assert "it listens on loopback, which only who is in the engine's network namespace can reach" in done.err
            await node("pod", "delete", "talks")
            await node.line_with(log, "bye")


async def test_commands_have_input_and_terminals(node: Node) -> None:
    inside = node.inside()
    async with inside.up():
        await node.apply(pod("talks", "sleep 1000"))
        await node.wait("talks", "condition=Ready")
        text = "".join(f"line {number}\n" for number in range(50_000))
        assert await node("pod", "exec", "-i", "talks", "--", "cat", given=text) == (0, text, "")
        done = await node("pod", "exec", "-i", "talks", "--", "sh", "-c", "wc -c; echo blue >&2; exit 4", given="abc")
        assert done == (4, "3\n", "blue\ncommand terminated with exit code 4\n")
        assert (await node("pod", "exec", "-i", "talks", "--", "true", given="x" * 1_000)).code == 0
        done = await node("pod", "exec", "-i", "talks", "--", "nope")
        assert (done.code, "executable file not found" in done.err) == (126, True)
        with terminal() as tty:
            streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
            argv = ("pod", "exec", "-it", "talks", "--", "sh", "-c", SHELL)
            async with asyncio.timeout(30), node.start(*argv, **streams) as process:
                await tty.shows("size 24 80")
                termios.tcsetwinsize(tty.master, (50, 132))
                process.send_signal(signal.SIGWINCH)
                await tty.shows("size 50 132")
                tty.type(b"\x03")
                await tty.shows("interrupted")
                assert await process.wait() == 3
        # One whose client is gone: what reads its input sees the end of it, what has a terminal is interrupted.
        async with node.start("pod", "exec", "-i", "talks", "--", "cat", stdin=asyncio.subprocess.PIPE) as reads:
            assert reads.stdin is not None
            reads.stdin.write(b"x\n")
            await node.line_with(reads, "x")
            reads.kill()
        with terminal() as tty:
            streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
            async with node.start("pod", "exec", "-it", "talks", "--", "sh", "-c", SHELL, **streams) as shell:
                async with asyncio.timeout(30):
                    await tty.shows("size 24 80")
                shell.kill()
        await asyncio.to_thread(node.engine.until_alone, _id(await node.pod("talks")))


async def test_images_say_what_runs_or_why_nothing_does(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("says", image=ECHO, restart="Never"),
            pod("told", image=ECHO, restart="Never", args=["$(WHO)"], env=[{"name": "WHO", "value": "gopher"}]),
            pod("absent", image="localhost/test/none:1", imagePullPolicy="Never"),
            pod("unreached", image="127.0.0.1:1/none:1"),
            pod("misspelt", image="Localhost/TEST"),
        )
        await node.ended("says", "Succeeded")
        await node.ended("told", "Succeeded")
        assert await node.log("says") == "image says\n"
        assert "sha256:" in container(await node.pod("says"))["imageID"]
        assert await node.log("told") == "image gopher\n"
        waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}="
        await node.wait("absent", waiting + "ErrImageNeverPull")
        await node.wait("unreached", waiting + "ImagePullBackOff")
        await node.wait("misspelt", waiting + "InvalidImageName")
        await until_waiting(node, "unreached", 'Back-off pulling image "127.0.0.1:1/none:1": ErrImagePull: rpc error: ')


async def test_pods_have_addresses_and_host_ports(node: Node) -> None:
    ports = [{"containerPort": 8080, "hostPort": 18080}, {"containerPort": 5353, "hostPort": 15353, "protocol": "UDP"}]
    rates = {"kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "16M"}
    async with node.up():
        await node.apply(pod("serves", SERVE, ports=ports, metadata={"annotations": rates}))
        await node.wait("serves", "condition=Ready")
        status = (await node.pod("serves"))["status"]
        addresses = [each["ip"] for each in status["podIPs"]]
        assert [address.count(":") > 0 for address in addresses] == [False, True]
        assert status["podIP"] == addresses[0]
        done = await node("pod", "exec", "serves", "--", "tail", "-n2", "/etc/hosts")
        assert done.out == f"{addresses[0]}\tserves\n{addresses[1]}\tserves\n"
        ask = (sys.executable, "-c", ASK)
        assert await asyncio.to_thread(node.engine.run, *ask, "tcp", addresses[0], "8080") == "tcp\n"
        assert await asyncio.to_thread(node.engine.run, *ask, "tcp", "127.0.0.1", "18080") == "tcp\n"
        inside = ("nsenter", "--target", str(_pid(node, await node.pod("serves"))), "--net", sys.executable)
        echo = await asyncio.create_subprocess_exec(*inside, "-c", ECHO_UDP, stdout=subprocess.PIPE)
        await node.line_with(echo, "bound")
        assert await asyncio.to_thread(node.engine.run, *ask, "udp", "127.0.0.1", "15353") == "udp"
        assert await echo.wait() == 0
        shaped = await asyncio.to_thread(node.engine.run, "tc", "qdisc", "show")
        assert sorted(word for word in shaped.split() if word.endswith("Mbit")) == ["16Mbit", "8Mbit"]


async def test_a_bad_bandwidth_is_refused_before_a_sandbox_is_made(node: Node) -> None:
    async with node.up():
        await node.apply(pod("slow", "true", metadata={"annotations": {"kubernetes.io/ingress-bandwidth": "1"}}))
        await until_event(node, "FailedCreatePodSandBox", "unreasonably small")
        assert node.engine.containers() == []


async def test_a_missing_mount_is_refused_and_not_made(node: Node, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    volumes = {"volumes": [{"name": "host", "hostPath": {"path": str(missing)}}]}
    mount: dict[str, Any] = {"volumeMounts": [{"name": "host", "mountPath": "/host"}]}
    async with node.up():
        await node.apply(pod("mounts", "true", **mount, spec=volumes))
        await node.wait("mounts", "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerError")
        assert not missing.exists()


@pytest.mark.usefixtures("plugin")
async def test_cdi_devices_arrive_whether_or_not_the_engine_knows_cdi(node: Node, tmp_path: Path) -> None:
    edits = {"env": ["CDI=yes"], "deviceNodes": [{"path": "/dev/cdi", "hostPath": "/dev/fuse", "permissions": "rw"}]}
    hooks = {"hooks": [{"hookName": "createRuntime", "path": "/bin/true"}]}
    devices = [{"name": "plain", "containerEdits": edits}, {"name": "hooked", "containerEdits": hooks}]
    directory = (node.engine.base if knows_cdi() else tmp_path) / "cdi"
    directory.mkdir(exist_ok=True)
    spec = {"cdiVersion": "0.6.0", "kind": "example.com/cdi", "devices": devices}
    (directory / "spec.json").write_text(json.dumps(spec))
    async with node.up("--cdi-spec-dirs", str(directory)):
        await node.apply(
            pod("plain", "echo $CDI; (exec 3<>/dev/cdi) && echo opened", restart="Never", **cdi("plain")),
            pod("hooked", "true", restart="Never", **cdi("hooked")),
        )
        await node.ended("plain", "Succeeded")
        assert await node.log("plain") == "yes\nopened\n"
        if knows_cdi():
            await node.ended("hooked", "Succeeded")
        else:
            await until_event(node, "Failed", "an engine without CDI cannot be told of hooks")


@pytest.mark.usefixtures("plugin")
async def test_a_killed_node_adopts_its_pods(node: Node) -> None:
    async with node.up() as first:
        await node.apply(pod("stays", "echo $GOPHER; sleep 1000", **FUSE), pod("waits", "sleep 1000", **FUSE))
        await node.wait("stays", "condition=Ready")
        await node.wait("waits", "condition=Ready")
        before = container(await node.pod("stays"))
        first.kill()
        await first.wait()
    async with node.up():
        await node.wait("stays", "condition=Ready")
        after = container(await node.pod("stays"))
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert len(node.engine.containers()) == 4
        async with node.start("pod", "logs", "-f", "stays") as log:
            assert await node.line_with(log, "f") in ("f0\n", "f1\n")
        assert (await node("pod", "exec", "stays", "--", "true")).code == 0
        (status,) = (await node.pod("stays"))["status"]["podIPs"][:1]
        assert status["ip"].count(".") == 3
        assert "example.com/fuse" in (await node("pod", "describe", "stays")).out


@pytest.mark.parametrize("begun", [1, 3, 6])
async def test_a_node_killed_while_pods_start_starts_each_once(node: Node, begun: int) -> None:
    """``begun``: so many of the engine's containers and sandboxes are there when it is killed."""
    names = [f"p{number}" for number in range(4)]
    async with node.up() as first:
        await node.apply(*(pod(name, "sleep 1000", restart="Never") for name in names))
        await asyncio.to_thread(node.engine.until_containers, begun)
        first.kill()
        await first.wait()
    async with node.up():
        for name in names:
            await node.wait(name, "condition=Ready")
            assert container(await node.pod(name))["restartCount"] == 0
        await until_running(node, 8)  # four pods, each a container and a sandbox
    await asyncio.to_thread(node.engine.end_lost_shims)


@pytest.mark.usefixtures("plugin")
async def test_pods_outlive_the_engine_and_none_is_started_twice(node: Node) -> None:
    async with node.up():
        await node.apply(pod("stays", "sleep 1000", **FUSE), pod("dies", "sleep 1000", **FUSE))
        await node.wait("stays", "condition=Ready")
        await node.wait("dies", "condition=Ready")
        before = container(await node.pod("stays"))
        dying = _pid(node, await node.pod("dies"))
        about = json.loads((await node("node", "get", "-o", "json")).out)["items"][0]["status"]["nodeInfo"]
        assert about["containerRuntimeVersion"].startswith("containerd://{}.{}.".format(*version()))
        node.engine.kill()
        try:
            await node.apply(pod("later", "sleep 1000"))
            os.kill(dying, signal.SIGKILL)
            await node.wait("stays", "condition=Ready=Unknown")
            assert (await node("node", "get")).rows[0][1] == "NotReady"
            assert "example.com/fuse" in (await node("pod", "describe", "dies")).out, "it keeps its device"
            assert container(await node.pod("dies"))["restartCount"] == 0
        finally:
            await asyncio.to_thread(node.engine.start)
        await node.wait("dies", "jsonpath={.status.containerStatuses[0].restartCount}=1")
        for name in ("stays", "dies", "later"):
            await node.wait(name, "condition=Ready")
        after = container(await node.pod("stays"))
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert (await node("pod", "exec", "stays", "--", "true")).code == 0
        await until_running(node, 6)  # three pods, each a container and a sandbox
        assert (await node("node", "get")).rows[0][1] == "Ready"


async def test_a_pod_whose_sandbox_died_runs_in_a_new_one(node: Node) -> None:
    async with node.up():
        await node.apply(pod("stays", "sleep 1000"))
        await node.wait("stays", "condition=Ready")
        before = await node.pod("stays")
        main = _pid(node, before)
        (pause,) = set(_pids(node).values()) - {main}
        os.kill(pause, signal.SIGKILL)
        await until_no_sandbox(node)  # the engine may see the two ends in any order
        os.kill(main, signal.SIGKILL)
        await node.wait("stays", "jsonpath={.status.containerStatuses[0].restartCount}=1")
        await node.wait("stays", "condition=Ready")
        shown = await node("pod", "exec", "stays", "--", "ip", "address", "show", "eth0")
        after = await node.pod("stays")
        assert after["status"]["podIP"] != before["status"]["podIP"]
        assert f"inet {after['status']['podIP']}/" in shown.out
        assert (
            f"{after['status']['podIP']}\tstays\n"
            in (await node("pod", "exec", "stays", "--", "cat", "/etc/hosts")).out
        )


async def test_surroundings_are_those_the_pod_asks_for(node: Node) -> None:
    spec = {
        "hostname": "front",
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.9.8.7"],
            "searches": ["a.example"],
            "options": [{"name": "ndots", "value": "3"}],
        },
        "hostAliases": [{"ip": "10.9.8.6", "hostnames": ["six", "six.example"]}],
        "shareProcessNamespace": True,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {
            "runAsUser": 1000,
            "runAsGroup": 1001,
            "fsGroup": 2000,
            "supplementalGroups": [3000],
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}],
        },
    }
    own: dict[str, Any] = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    async with node.up():
        await node.apply(pod("asks", SURROUNDED, restart="Never", spec=spec, **own))
        end = await node.ended("asks", "Succeeded")
        assert (await node.log("asks")).splitlines() == [
            "front",
            "search a.example",
            "nameserver 10.9.8.7",
            "options ndots:3",
            "10.9.8.6\tsix\tsix.example",
            "1000 1001 2000 3000",
            "2000",
            "read-only",
            "80",
            "Seccomp:\t2",
            "NoNewPrivs:\t1",
            "CapBnd:\t0000000000000000",
            "not first",
        ]
        assert end["message"] == "farewell\n"


async def test_events_tell_the_life_of_a_pod(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("lives", "sleep 1000"),
            pod("crashes", "exit 1"),
            pod("root", "true", securityContext={"runAsNonRoot": True}),
            pod("unreached", image="127.0.0.1:1/none:1"),
        )
        waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}="
        await node.wait("lives", "condition=Ready")
        await node.wait("crashes", waiting + "CrashLoopBackOff")
        await node.wait("root", waiting + "CreateContainerConfigError")
        await node.wait("unreached", waiting + "ImagePullBackOff")
        await node("pod", "delete", "lives")
        told = json.loads((await node("events", "-o", "json")).out)["items"]
        reasons: dict[str, list[str]] = defaultdict(list)
        for event in told:
            reasons[event["involvedObject"]["name"]].append(event["reason"])
        assert [each for each in reasons["lives"] if each != "Scheduled"] == ["Pulled", "Created", "Started", "Killing"]
        assert {"Pulled", "Created", "Started", "BackOff"} <= set(reasons["crashes"])
        assert {"Pulled", "Failed"} <= set(reasons["root"])
        assert {"Pulling", "Failed", "BackOff"} <= set(reasons["unreached"])
        messages = {event["message"] for event in told}
        assert {"Error: ErrImagePull", "Error: ImagePullBackOff", 'Pulling image "127.0.0.1:1/none:1"'} <= messages


async def test_what_a_forgotten_pod_left_is_removed_and_nobody_else_is_touched(
    node: Node, engine: Containerd, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Node(tmp_path_factory.mktemp("o"), engine)
    async with other.up(), node.up() as first:
        await other.apply(pod("theirs", "sleep 1000"))
        await node.apply(pod("ours", "trap exit TERM; while true; do sleep 0.1; done"))
        await other.wait("theirs", "condition=Ready")
        await node.wait("ours", "condition=Ready")
        first.kill()
        await first.wait()
        shutil.rmtree(node.root / "state")
        async with node.up():
            await asyncio.to_thread(engine.until_no_more_than, 2)
            assert container(await other.pod("theirs"))["restartCount"] == 0
            await other.wait("theirs", "condition=Ready")


async def until_event(node: Node, reason: str, text: str) -> None:
    async with node.start("events", "-w") as events:
        assert text in await node.line_with(events, reason)


async def until_waiting(node: Node, name: str, message: str) -> None:
    """Returns when the only container of a pod waits, and what for begins so: it changes with each try."""
    async with asyncio.timeout(DEADLINE_S):
        while not container(await node.pod(name))["state"].get("waiting", {}).get("message", "").startswith(message):
            pass


async def until_running(node: Node, count: int) -> None:
    """Returns when so many containers and sandboxes run: what was broken off is cleared away by and by."""
    async with asyncio.timeout(DEADLINE_S):
        while len(await asyncio.to_thread(_pids, node)) != count:
            pass


async def until_no_sandbox(node: Node) -> None:
    """Returns when the engine knows that no sandbox lives."""
    client = CriClient(node.engine.socket)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await client.connect(DEADLINE_S)
            while any(each.state is SandboxState.READY for each in await client.sandboxes({})):  # noqa: ASYNC110  # asked only
                await asyncio.sleep(0.02)
    finally:
        await client.close()


def _pid(node: Node, found: dict[str, Any]) -> int:
    """Of a pod's only container."""
    return _pids(node)[_id(found)]


def _id(found: dict[str, Any]) -> str:
    """Of a pod's only container, as the engine knows it."""
    return str(container(found)["containerID"]).partition("://")[2]


def _pids(node: Node) -> dict[str, int]:
    """Of every container and sandbox that runs."""
    rows = [line.split() for line in node.engine.ctr("tasks", "list").splitlines()[1:]]
    return {row[0]: int(row[1]) for row in rows if row[2] == "RUNNING"}
