"""The node's own pages by way of the API, as ``kubectl get --raw /api/v1/nodes/NAME/proxy/...`` asks for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from plugbay.ops.http_client import ClientResponse
from tests.contract.rigs.node_run import Node, pod, running_node

NODES = "/api/v1/nodes"


async def ask(node: Node, path: str, method: str = "GET", **query: str) -> ClientResponse:
    return await asyncio.to_thread(node.client._http.request, method, f"{NODES}/{path}", query=query)


async def test_the_pages_of_a_kubelet_are_served(sockets: Path) -> None:
    async with running_node(sockets) as node:
        await node.create(pod("p"))
        await node.pod_in("p", "Running")
        for name in ("n1", "n1:10250", "https:n1:10250"):
            assert (await ask(node, f"{name}/proxy/healthz")).body == b"ok"
        assert b"[+]device-plugin ok" in (await ask(node, "n1/proxy/healthz", verbose="true")).body
        assert b"process_cpu_seconds_total" in (await ask(node, "n1/proxy/metrics")).body
        listed: Any = (await ask(node, "n1/proxy/pods")).json()
        assert (listed["kind"], [each["status"]["phase"] for each in listed["items"]]) == ("PodList", ["Running"])
        summary: Any = (await ask(node, "n1/proxy/stats/summary")).json()
        of_node = summary["node"]
        assert of_node["nodeName"] == "n1"
        assert of_node["cpu"]["usageCoreNanoSeconds"] > 0
        memory = of_node["memory"]
        assert 0 < memory["rssBytes"] <= memory["usageBytes"]
        assert memory["availableBytes"] > 0
        assert 0 < of_node["fs"]["availableBytes"] <= of_node["fs"]["capacityBytes"]
        [only] = summary["pods"]
        assert (only["podRef"]["name"], only["podRef"]["namespace"]) == ("p", "default")
        assert [each["name"] for each in only["containers"]] == ["c"]
        await node.gone("p", gracePeriodSeconds="0")


async def test_what_there_is_not_is_told(sockets: Path) -> None:
    async with running_node(sockets) as node:
        for path, words in (
            ("n1/proxy/configz", "it serves healthz, metrics, pods, readyz and stats/summary"),
            ("n1/proxy", "no page ''"),
            ("n1/proxy/metrics/cadvisor", "no page 'metrics/cadvisor'"),
            ("n1/proxy/containerLogs/default/p/c", "no page"),
            ("n2/proxy/healthz", '"n2" not found'),
            ("n1:80/proxy/healthz", '"n1:80" not found'),
        ):
            response = await ask(node, path)
            value: Any = response.json()
            assert (response.status, value["reason"]) == (404, "NotFound")
            assert words in value["message"]
        assert (await ask(node, "n1/proxy/healthz", "POST")).status == 405
