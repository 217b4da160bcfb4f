"""A plugin that waits for a plugin watcher to find it; the test decides every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from plugbay.model.devices import Device, PluginOptions
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import device_plugin_handler
from plugbay.wire.pluginregistration import (
    DEVICE_PLUGIN,
    PluginInfo,
    RegistrationStatus,
    plugin_registration_handler,
)


class FakeWatchedPlugin:
    """Used through `fake_watched_plugin`.

    Attributes:
        plugin: its device side.
        info_answer, notify_answer: the behaviours; replace them at any time.
        asked: how often GetInfo was called.
        statuses: every notification so far, in order.
    """

    def __init__(self, plugin: FakePlugin, info: PluginInfo) -> None:
        self.plugin = plugin
        self.info_answer: Callable[[], Awaitable[PluginInfo]] = _answering(info)
        self.notify_answer: Callable[[RegistrationStatus], Awaitable[None]] = _accept
        self.asked = 0
        self.statuses: list[RegistrationStatus] = []
        self._news = asyncio.Condition()

    async def until(self, condition: Callable[[FakeWatchedPlugin], bool], *, timeout_s: float = 10) -> None:
        """Wait until ``condition`` holds; it is evaluated after each call to the registration service."""
        async with asyncio.timeout(timeout_s), self._news:
            await self._news.wait_for(lambda: condition(self))

    # --- the service ------------------------------------------------------------------------------------------------

    async def info(self) -> PluginInfo:
        self.asked += 1
        await self._tell()
        return await self.info_answer()

    async def notified(self, status: RegistrationStatus) -> None:
        self.statuses.append(status)
        await self._tell()
        await self.notify_answer(status)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


@asynccontextmanager
async def fake_watched_plugin(
    resource: str,
    socket: Path,
    devices: Iterable[Device] | None = (),
    *,
    info: PluginInfo | None = None,
    device_socket: Path | None = None,
) -> AsyncIterator[FakeWatchedPlugin]:
    """Serve a plugin whose registration socket is ``socket``.

    Args:
        info: the answer to GetInfo; by default, the answer of a device plugin for ``resource``.
        device_socket: serves the plugin itself, and is its endpoint; by default ``socket`` serves both.
    """
    info = info or PluginInfo(DEVICE_PLUGIN, resource, str(device_socket or ""), ("v1beta1",))
    async with AsyncExitStack() as stack:
        if device_socket is None:
            plugin = FakePlugin(resource, socket, devices, PluginOptions())
            handlers = [device_plugin_handler(plugin)]
        else:
            plugin = await stack.enter_async_context(fake_plugin(resource, device_socket, devices))
            handlers = []
        watched = FakeWatchedPlugin(plugin, info)
        await stack.enter_async_context(serve_grpc(socket, [*handlers, plugin_registration_handler(watched)]))
        yield watched


def _answering(info: PluginInfo) -> Callable[[], Awaitable[PluginInfo]]:
    async def answer() -> PluginInfo:
        return info

    return answer


async def _accept(status: RegistrationStatus) -> None:
    return None
