"""A server whose client is frozen in the middle of a list: it ends nevertheless."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from plugbay.model.devices import PluginOptions
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import device_plugin_handler

DEADLINE_S = 60
CLIENT = """
import asyncio, sys
from pathlib import Path
from plugbay.wire.plugin_client import PluginClient

async def read():
    async for _ in PluginClient(Path(sys.argv[1])).lists():
        print("reads", flush=True)

asyncio.run(read())
"""


class Verbose(FakePlugin):
    """Its second list is longer than what a socket holds."""

    def __init__(self, socket: Path) -> None:
        super().__init__("example.com/gopher", socket, (), PluginOptions())
        self.may_go_on = asyncio.Event()
        self.has_gone_on = asyncio.Event()

    async def lists(self) -> AsyncIterator[bytes]:
        yield b""
        await self.may_go_on.wait()
        self.has_gone_on.set()
        yield bytes(3_000_000)


async def test_server_ends_though_its_client_is_frozen(sockets: Path) -> None:
    path = sockets / "s.sock"
    plugin = Verbose(path)
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [device_plugin_handler(plugin)]):
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert client.stdout is not None
        await client.stdout.readline()
        client.send_signal(signal.SIGSTOP)
        plugin.may_go_on.set()
        await plugin.has_gone_on.wait()
    assert client.returncode is None, "it could not have hung up"
    client.kill()
    await client.wait()
