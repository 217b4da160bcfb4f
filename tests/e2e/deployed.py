"""A plugin of a DaemonSet, as `plugbay manifest` prints it and kubectl applies it, serves the node that runs its pod.

The node's root is /var/lib/kubelet, as in the manifest, in a mount namespace in which /var/lib is empty.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.e2e.containerd import Containerd

SOURCE: Final = Path(__file__).parents[2]
ROOT: Final = Path("/var/lib/kubelet")
IMAGE: Final = "localhost/plugbay-plugins:e2e"
CARD: Final = "example.com/card"
SHELF: Final = "example.com/shelf"
NAMESPACE: Final = "kube-system"
DAEMON_SET: Final = "card-plugin"
PLUGIN: Final = '''
import time
from pathlib import Path
from plugbay import Assignment, Device, DevicePlugin, HostDirectory

PLACE = Path("/var/lib/cards")


class Cards(DevicePlugin):
    """Finds a card for each file in a directory, once there is a file that says that it may look."""

    resource_name = "example.com/card"
    watch = [PLACE / "found"]
    needs = [HostDirectory(str(PLACE / "released"), "what was released is noted there", writable=True)]

    def discover(self):
        while not (PLACE / "found/.ready").exists():
            time.sleep(0.05)
        return [Device(each.name, env={"CARD": each.name}) for each in (PLACE / "found").glob("[a-z]*")]

    def release(self, assignment: Assignment) -> None:
        for device in assignment.device_ids:
            (PLACE / "released" / device).touch()
'''
USER: Final[Mapping[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "user"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": IMAGE,
                "command": ["/usr/bin/python3", "-c"],
                "args": ["import os, time; print(os.environ['CARD'], flush=True); time.sleep(1000)"],
                "resources": {"limits": {CARD: "1"}},
            }
        ],
    },
}


def make_image(directory: Path) -> None:
    """Make the image of this checkout: its archive, and its file system in ``root``."""
    words = ("--arch", {"aarch64": "arm64"}.get(os.uname().machine, "amd64"), "--name", IMAGE)
    argv = (sys.executable, "-m", "tools.image", *words, "--out", str(directory), "--rootfs", str(directory / "root"))
    done = subprocess.run(argv, cwd=SOURCE, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


class Cluster(Plugbay):
    """The commands, in namespaces whose /var/lib belongs to the test alone.

    Args:
        enter: the words that run a command there.
    """

    def __init__(self, enter: Sequence[str]) -> None:
        super().__init__(ROOT)
        self.enter = tuple(enter)
        self._argv = (*self.enter, *self._argv)

    async def run(self, *argv: str, given: str = "") -> str:
        """The output of a program that succeeds."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.enter, *argv, stdin=pipe, stdout=pipe, stderr=pipe)
        async with asyncio.timeout(2 * DEADLINE_S):
            out, err = await process.communicate(given.encode())
        assert process.returncode == 0, (argv, out.decode(), err.decode())
        return out.decode()

    async def kubectl(self, *argv: str, given: str = "") -> str:
        return await self.run("kubectl", f"--kubeconfig={ROOT}/kubeconfig", *argv, given=given)

    async def wait(self, condition: str) -> None:
        done = await self("node", "wait", f"--for={condition}", f"--timeout={DEADLINE_S}s")
        assert done.code == 0, (done, await self.account())

    async def wait_in_log(self, pod: str, text: str) -> None:
        """Wait until a pod of the namespace ``default`` has written this."""
        await self.kubectl("wait", f"pod/{pod}", "--for=jsonpath={.status.phase}=Running", f"--timeout={DEADLINE_S}s")
        async with self.start("pod", "logs", "-f", pod) as log:
            await self.line_with(log, text)

    async def account(self) -> str:
        """What a failure should tell of the plugin's pod."""
        described = await self.kubectl("-n", NAMESPACE, "describe", "pods")
        return described + await self.kubectl("-n", NAMESPACE, "logs", f"ds/{DAEMON_SET}", "--tail=30")

    @asynccontextmanager
    async def up(self, *options: str) -> AsyncIterator[None]:
        """A node at the kubelet's place, with the API, until the block ends; its pods are gone by then."""
        try:
            async with self.node_up("--api", *options):
                try:
                    yield
                finally:
                    await self.kubectl("delete", "daemonsets", "--all", "--all-namespaces", "--cascade=foreground")
        finally:
            await self.run("sh", "-c", f"rm -rf {ROOT} /var/lib/cards")


@asynccontextmanager
async def on_containerd(engine: Containerd, image: Path) -> AsyncIterator[Cluster]:
    """A cluster whose node has containerd with the image of `make_image`; it leaves nothing in the engine."""
    engine.ctr("images", "import", str(image / "plugbay-plugins.tar"))
    cluster = Cluster(engine.enter)
    async with cluster.up("--runtime", "cri", "--cri-socket", str(engine.socket)):
        yield cluster
    engine.until_no_more_than(0)
    engine.until_nothing_runs()
    assert engine.leavings() == []


async def manifest(directory: Path, env: str) -> str:
    """The manifest of the plugin `PLUGIN` and of one for directories, printed as for any cluster.

    Args:
        env: the variable in which a container finds the path of its directory.
    """
    (directory / "cards.py").write_text(PLUGIN)
    config = directory / "plugins.yaml"
    settings = {"resource": SHELF, "path": "/var/lib/cards/found", "env": env}
    plugins = [{"target": "cards.py"}, {"target": "directory", "settings": settings}]
    config.write_text(json.dumps({"plugins": plugins}))
    return await printed_for("--config", str(config), "--name", DAEMON_SET)


