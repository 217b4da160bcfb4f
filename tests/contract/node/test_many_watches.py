"""Hundreds of clients that watch over TLS and hear nothing for long; the bench `api` has thousands."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocol
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.api_calls import ApiCaller
from tests.contract.rigs.node_run import DEADLINE_S

MANY = 200
MAPS = "/api/v1/namespaces/default/configmaps"
MOST_BYTES = 128 * 1024
"""The memory of a watch that is allowed, with its client's part, which is in this process too."""


class ManyWatches:
    """Connections that watch one place."""

    def __init__(self, config: NodeConfig) -> None:
        content: Any = yaml.safe_load(config.kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._token = content["users"][0]["user"]["token"]
        address = urlsplit(cluster["server"])
        self._host, self._port = address.hostname, address.port
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def begin(self, target: str) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        self._open.append((reader, writer))
        head = f"GET {target} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        writer.write(head.encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")

    async def await_all(self, mark: bytes) -> None:
        for reader, _ in self._open:
            await reader.readuntil(mark)

    async def end(self) -> None:
        for _, writer in self._open:
            writer.transport.abort()
        for _, writer in self._open:
            try:
                await writer.wait_closed()
            except OSError:
                pass


async def test_many_idle_watches_take_little_and_are_all_told_of_a_change(sockets: Path) -> None:
    config = NodeConfig(sockets, name="n1", api=TcpAddress("127.0.0.1", 0))
    async with asyncio.timeout(DEADLINE_S), open_node(config, environ=os.environ, clock=SystemClock()):
        ask = ApiCaller(config.control_socket)
        version = (await ask("GET", MAPS)).value["metadata"]["resourceVersion"]
        watches = ManyWatches(config)
        await watches.begin(f"{MAPS}?watch=true&resourceVersion={version}")
        tracemalloc.start()
        for _ in range(MANY):
            await watches.begin(f"{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={version}")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held / MANY < MOST_BYTES, f"a watch holds {held // MANY} bytes; asyncio's buffer: {SSLProtocol.max_size}"
        await ask("POST", MAPS, {"metadata": {"name": "m"}})
        await watches.await_all(b'"name": "m"')
        await watches.end()
        assert (await ask("GET", MAPS)).status == 200
