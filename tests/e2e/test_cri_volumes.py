"""Config maps, secrets and tokens in containers of a real containerd."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from plugbay.cli.kubectl.client import NodeClient
from tests.e2e.bench_cri import Node, pod

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DEFAULT = "/api/v1/namespaces/default"


async def put(node: Node, plural: str, name: str, **values: Any) -> None:
    client = NodeClient(node.root)
    await asyncio.to_thread(client.replace, f"{DEFAULT}/{plural}/{name}", {"metadata": {"name": name}, **values})


async def create(node: Node, plural: str, name: str, **values: Any) -> None:
    client = NodeClient(node.root)
    await asyncio.to_thread(client.create, f"{DEFAULT}/{plural}", {"metadata": {"name": name}, **values})


async def test_files_arrive_follow_and_belong_to_the_group(node: Node) -> None:
    sources: list[dict[str, Any]] = [{"configMap": {"name": "settings"}}, {"secret": {"name": "key"}}]
    spec: dict[str, Any] = {
        "securityContext": {"runAsUser": 1234, "fsGroup": 4711},
        "volumes": [{"name": "v", "projected": {"sources": sources, "defaultMode": 0o400}}],
    }
    mount: dict[str, Any] = {
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "v", "mountPath": "/part", "subPath": "a"},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
    }
    script = "stat -L -c '%g %a' /v/k; echo $a; while :; do echo $(cat /v/a) $(cat /v/k) $(cat /part); sleep 0.2; done"
    async with node.up():
        await create(node, "configmaps", "settings", data={"a": "old"})
        await create(node, "secrets", "key", data={"k": base64.b64encode(b"s3cret").decode()})
        await node.apply(pod("follows", script, **mount, spec=spec))
        await node.wait("follows", "condition=Ready")
        async with node.start("pod", "logs", "-f", "follows") as log:
            await node.line_with(log, "4711 440")
            await node.line_with(log, "old s3cret old")
            await put(node, "configmaps", "settings", data={"a": "new"})
            await node.line_with(log, "new s3cret old")


async def test_the_token_of_the_account_is_there_and_the_address_where_it_can_be_reached(node: Node) -> None:
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f"cd {place}; echo *; cat namespace; echo; echo ${{KUBERNETES_SERVICE_HOST-}}"
    async with node.up("--api"):
        await node.apply(
            pod("apart", script, restart="Never"),
            pod("on-host", script, restart="Never", spec={"hostNetwork": True}),
        )
        await node.ended("apart", "Succeeded")
        assert await node.log("apart") == "ca.crt namespace token\ndefault\n\n"
        await node.ended("on-host", "Succeeded")
        assert await node.log("on-host") == "ca.crt namespace token\ndefault\n127.0.0.1\n"