async def printed_for(*words: str) -> str:
    """The manifest that `plugbay manifest` prints."""
    argv = (sys.executable, "-m", "plugbay", "manifest", *words, "--image", IMAGE)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def serves_its_node(cluster: Cluster, directory: Path) -> None:
    """The whole life of a plugin in the pod of a DaemonSet.

    Args:
        directory: for the plugin's files.
    """
    await cluster.run("mkdir", "-p", "/var/lib/cards/found", "/var/lib/cards/released")
    await cluster.kubectl("apply", "-f", "-", given=await manifest(directory, "BEFORE"))
    # Ready is what is registered, and not what runs.
    async with cluster.start("events", "-n", NAMESPACE, "-w") as events:
        await cluster.line_with(events, "Readiness probe failed: HTTP probe failed with statuscode: 503")
    assert (await _plugin_status(cluster))["ready"] is False
    await cluster.run("touch", "/var/lib/cards/found/a", "/var/lib/cards/found/.ready")
    await cluster.kubectl("-n", NAMESPACE, "rollout", "status", f"ds/{DAEMON_SET}", f"--timeout={DEADLINE_S}s")
    await cluster.wait(f"resource={CARD}=1")
    _has_no_right_but_those_granted(await _plugin_process(cluster))
    await cluster.kubectl("apply", "-f", "-", given=json.dumps(USER))
    await cluster.kubectl("wait", "pod/user", "--for=condition=Ready", f"--timeout={DEADLINE_S}s")
    await cluster.wait_in_log("user", "a\n")
    await cluster.run("touch", "/var/lib/cards/found/b")
    await cluster.wait(f"resource={CARD}=2")
    await _takes_a_new_config(cluster, await manifest(directory, "AFTER"))
    os.kill(await _plugin_process(cluster), signal.SIGKILL)
    await cluster.run("rm", "/var/lib/cards/found/b")  # while it is away
    await cluster.wait(f"resource={CARD}=1")
    assert (await _plugin_status(cluster))["restartCount"] == 1
    await cluster.kubectl("-n", NAMESPACE, "rollout", "status", f"ds/{DAEMON_SET}", f"--timeout={DEADLINE_S}s")
    user = json.loads(await cluster.kubectl("get", "pod", "user", "-o", "json"))["status"]["containerStatuses"]
    assert [(each["ready"], each["restartCount"]) for each in user] == [(True, 0)]
    assert "user" in (await cluster("node", "devices")).out, "it has its card as before"
    await cluster.kubectl("delete", "pod", "user")
    await cluster.kubectl("apply", "-f", "-", given=json.dumps(USER))
    await cluster.kubectl("wait", "pod/user", "--for=condition=Ready", f"--timeout={DEADLINE_S}s")
    await cluster.run("test", "-e", "/var/lib/cards/released/a")
    await cluster.kubectl("delete", "pod", "user")


async def _takes_a_new_config(cluster: Cluster, printed: str) -> None:
    """A config that differs in one plugin is rolled out: no container starts again, no other registration is lost."""
    pod = await cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name")
    process = await _plugin_process(cluster)
    async with cluster.start("pod", "logs", "-n", NAMESPACE, "-f", pod.strip()) as log:
        await cluster.line_with(log, f"{CARD}: new device b")  # the node may know of it before its log does
    before = await cluster.kubectl("-n", NAMESPACE, "logs", pod.strip())
    async with cluster.start("pod", "logs", "-n", NAMESPACE, "-f", pod.strip()) as log:
        applied = await cluster.kubectl("apply", "-f", "-", given=printed)
        assert f"daemonset.apps/{DAEMON_SET} unchanged" in applied
        await cluster.line_with(log, f"{SHELF}: registered")
        await cluster.line_with(log, f"{SHELF}: registered")
    after = (await cluster.kubectl("-n", NAMESPACE, "logs", pod.strip())).removeprefix(before)
    assert f"{CARD}: " not in after, f"its plugin goes on as it was: {after}"
    assert await cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name") == pod
    assert await _plugin_process(cluster) == process


async def _plugin_status(cluster: Cluster) -> dict[str, Any]:
    pods = json.loads(await cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
    [status] = pods[0]["status"]["containerStatuses"]
    return dict(status)


async def _plugin_process(cluster: Cluster) -> int:
    """The first process in the container of the plugin, by its number on this machine."""
    pods = json.loads(await cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
    uid = pods[0]["metadata"]["uid"]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if uid in (process / "cgroup").read_text() and b"serve" in (process / "cmdline").read_bytes().split(b"\0"):
                return int(process.name)
        except OSError:  # it has ended
            continue
    raise AssertionError(f"no plugin runs in pod {uid}")


def _has_no_right_but_those_granted(pid: int) -> None:
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    capabilities = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert set(map(tuple, capabilities.values())) == {("0" * 16,)}
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
    mounts = [line.split() for line in (Path("/proc") / str(pid) / "mountinfo").read_text().splitlines()]
    options = {each[4]: each[5].split(",") for each in mounts}
    assert "ro" in options["/"]
    writable = {place for place, each in options.items() if "rw" in each and place.startswith("/var/lib")}
    assert writable == {f"{ROOT}/device-plugins", "/var/lib/cards/released"}
    assert "ro" in options["/var/lib/cards/found"]
    assert "ro" in options["/plugin"]


def needs_kubectl(function: Any) -> Any:
    """Mark a test that applies manifests as users do."""
    return pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")(function)
