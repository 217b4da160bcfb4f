"""Probes and hooks of a whole node: real processes that answer, hang or are not ready yet."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from plugbay.ops.http_client import UnixHttpClient
from tests.contract.rigs.node_run import DEADLINE_S, PODS, Json, Node, name_of, pod, root, running_node

__all__ = ["root"]

HOST = "127.0.0.1"
SERVER = """
import http.server, pathlib, sys, time
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[2], "a") as seen:
            seen.write(f"{self.path} {self.headers['User-Agent']}\\n")
        if self.path == "/hangs":
            time.sleep(1000)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        number: int = taken.getsockname()[1]
        return number


def probed(name: str, *command: str, **fields: Any) -> Json:
    made = pod(name, *command)
    made["spec"]["containers"][0] |= fields
    return made


def served(name: str, port: int, seen: Path, **fields: Any) -> Json:
    return probed(name, sys.executable, "-c", SERVER, str(port), str(seen), **fields)


def status(pod: Any) -> Any:
    return pod["status"]["containerStatuses"][0] if "containerStatuses" in pod["status"] else {}


def ready(pod: Any) -> Any:
    return next((each for each in pod["status"]["conditions"] if each["type"] == "Ready"), {"status": "None"})


async def until_ready(node: Node, name: str, expected: str = "True") -> Any:
    return await node.until(PODS, lambda _, pod: name_of(pod) == name and ready(pod)["status"] == expected)


async def test_a_pod_becomes_ready_when_its_command_succeeds(root: Path, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    ask = {"exec": {"command": ["sh", "-c", f"test -e {sign} || {{ echo not yet; exit 1; }}"]}, "periodSeconds": 1}
    async with running_node(root) as node:
        created = await node.create(probed("late", readinessProbe=ask))
        assert created["spec"]["containers"][0]["readinessProbe"] == {
            "exec": ask["exec"],
            "timeoutSeconds": 1,
            "periodSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": 3,
        }
        event = await node.event("Unhealthy", "late")
        assert (event["message"], event["type"]) == ("Readiness probe failed: not yet\n", "Warning")
        assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
        shown = await node.get(f"{PODS}/late")
        assert (status(shown)["ready"], status(shown)["started"]) == (False, True)
        assert ready(shown)["message"] == "containers with unready status: [c]"
        sign.touch()
        assert status(await until_ready(node, "late"))["ready"] is True
        sign.unlink()
        assert status(await until_ready(node, "late", "False"))["restartCount"] == 0
        await node.gone("late")


async def test_a_server_that_hangs_is_started_anew(root: Path, tmp_path: Path, port: int) -> None:
    ask = {"httpGet": {"path": "/hangs", "port": "web"}, "periodSeconds": 1, "failureThreshold": 1}
    startup = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 60}
    ports = [{"name": "web", "containerPort": port}]
    seen = tmp_path / "seen"
    async with running_node(root) as node:
        await node.create(served("hangs", port, seen, livenessProbe=ask, startupProbe=startup, ports=ports))
        await node.until(PODS, lambda _, pod: name_of(pod) == "hangs" and status(pod).get("restartCount") == 1)
        assert seen.read_text().startswith("/hangs kube-probe/1.36\n")
        event = await node.event("Killing", "hangs")
        assert event["message"] == "Container c failed liveness probe, will be restarted"
        told = await node.until(
            "/api/v1/events", lambda _, event: event["message"].startswith("Liveness probe failed: ")
        )
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        assert told["message"] == f'Liveness probe failed: Get "http://{HOST}:{port}/hangs": {why}'
        await node.gone("hangs", gracePeriodSeconds="0")


async def test_a_command_that_takes_too_long_fails_and_one_that_is_missing_does_not_count(root: Path) -> None:
    slow = {"exec": {"command": ["sleep", "1000"]}, "periodSeconds": 1}
    missing = {"exec": {"command": ["no-such-program"]}, "periodSeconds": 1, "failureThreshold": 1}
    async with running_node(root) as node:
        await node.create(probed("slow", readinessProbe=slow))
        event = await node.event("Unhealthy", "slow")
        assert event["message"] == 'Readiness probe failed: command timed out: "sleep 1000" timed out after 1s'
        await node.create(probed("missing", livenessProbe=missing))
        told = await node.until(
            "/api/v1/events",
            lambda _, event: event["involvedObject"]["name"] == "missing" and event["reason"] == "Unhealthy"
            and event["count"] > 1,
        )  # fmt: skip
        assert told["message"].startswith("Liveness probe errored and resulted in unknown state: ")
        assert status(await node.get(f"{PODS}/missing"))["restartCount"] == 0
        await node.gone("slow", gracePeriodSeconds="0")
        await node.gone("missing", gracePeriodSeconds="0")


