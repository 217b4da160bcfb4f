"""The authority that a plugin sees, read off the socket: grpcio does not show it to a server.

What is expected was seen with kubelet 1.36 and a plugin made with grpc-go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import RpcFailed
from plugbay.ops.tasks import background
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.pluginregistration import PluginRegistrationClient
from plugbay.wire.sockets import authority_of

DEADLINE_S: Final = 30
SETTINGS: Final = bytes.fromhex("000000040000000000")
"""All that a client of HTTP/2 wants to hear before it calls."""


async def until_told(path: Path, authority: str, call: Awaitable[object]) -> None:
    """Returns when whoever listens at ``path`` has read a header with this value: its length, and itself."""
    value = bytes([len(authority)]) + authority.encode()
    is_told = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS)
        received = b""
        while not is_told.is_set() and (chunk := await reader.read(4096)):
            received += chunk
            if value in received:
                is_told.set()
        writer.close()

    async def attempt() -> None:
        with suppress(RpcFailed):  # nobody answers
            await call

    async with await asyncio.start_unix_server(listen, path), background(attempt(), name="call"):
        async with asyncio.timeout(DEADLINE_S):
            await is_told.wait()


async def test_a_plugin_is_called_localhost(sockets: Path) -> None:
    path = sockets / "card.sock"
    client = PluginClient(path)
    try:
        await until_told(path, "localhost", client.options())
    finally:
        await client.close()


async def test_a_registration_socket_is_called_by_its_path(sockets: Path) -> None:
    path = sockets / "card.sock"
    client = PluginRegistrationClient(path)
    try:
        await until_told(path, f"{sockets}/card.sock".replace("/", "%2F"), client.info(timeout_s=DEADLINE_S))
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("path", "authority"),
    [
        ("/var/lib/kubelet/plugins_registry/w.sock", "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fw.sock"),
        ("/a-b_c.d~e", "%2Fa-b_c.d~e"),
        ("/!$&'()*+,;=:[]@", "%2F!$&'()*+,;=:[]@"),
        ('/ "#%<>?\\^`{|}é', "%2F%20%22%23%25%3C%3E%3F%5C%5E%60%7B%7C%7D%C3%A9"),
    ],
)
def test_what_go_escapes(path: str, authority: str) -> None:
    assert authority_of(Path(path)) == authority
