"""Plugins that a kubelet's plugin watcher finds: for each of their sockets the relay serves one in the kubelet's
``plugins_registry``.

It serves both services of the plugin, so GetInfo's answer names no endpoint any more: then a kubelet dials the socket
that it has found.
"""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

from plugbay.errors import PathTooLong, PathUnusable
from plugbay.kernel.socket_watch import watch_sockets
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.traffic.relay.forwarding import TrafficWatch, forwarded
from plugbay.testing.traffic.transport import DisturbedChannel
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Forwarded
from plugbay.wire.pluginregistration import without_endpoint
from plugbay.wire.sockets import authority_of

logger = logging.getLogger(__name__)

_GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
_REGISTRATION: Final = "/pluginregistration."
_NUMBERS: Final = count(1)


class RelayedSocket:
    """A plugin found by its socket, and both of its services behind one socket of the relay.

    Args:
        socket: the plugin's registration socket.
        seen_root: the kubelet's root as the plugin sees it; endpoints below it lie in ``root``.
    """

    def __init__(self, socket: Path, root: Path, seen_root: Path, watch: TrafficWatch) -> None:
        self._socket = socket
        self._root = root
        self._seen_root = seen_root
        self._watch = watch
        self._registration = watch.over(Channel(socket, authority=authority_of(socket)))
        self._endpoint = socket
        self._plugins: dict[Path, DisturbedChannel] = {}
        self._resource = ""

    def method(self, path: str) -> Forwarded:
        """The answers of the plugin's socket for this service."""
        if path.startswith(_REGISTRATION):
            return forwarded(self._registration, path, self._learn)
        if (plugin := self._plugins.get(self._endpoint)) is None:
            plugin = self._plugins[self._endpoint] = self._watch.over(Channel(self._endpoint), self._resource)
        return forwarded(plugin, path)

    async def close(self) -> None:
        """Hang up on the plugin."""
        await self._registration.close()
        for plugin in self._plugins.values():
            await plugin.close()

    def _learn(self, path: str, answer: bytes) -> bytes:
        """The answer as the kubelet gets it; GetInfo's says where the plugin is."""
        if path != _GET_INFO or (found := without_endpoint(answer)) is None:
            return answer
        info, without = found
        self._resource = info.name
        if not os.path.isabs(info.endpoint):
            return answer if info.endpoint else without
        endpoint = Path(info.endpoint)
        if endpoint.is_relative_to(self._seen_root):
            endpoint = self._root / endpoint.relative_to(self._seen_root)
        self._endpoint = endpoint
        return without


async def relay_registry(kubelet: KubeletPaths, served: KubeletPaths, seen_root: Path, watch: TrafficWatch) -> None:
    """Follow the sockets in the plugin's ``plugins_registry`` until cancelled."""
    ups: dict[Path, AsyncExitStack] = {}
    try:
        async with watch_sockets(served.plugins_registry) as sockets:
            async for paths in sockets:
                for path in paths:
                    if (up := ups.pop(path, None)) is not None:
                        await up.aclose()
                    if path in sockets.sockets:
                        ups[path] = await _serve(path, kubelet, served, seen_root, watch)
    finally:
        for up in ups.values():
            await up.aclose()


async def _serve(
    socket: Path, kubelet: KubeletPaths, served: KubeletPaths, seen_root: Path, watch: TrafficWatch
) -> AsyncExitStack:
    """Serve the relay's socket for one of a plugin; what cannot be served is logged, and nothing is to close then."""
    place = kubelet.plugins_registry / f"relay-{os.getpid()}-{next(_NUMBERS)}.sock"
    up = AsyncExitStack()
    try:
        relayed = RelayedSocket(socket, served.root, seen_root, watch)
        up.push_async_callback(relayed.close)
        await up.enter_async_context(serve_grpc(place, [], otherwise=relayed.method))
    except (PathTooLong, PathUnusable) as error:
        logger.warning("the kubelet cannot find the plugin's %s: %s", socket.name, error)
        await up.aclose()
    return up