async def test_hooks_send_requests(root: Path, tmp_path: Path, port: int) -> None:
    seen = tmp_path / "seen"
    server = served("server", port, seen, readinessProbe={"httpGet": {"port": port}, "periodSeconds": 1})
    hook = {"httpGet": {"port": port, "path": "/hello", "httpHeaders": [{"name": "X-A", "value": "1"}]}}
    late = {"httpGet": {"port": port, "path": "/bye", "scheme": "HTTPS"}}
    async with running_node(root) as node:
        await node.create(server)
        await until_ready(node, "server")
        await node.create(probed("caller", lifecycle={"postStart": hook, "preStop": late}))
        await until_ready(node, "caller")
        assert "/hello kube-lifecycle/1.36" in seen.read_text()
        await node.gone("caller")
        assert "/bye kube-lifecycle/1.36" in seen.read_text()
        event = await node.event("LifecycleHTTPFallback", "caller")
        assert event["message"].endswith("got HTTP response, retried with HTTP succeeded")
        await node.gone("server", gracePeriodSeconds="0")


async def test_a_pod_stays_ready_while_the_node_is_restarted(root: Path, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    sign.touch()
    ask = {"exec": {"command": ["test", "-e", str(sign)]}, "periodSeconds": 1, "failureThreshold": 1}
    async with running_node(root) as node:
        await node.create(probed("stays", readinessProbe=ask))
        before = await until_ready(node, "stays")
    async with running_node(root) as node:
        after = await node.pod_in("stays", "Running")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert ready(after) == ready(before)
        sign.unlink()
        await until_ready(node, "stays", "False")
        await node.gone("stays", gracePeriodSeconds="0")


async def ask(node: Node, method: str, path: str, body: object, kind: str = "json") -> tuple[int, Any]:
    client = UnixHttpClient(node.config.control_socket, timeout_s=DEADLINE_S)
    sent, media = json.dumps(body).encode(), f"application/{kind}"
    response = await asyncio.to_thread(client.request, method, path, body=sent, content_type=media)
    return response.status, json.loads(response.body)


async def test_a_client_opens_a_readiness_gate(root: Path) -> None:
    merge, path = "strategic-merge-patch+json", f"{PODS}/gated/status"
    fed = {"type": "example.com/fed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    async with running_node(root) as node:
        await node.create(pod("gated", readinessGates=[{"conditionType": "example.com/fed"}]))
        shown = await node.pod_in("gated", "Running")
        assert ready(shown)["reason"] == "ReadinessGatesNotReady"
        status, refused = await ask(node, "PATCH", path, {"status": {"phase": "Failed"}}, merge)
        assert status == 422
        assert refused["details"]["causes"][0]["field"] == "status.phase"
        ours = {"type": "Ready", "status": "True"}
        status, refused = await ask(node, "PATCH", path, {"status": {"conditions": [ours]}}, merge)
        assert (status, refused["details"]["causes"][0]["field"]) == (422, "status.conditions[Ready]")
        status, _ = await ask(node, "PATCH", path, {"status": {"conditions": [fed | {"status": "Yes"}]}}, merge)
        assert status == 422
        status, changed = await ask(node, "PATCH", path, {"status": {"conditions": [fed]}}, merge)
        assert (status, ready(changed)["status"]) == (200, "True")
        await until_ready(node, "gated")
        whole = changed | {"status": {"conditions": [fed | {"status": "False"}]}}
        status, changed = await ask(node, "PUT", path, whole)
        assert (status, ready(changed)["status"], changed["status"]["phase"]) == (200, "False", "Running")
        status, _ = await ask(node, "PUT", path, whole)
        assert status == 409
    async with running_node(root) as node:
        kept = await node.pod_in("gated", "Running")
        assert ready(kept)["message"] == 'the status of pod readiness gate "example.com/fed" is not "True", but False'
        await node.gone("gated", gracePeriodSeconds="0")
