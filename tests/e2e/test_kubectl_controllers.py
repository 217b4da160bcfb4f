"""Deployments, DaemonSets and Jobs as kubectl handles them: rollouts, scale, cascades, waits."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.node_run import DEADLINE_S

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

Kubectl = Callable[..., Awaitable[str]]
SLEEP = ("--", "sleep", "1000")


@asynccontextmanager
async def kubectl(root: Path) -> AsyncIterator[Kubectl]:
    """A node, and kubectl for it; nothing is left at the end."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    config = NodeConfig(root, name="n1", api=TcpAddress("127.0.0.1", 0))
    async with open_node(config, environ=os.environ, clock=SystemClock()):

        async def run(*argv: str, given: str = "", code: int = 0) -> str:
            process = await asyncio.create_subprocess_exec(
                *(program, "--kubeconfig", str(config.kubeconfig), *argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=os.environ,
            )
            async with asyncio.timeout(DEADLINE_S):
                printed, _ = await process.communicate(given.encode())
            assert process.returncode == code, printed.decode()
            return printed.decode()

        try:
            yield run
        finally:
            await run("delete", "deployments,replicasets,daemonsets,jobs", "--all", "--cascade=foreground")
            await run("delete", "pods", "--all", "--force", "--grace-period=0")


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def test_a_rollout_goes_on_back_and_is_scaled(root: Path) -> None:
    async with kubectl(root) as run:
        await run("create", "deployment", "web", "--image=i", "--replicas=2", *SLEEP)
        assert "successfully rolled out" in await run("rollout", "status", "deploy/web")
        await run("set", "env", "deploy/web", "A=1")
        await run("rollout", "status", "deploy/web")
        history = await run("rollout", "history", "deploy/web")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
        await run("rollout", "undo", "deploy/web")
        await run("rollout", "status", "deploy/web")
        history = await run("rollout", "history", "deploy/web")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]
        await run("rollout", "pause", "deploy/web")
        assert "paused" in await run("rollout", "undo", "deploy/web", code=1)
        await run("rollout", "resume", "deploy/web")
        await run("scale", "deploy/web", "--replicas=3", "--current-replicas=2")
        await run("rollout", "status", "deploy/web")
        await run("rollout", "restart", "deploy/web")
        await run("rollout", "status", "deploy/web")
        shown = (await run("get", "deploy", "web", "--no-headers")).split()
        assert shown[:4] == ["web", "3/3", "3", "3"]
        described = await run("describe", "deploy", "web")
        assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
        assert "ScalingReplicaSet" in described


async def test_cascades(root: Path) -> None:
    async with kubectl(root) as run:
        await run("create", "deployment", "web", "--image=i", *SLEEP)
        await run("rollout", "status", "deploy/web")
        await run("delete", "deploy", "web", "--cascade=orphan")
        [left] = json.loads(await run("get", "rs", "-o", "json"))["items"]
        assert "ownerReferences" not in left["metadata"]
        await run("delete", "rs", left["metadata"]["name"], "--cascade=foreground")
        assert json.loads(await run("get", "pods", "-o", "json"))["items"] == []


async def test_a_job_is_waited_for(root: Path) -> None:
    async with kubectl(root) as run:
        await run("create", "job", "one", "--image=i", "--", "echo", "done")
        await run("wait", "--for=condition=complete", "job/one", "--timeout=20s")
        assert await run("logs", "job/one") == "done\n"
        shown = (await run("get", "job", "one", "--no-headers")).split()
        assert shown[:3] == ["one", "Complete", "1/1"]


async def test_the_history_of_a_daemon_set(root: Path) -> None:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "command": ["sleep", "1000"]}],
                    "terminationGracePeriodSeconds": 0,
                },
            },
        },
    }
    async with kubectl(root) as run:
        await run("apply", "-f", "-", given=json.dumps(manifest))
        await run("rollout", "status", "ds/d")
        await run("set", "env", "ds/d", "A=1")
        await run("rollout", "status", "ds/d")
        await run("rollout", "undo", "ds/d")
        await run("rollout", "status", "ds/d")
        history = await run("rollout", "history", "ds/d")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]
        [container] = json.loads(await run("get", "ds", "d", "-o", "json"))["spec"]["template"]["spec"]["containers"]
        assert "env" not in container
        assert "unchanged" in await run("apply", "-f", "-", given=json.dumps(manifest))
