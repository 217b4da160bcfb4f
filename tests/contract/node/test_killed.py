"""What commands say when the node is killed under them, and that what they began can be completed afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

pytestmark = pytest.mark.timeout(180)  # they start some ten interpreters each, and dozens of pods

DEADLINE_S = 30
PODS = 30
SLEEPER = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
    "spec: {restartPolicy: Never, containers: [{name: c, command: [sleep, '3600']}]}\n"
)
"""A restart would show: who is never started again fails instead."""
DEAF = "trap '' TERM; echo deaf; while true; do sleep 0.1; done"


async def kill(node: asyncio.subprocess.Process) -> None:
    node.kill()
    await node.wait()


async def end_of(process: asyncio.subprocess.Process, plugbay: Plugbay) -> str:
    """What is left of the output of a command that ends because the node is gone, which it says in one line."""
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert_node_is_gone(process, err, plugbay)
    return out.decode()


def assert_node_is_gone(process: asyncio.subprocess.Process, err: bytes, plugbay: Plugbay) -> None:
    assert process.returncode == 1
    assert err.decode().startswith(f"plugbay: error: no plugbay node answers at {plugbay.root}/plugbay.sock (")
    assert err.count(b"\n") == 1


async def created_later(apply: asyncio.subprocess.Process, plugbay: Plugbay, *, left: int) -> int:
    """How many pods more an apply told of, of so many that were left: of all of them if it was faster than the kill."""
    async with asyncio.timeout(DEADLINE_S):
        out, err = await apply.communicate()
    created = out.count(b" created\n")
    if created < left:
        assert_node_is_gone(apply, err, plugbay)
    else:
        assert (created, apply.returncode, err) == (left, 0, b"")
    return created


async def uids(plugbay: Plugbay) -> dict[str, str]:
    pods = json.loads((await plugbay("pod", "get", "-o", "json")).out)["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


async def test_a_drain_goes_on_when_the_node_is_back(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        await plugbay("pod", "run", "deaf", "--", "sh", "-c", DEAF)
        await plugbay.until_running("deaf")
        async with plugbay.start("pod", "logs", "-f", "deaf") as logs:
            await plugbay.line_with(logs, "deaf")
        async with plugbay.start("node", "drain", "n1", stderr=asyncio.subprocess.PIPE) as drain:
            await plugbay.line_with(drain, "evicting pod default/deaf")
            await kill(node)
            assert await end_of(drain, plugbay) == ""
    async with plugbay.node_up():
        assert (await plugbay("node", "get")).rows[0][1] == "Ready,SchedulingDisabled"
        assert (await plugbay("pod", "get")).rows[0][:3] == ["deaf", "1/1", "Terminating"]
        done = await plugbay("node", "drain", "n1", "--grace-period=0")
        words = ["node/n1 already cordoned", "evicting pod default/deaf", "pod/deaf evicted", "node/n1 drained"]
        assert (done.code, done.out.splitlines()) == (0, words)
        assert list((plugbay.root / "containers").iterdir()) == []


@pytest.mark.parametrize("seen", [1, 11, PODS - 1])
async def test_an_apply_is_completed_by_another_one(plugbay: Plugbay, seen: int) -> None:
    names = [f"p{number:02}" for number in range(PODS)]
    manifest = "---\n".join(SLEEPER % name for name in names)
    pipes = {"stdin": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    async with plugbay.node_up() as node, plugbay.start("pod", "apply", "-f", "-", **pipes) as apply:
        assert apply.stdin is not None
        apply.stdin.write(manifest.encode())
        apply.stdin.close()
        await plugbay.line_with(apply, f"pod/{names[seen - 1]} created")
        await kill(node)
        created = seen + await created_later(apply, plugbay, left=PODS - seen)
    async with plugbay.node_up():
        before = await uids(plugbay)
        assert before.keys() >= set(names[:created]), "what was told is durable"
        done = await plugbay("pod", "apply", "-f", "-", given=manifest)
        assert (done.code, done.err) == (0, "")
        new = [name for name in names if name not in before]
        assert done.out.splitlines() == [f"pod/{name} {'created' if name in new else 'unchanged'}" for name in names]
        done = await plugbay("pod", "wait", "--for=condition=Ready", "--all")
        assert (done.code, len(done.out.splitlines())) == (0, PODS)
        after = await uids(plugbay)
        assert {name: after[name] for name in before} == before
        instances = Counter(path.name.partition("_")[0] for path in (plugbay.root / "containers").iterdir())
        assert instances == Counter(after.values()), "each pod runs once"


async def test_whoever_watches_a_node_is_told_of_its_end(plugbay: Plugbay) -> None:
    pipe = asyncio.subprocess.PIPE
    async with plugbay.node_up() as node, AsyncExitStack() as stack:
        await plugbay("pod", "run", "web", "--", "sh", "-c", "echo up; sleep 3600; true")
        await plugbay.until_running("web")
        await plugbay("pod", "run", "late", "--resource", "example.com/gopher=1", "--", "true")
        for command, begun in (
            (("pod", "wait", "--for=condition=Ready", "web", "late"), "pod/web condition met"),
            (("pod", "get", "-w"), "late"),
            (("events", "-w"), "FailedScheduling"),
            (("pod", "logs", "-f", "web"), "up"),
            (("pod", "exec", "web", "--", "sh", "-c", "echo in; sleep 3600; true"), "in"),
        ):
            process = await stack.enter_async_context(plugbay.start(*command, stderr=pipe))
            await plugbay.line_with(process, begun)
            stack.push_async_callback(end_of, process, plugbay)
        await kill(node)
    async with plugbay.node_up():
        assert (await plugbay("pod", "get", "web")).rows[0][:3] == ["web", "1/1", "Running"]


async def test_whoever_waits_for_an_end_is_told_when_the_node_does_not_live_to_see_it(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        await plugbay("pod", "run", "deaf", "--", "sh", "-c", DEAF)
        await plugbay.until_running("deaf")
        async with plugbay.start("pod", "logs", "-f", "deaf") as logs:
            await plugbay.line_with(logs, "deaf")
        async with plugbay.start("pod", "delete", "deaf", stderr=asyncio.subprocess.PIPE) as delete:
            await plugbay.line_with(delete, 'pod "deaf" deleted')
            await kill(node)
            await end_of(delete, plugbay)
    async with plugbay.node_up():
        assert await plugbay("pod", "delete", "deaf", "--force") == (0, 'pod "deaf" force deleted\n', "")
        assert await plugbay("pod", "get") == (0, "", "No resources found in default namespace.\n")
