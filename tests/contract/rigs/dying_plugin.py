"""A plugin in a process of its own that dies in one call: ``dying_plugin.py RESOURCE SOCKET KUBELET_SOCKET METHOD``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from plugbay.model.devices import Device, PluginOptions
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import device_plugin_handler

ALL_OPTIONS = PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


class DyingPlugin(FakePlugin):
    def __init__(self, resource: str, socket: Path, fatal: str) -> None:
        super().__init__(resource, socket, [Device("a"), Device("b")], ALL_OPTIONS)
        self._fatal = fatal
        self.allocate_answer = self._dying("Allocate", self.allocate_answer)
        self.prefer_answer = self._dying("GetPreferredAllocation", self.prefer_answer)
        self.pre_start_answer = self._dying("PreStartContainer", self.pre_start_answer)

    async def options(self) -> PluginOptions:
        self._perhaps_die("GetDevicePluginOptions")
        return await super().options()

    async def lists(self) -> AsyncIterator[bytes]:
        self._perhaps_die("ListAndWatch")
        async for message in super().lists():
            yield message

    def _dying(self, method: str, answer: Any) -> Any:
        async def die_or_answer(request: Any) -> Any:
            self._perhaps_die(method)
            return await answer(request)

        return die_or_answer

    def _perhaps_die(self, method: str) -> None:
        if method == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(resource: str, socket: Path, kubelet_socket: Path, fatal: str) -> None:
    plugin = DyingPlugin(resource, socket, fatal)
    async with serve_grpc(socket, [device_plugin_handler(plugin)]):
        await plugin.register(kubelet_socket)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
