"""Stand between a plugin and a kubelet, ours or a stock one, from start to end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.errors import PathTooLong, PathUnusable
from plugbay.kernel.socket_watch import watch_sockets
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.tasks import background
from plugbay.testing.traffic.relay.forwarding import TrafficWatch, forward
from plugbay.testing.traffic.relay.registrations import Registrations, follow_registrations
from plugbay.testing.traffic.relay.registry import relay_registry
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.server import serve_grpc

logger = logging.getLogger(__name__)

_POD_RESOURCES_BYTES: Final = 16 * 1024 * 1024
"""The longest answer that clients of the PodResources API take."""


@asynccontextmanager
async def relay(
    kubelet: KubeletPaths, served: KubeletPaths, watch: TrafficWatch, *, seen_root: Path | None = None
) -> AsyncIterator[None]:
    """Relay between the kubelet at ``kubelet`` and the plugins of ``served`` until the block ends.

    The directory for plugins below ``served`` looks like the kubelet's: when the kubelet stops, its socket goes; when
    it starts, all sockets are removed and its socket is there anew; when the kubelet's directory goes, it goes too. If
    the kubelet serves the PodResources API, the plugin finds that as well. The relay's sockets in the kubelet's
    directories are gone when the block has ended.

    Args:
        served: directories that belong to the relay; they are made.
        seen_root: the root of ``served`` as the plugin sees it, if it sees it at another place.

    Raises:
        PathTooLong, PathUnusable: the directories of ``served`` cannot be made, or hold no socket.
    """
    await asyncio.to_thread(_make, served)
    registry = relay_registry(kubelet, served, seen_root or served.root, watch)
    async with (
        _pod_resources(kubelet, served),
        background(_follow(kubelet, served, watch), name="relay"),
        background(registry, name="relay of the registry"),
    ):
        yield


@asynccontextmanager
async def _pod_resources(kubelet: KubeletPaths, served: KubeletPaths) -> AsyncIterator[None]:
    """Let the plugin ask the kubelet which pods hold which devices; no record tells of that."""
    if not await asyncio.to_thread(kubelet.pod_resources_socket.is_socket):
        yield
        return
    await asyncio.to_thread(served.pod_resources_socket.parent.mkdir, exist_ok=True)
    channel = Channel(kubelet.pod_resources_socket, max_message_bytes=_POD_RESOURCES_BYTES)
    try:
        async with forward(served.pod_resources_socket, channel):
            yield
    finally:
        await channel.close()


async def _follow(kubelet: KubeletPaths, served: KubeletPaths, watch: TrafficWatch) -> None:
    """Show the plugin what becomes of the kubelet's directory, until cancelled."""
    while True:
        await _until_there(kubelet.device_plugins)
        await asyncio.to_thread(served.device_plugins.mkdir, exist_ok=True)
        async with (
            watch_sockets(kubelet.device_plugins) as sockets,
            follow_registrations(kubelet, served, watch) as registrations,
            AsyncExitStack() as around,
        ):
            front = _Front(kubelet, served, registrations)
            around.push_async_callback(front.close)
            async for _ in sockets:
                await front.show(sockets.sockets.get(kubelet.registration_socket))
        logger.info("the kubelet's directory %s is gone, and so is the plugin's", kubelet.device_plugins)
        await asyncio.to_thread(_remove_directory, served.device_plugins)


class _Front:
    """The kubelet as its plugin sees it: kubelet.sock, and what becomes of the sockets beside it.

    A kubelet that starts removes all sockets from its directory. A mark there, a socket on which nothing listens, tells
    the relay the moment at which it does.
    """

    def __init__(self, kubelet: KubeletPaths, served: KubeletPaths, registrations: Registrations) -> None:
        self._served = served
        self._registrations = registrations
        self._mark = kubelet.device_plugins / f"relay-{os.getpid()}-mark.sock"
        self._is_marked = False
        self._shown: int | None = None
        self._up = AsyncExitStack()

    async def show(self, incarnation: int | None) -> None:
        """Bring the plugin's directory in line with the kubelet's, which has changed.

        Args:
            incarnation: the number of its kubelet.sock; None if there is none.
        """
        self._registrations.drop_vanished()
        if self._is_marked and not self._mark.exists():
            self._is_marked = False
            await self._hide()
            await asyncio.to_thread(_clear, self._served.device_plugins)
        if incarnation != self._shown:
            await self._hide()
            if incarnation is not None:
                self._is_marked = await asyncio.to_thread(_make_mark, self._mark)
                await self._serve(incarnation)

    async def close(self) -> None:
        """Leave nothing in either directory."""
        await self._hide()
        if self._is_marked:
            await asyncio.to_thread(self._mark.unlink, missing_ok=True)

    async def _serve(self, incarnation: int) -> None:
        self._shown = incarnation
        try:
            await self._up.enter_async_context(
                serve_grpc(self._served.registration_socket, [], otherwise=self._registrations.method)
            )
        except (PathTooLong, PathUnusable) as error:
            logger.warning("the plugin finds no kubelet until the next one starts: %s", error)

    async def _hide(self) -> None:
        self._shown = None
        await self._up.aclose()


async def _until_there(directory: Path) -> None:
    async with watch_paths([directory]) as changes:
        while not await asyncio.to_thread(directory.is_dir):
            await anext(changes)


def _make_mark(path: Path) -> bool:
    """Whether the mark is there; without it the plugin's sockets stay when the kubelet removes its own."""
    try:
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mark:
            mark.bind(os.fspath(path))
    except OSError as error:
        logger.warning("cannot make %s, so plugins' sockets stay when the kubelet removes its own: %s", path, error)
        return False
    return True


def _make(served: KubeletPaths) -> None:
    for directory in (served.device_plugins, served.plugins_registry):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PathUnusable(str(directory), f"cannot make this directory: {error.strerror}") from error


def _clear(directory: Path) -> None:
    """Remove all sockets, as a kubelet does when it starts."""
    with suppress(OSError):
        for entry in directory.iterdir():
            if entry.is_socket():
                with suppress(OSError):
                    entry.unlink()


def _remove_directory(directory: Path) -> None:
    """Remove the directory with its sockets; a plugin's other files keep it there."""
    _clear(directory)
    with suppress(OSError):
        directory.rmdir()
