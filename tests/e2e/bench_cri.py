"""A node whose pods run on a real containerd: what its tests need."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.model.cri import SandboxState
from plugbay.wire.cri import CriClient
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.e2e.containerd import Containerd
from tests.e2e.images import BUSYBOX

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
            mounts=[Mount(%r, container_path="/gopher", read_only=True)],
            device_nodes=[DeviceNode("/dev/fuse", container_path="/dev/gopher")],
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
FUSE: Final[dict[str, Any]] = {"resources": {"limits": {"example.com/fuse": "1"}}}


class Node(Plugbay):
    """The command, on a root whose node runs pods on ``engine``."""

    def __init__(self, root: Path, engine: Containerd) -> None:
        super().__init__(root)
        self.engine = engine

    def inside(self, *more: str) -> Node:
        """The same on the engine's own network, where its streams can be reached, and in more of its namespaces."""
        made = Node(self.root, self.engine)
        made._argv = (*self.engine.network, *more, *self._argv)
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


def pod(name: str, script: str = "", *, image: str = BUSYBOX, restart: str = "Always", **fields: Any) -> dict[str, Any]:
    """``fields`` are the container's; those of the spec come in a mapping ``spec``, of the metadata in ``metadata``."""
    spec, metadata = fields.pop("spec", {}), fields.pop("metadata", {})
    command = {"command": ["sh", "-c", script]} if script else {}
    only = {"name": "main", "image": image, **command, **fields}
    # A shell that is PID 1 ignores SIGTERM.
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [only], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (status,) = pod["status"]["containerStatuses"]
    found: dict[str, Any] = status
    return found


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
        while len(await asyncio.to_thread(pids, node)) != count:
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


def pid_of(node: Node, found: dict[str, Any]) -> int:
    """Of a pod's only container."""
    return pids(node)[id_of(found)]


def id_of(found: dict[str, Any]) -> str:
    """Of a pod's only container, as the engine knows it."""
    return str(container(found)["containerID"]).partition("://")[2]


def pids(node: Node) -> dict[str, int]:
    """Of every container and sandbox that runs."""
    rows = [line.split() for line in node.engine.ctr("tasks", "list").splitlines()[1:]]
    return {row[0]: int(row[1]) for row in rows if row[2] == "RUNNING"}
