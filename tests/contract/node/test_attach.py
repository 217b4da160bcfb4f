"""Clients attached to containers over the API, and what is refused of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plugbay.ops.http_client import UnixHttpClient
from tests.contract.node.test_websocket import CLOSE, RESIZE, STDERR, STDIN, STDOUT, V4, V5, attached
from tests.contract.rigs.node_run import PODS, Node, running_node

TALK = "while read line; do echo got $line; echo err $line >&2; done; echo end"


def talker(name: str, script: str, **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script], "stdin": True, "stdinOnce": True, **fields}
    spec = {"containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def node(sockets: Path) -> AsyncIterator[Node]:
    async with running_node(sockets) as node:
        yield node
        for pod in (await node.get(PODS))["items"]:
            await node.gone(pod["metadata"]["name"], gracePeriodSeconds="0")


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_client_talks_with_a_container_until_its_end(node: Node, version: str) -> None:
    await node.create(talker("p", TALK if version == V5 else "echo begun; read line; echo got $line; exit 3"))
    await node.pod_in("p", "Running")
    async with attached(node.config.control_socket, "p", version=version, stdin="true") as client:
        client.message(STDIN, b"1\n")
        if version == V5:
            assert await client.until(STDERR) == b"err 1\n"
            client.message(CLOSE, bytes([STDIN]))
        out, _, status = await client.finish()
        assert out.endswith(b"end\n" if version == V5 else b"begun\ngot 1\n")
        assert status == {"metadata": {}, "status": "Success"}, "how the container ended is told by its pod"
    await node.pod_in("p", "Succeeded" if version == V5 else "Failed")


async def test_a_terminal_is_resized(node: Node) -> None:
    await node.create(talker("p", "read go; stty size; read stop", tty=True))
    await node.pod_in("p", "Running")
    async with attached(node.config.control_socket, "p", stdin="true", tty="true") as client:
        client.message(RESIZE, json.dumps({"Width": 120, "Height": 30}).encode())
        client.message(STDIN, b"\n")
        seen = b""
        while b"30 120\r\n" not in seen:
            seen += await client.until(STDOUT)
        client.message(STDIN, b"\n")
        assert (await client.finish())[2]["status"] == "Success"


async def test_input_of_a_container_that_takes_none_is_dropped(node: Node) -> None:
    await node.create(talker("p", "sleep 1000", stdin=False, stdinOnce=False))
    await node.pod_in("p", "Running")
    async with attached(node.config.control_socket, "p", stdin="true") as client:
        client.message(STDIN, b"x")
        client.message(CLOSE, bytes([STDIN]))
    assert (await node.pod_in("p", "Running"))["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "p/attach", 400, "Upgrade request required"),
        ("GET", "p/attach?container=none", 400, "container none is not valid for pod p"),
        ("GET", "several/attach", 400, "a container name must be specified for pod several, choose one of: [a b]"),
        ("GET", "several/log", 400, "or one of the init containers: [i]"),
        ("POST", "none/attach", 404, 'pods "none" not found'),
        ("GET", "p/attach?command=sh", 400, "the parameter 'command' is not supported"),
        ("PATCH", "p/ephemeralcontainers", 405, "containers cannot be added to a pod that runs here"),
        ("PUT", "none/ephemeralcontainers", 404, 'pods "none" not found'),
        ("GET", "p/log?sinceTime=yesterday", 400, "it must be a time as RFC 3339 writes it"),
        ("GET", "p/log?stream=Stdin", 400, "it must be All, Stdout or Stderr"),
        ("GET", "p/log?previous=true", 400, 'previous terminated container "c" in pod "p" not found'),
    ],
)
async def test_refusals(node: Node, method: str, path: str, status: int, words: str) -> None:
    await node.create(talker("p", "sleep 1000"))
    several = talker("several", "sleep 1000")
    [container] = several["spec"]["containers"]
    several["spec"]["containers"] = [container | {"name": "a"}, container | {"name": "b"}]
    several["spec"]["initContainers"] = [container | {"name": "i", "command": ["true"]}]
    await node.create(several)
    await node.pod_in("p", "Running")
    await node.pod_in("several", "Running")
    client = UnixHttpClient(node.config.control_socket)
    answer = await asyncio.to_thread(client.request, method, f"{PODS}/{path}")
    assert (answer.status, words in json.loads(answer.body)["message"]) == (status, True), answer.body
