"""A kubelet's own pages, by way of the API: ``/api/v1/nodes/NAME/proxy/...``.

Source: Kubernetes 1.36 ``kubelet/server/server.go``, ``registry/core/node/rest/proxy.go``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from plugbay.kernel.usage import read_file_system_usage, read_machine_usage
from plugbay.node.api.objects import NodeFacts, pod_object
from plugbay.node.api.refusals import not_found
from plugbay.node.api.resources import NODES
from plugbay.node.api.summaries import summary_object
from plugbay.ops.clock import Clock
from plugbay.ops.routing import JSON, Answer, HttpError, Request, Response, Router
from plugbay.ops.slices import joined, json_pieces
from plugbay.pods.store.table import PodTable

_PROC: Final = Path("/proc")
_KUBELET_PORT: Final = "10250"
_SERVED: Final = "healthz, metrics, pods, readyz and stats/summary"
PROXY: Final = "/api/v1/nodes/{name}/proxy"
DEEPEST: Final = 4
"""The segments of the longest path that is answered at all."""


class NodeProxyRoutes:
    """The pages of the node.

    Args:
        pages: those of an operator, which the node may serve elsewhere as well.
        volumes: lies in the file system that pods write to.
    """

    def __init__(self, facts: NodeFacts, pods: PodTable, pages: Router, *, volumes: Path, clock: Clock) -> None:
        self._facts = facts
        self._pods = pods
        self._pages = pages
        self._volumes = volumes
        self._clock = clock

    async def get(self, request: Request) -> Answer:
        """The page that the path names after ``proxy``."""
        name, _, port = request.params["name"].removeprefix("https:").partition(":")
        if name != self._facts.name or port not in ("", _KUBELET_PORT):
            raise not_found(NODES, request.params["name"])
        path = "/".join(segment for key, segment in request.params.items() if key != "name").rstrip("/")
        match path:
            case "pods":
                return await self._list_pods()
            case "stats/summary":
                return await self._summary()
        try:
            handler, params = self._pages.find("GET", f"/{path}")
        except HttpError:
            problem = f"node {name} has no page {path!r}; it serves {_SERVED}"
            raise HttpError(404, "NotFound", problem) from None
        return await handler(Request("GET", f"/{path}", query=request.query, params=params, pairs=request.pairs))

    async def _list_pods(self) -> Response:
        items = (pod_object(record, runtime=self._facts.runtime) for record in list(self._pods))
        return await _json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    async def _summary(self) -> Response:
        usage, files = await asyncio.to_thread(
            lambda: (read_machine_usage(proc_root=_PROC), read_file_system_usage(self._volumes))
        )
        return await _json(summary_object(self._facts, usage, files, list(self._pods), now=self._clock.now()))


async def _json(value: object) -> Response:
    return Response(body=(await joined(json_pieces(value))).encode() + b"\n", content_type=JSON)
