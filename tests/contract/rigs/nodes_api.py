"""The nodes of a cluster's API without TLS, on the event loop: read, watched, and unwell in the ways of API servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from plugbay.ops.cluster import ClusterApi
from plugbay.sdk.process.node_labels import ThisNode

TOKEN = "secret"


@dataclass(slots=True)
class NodesApi:
    """The rig.

    Attributes:
        nodes: the labels of each node.
        refusal: the status of all answers from now on; None to answer.
        requests: their targets, as they came.
        watches: the connections of watches; one that its client has ended is closing.
    """

    directory: Path
    url: str = ""
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    refusal: int | None = None
    requests: list[str] = field(default_factory=list)
    watches: list[tuple[str, asyncio.StreamWriter]] = field(default_factory=list)
    version: int = 1

    def node(self, name: str) -> ThisNode:
        """The process that runs on a node."""
        (self.directory / "token").write_text(f"{TOKEN}\n")
        return ThisNode(name, ClusterApi(self.url, self.directory))

    def label(self, name: str, **labels: str) -> None:
        """Give a node these labels and no others; ``_`` in a key stands for ``/``."""
        self.nodes[name] = {key.replace("_", "/"): value for key, value in labels.items()}
        self.version += 1
        self.tell(name, {"type": "MODIFIED", "object": self.object_of(name)})

    def tell(self, name: str, event: dict[str, Any]) -> None:
        """Send an event to all that watch a node, in two pieces."""
        line = json.dumps(event).encode() + b"\n"
        for watched, writer in self.watches:
            if watched == name:
                for piece in (line[:7], line[7:]):
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def drop(self) -> None:
        """Close all watches."""
        for _, writer in self.watches:
            writer.close()
        self.watches.clear()

    def object_of(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": self.nodes[name], "resourceVersion": str(self.version)}}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        self.requests.append(target)
        place = urlsplit(target)
        name = place.path.removeprefix("/api/v1/nodes").removeprefix("/")
        status, body = 200, json.dumps(self.object_of(name) if name in self.nodes else {})
        if self.refusal is not None or f"Authorization: Bearer {TOKEN}" not in head:
            status, body = self.refusal or 401, json.dumps({"message": "not now"})
        elif name and name not in self.nodes:
            status, body = 404, json.dumps({"message": f'nodes "{name}" not found'})
        elif not name:
            watched = parse_qs(place.query)["fieldSelector"][0].removeprefix("metadata.name=")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.watches.append((watched, writer))
            await reader.read()  # to its end
            writer.close()
            return
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()


@asynccontextmanager
async def nodes_api(directory: Path) -> AsyncIterator[NodesApi]:
    """Serve nodes until the block ends; ``directory`` becomes that of the service account."""
    api = NodesApi(directory)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.close()
        api.drop()
