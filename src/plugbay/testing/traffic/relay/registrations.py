"""The plugins that register through a relay: each gets a socket in the kubelet's directory that stands for its own.

The kubelet is told that socket in the place of the plugin's.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from plugbay.errors import PathTooLong, PathUnusable, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.tasks import first
from plugbay.testing.traffic.faults import DisturbedCall
from plugbay.testing.traffic.passing import Passage
from plugbay.testing.traffic.relay.forwarding import TrafficWatch, forward, forwarded
from plugbay.testing.traffic.transport import DisturbedChannel
from plugbay.traffic.records import Party
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import Forwarded
from plugbay.wire.message_values import REGISTER
from plugbay.wire.registration import moved_registration
from plugbay.wire.sockets import MAX_SOCKET_PATH_BYTES

logger = logging.getLogger(__name__)

SERVES_S: Final = 0.5
"""The time for which a plugin that registers has to serve before its registration is passed on. A plugin that serves
later than that is dialled on meanwhile, as by a kubelet."""
DIAL_S: Final = 10.0
"""The time for which a kubelet dials a plugin."""
MOST_SOCKETS: Final = 32
"""A plugin that registers again and again, and ends no stream, keeps so many sockets of the relay."""
_NUMBERS: Final = count(1)
"""No name is used twice, so that a kubelet takes no socket for another one."""


@dataclass(eq=False)
class _Stand:
    """The relay's socket for one registration.

    Attributes:
        socket: the socket in the kubelet's directory.
        stands_for: the plugin's own socket.
        up: set when it is served.
        over: set to end the service.
    """

    socket: Path
    stands_for: Path
    up: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Registrations:
    """The plugin's calls to its kubelet, and what they bring; made by `follow_registrations`."""

    def __init__(
        self, kubelet: KubeletPaths, served: KubeletPaths, watch: TrafficWatch, tasks: asyncio.TaskGroup
    ) -> None:
        self._directory = kubelet.device_plugins
        self._served = served.device_plugins
        self._watch = watch
        self._tasks = tasks
        self._stands: deque[_Stand] = deque()
        self._kubelet = Channel(kubelet.registration_socket)
        self._others = watch.over(self._kubelet, caller=Party.PLUGIN)

    def method(self, path: str) -> Forwarded:
        """The answers to the plugin's calls: the kubelet's."""
        return Forwarded(self._register) if path == REGISTER else forwarded(self._others, path)

    def drop_vanished(self) -> None:
        """Remove a plugin's socket when the relay's was removed from the kubelet's directory, as if both were one."""
        for stand in list(self._stands):
            if stand.up.is_set() and not stand.socket.exists():
                self._stands.remove(stand)
                stand.over.set()
                with suppress(OSError):
                    stand.stands_for.unlink()

    async def close(self) -> None:
        """Hang up on the kubelet, and serve no plugin any more."""
        for stand in self._stands:
            stand.over.set()
        self._stands.clear()
        await self._others.close()

    async def _register(self, request: bytes, metadata: Metadata, left_s: float | None) -> AsyncGenerator[bytes, None]:
        async def pass_on(request: bytes, left_s: float | None) -> bytes:
            encoded = await self._moved(request)
            return await self._kubelet.unary(REGISTER, encoded, timeout_s=left_s, metadata=metadata)

        known = moved_registration(request, str)
        resource = "" if known is None else known[0].resource_name
        call = DisturbedCall(REGISTER, resource, lambda: None)
        record = self._watch.recorder.call(0, resource, REGISTER, Party.PLUGIN)
        yield await Passage(call, record, self._watch.switches).unary(request, left_s, pass_on)

    async def _moved(self, request: bytes) -> bytes:
        """The request to register the relay's socket, which is served; the same if there is no socket to stand for."""
        number = next(_NUMBERS)
        moved = moved_registration(request, lambda endpoint: self._name(number, endpoint))
        if moved is None:
            return request
        registration, encoded = moved
        stands_for = _joined(self._served, registration.endpoint)
        if self._served not in stands_for.parents:
            return request  # nonsense, which the kubelet answers itself
        stand = _Stand(self._directory / self._name(number, registration.endpoint), stands_for)
        self._stands.append(stand)
        if len(self._stands) > MOST_SOCKETS:
            self._stands.popleft().over.set()
        self._tasks.create_task(self._serve(stand, registration.resource_name), name=f"relay {stand.socket}")
        with suppress(TimeoutError):
            async with asyncio.timeout(SERVES_S):
                await stand.up.wait()
        return encoded

    async def _serve(self, stand: _Stand, resource: str) -> None:
        """Serve the relay's socket once the plugin serves its own: a kubelet finds both at the same time."""
        channel = self._watch.over(Channel(stand.stands_for), resource)
        try:
            if not await first(stand.over.wait(), _dial(channel)) or stand.over.is_set() or not channel.is_connected:
                return
            async with forward(stand.socket, channel):
                stand.up.set()
                await stand.over.wait()
        except (PathTooLong, PathUnusable) as error:
            logger.warning("the kubelet cannot reach the plugin's %s: %s", stand.stands_for.name, error)
        finally:
            await channel.close()

    def _name(self, number: int, endpoint: str) -> str:
        """The name of a socket of the relay, which holds the plugin's if it fits."""
        short = f"relay-{os.getpid()}-{number}"
        name = f"{short}-{Path(endpoint).name}"
        fits = len(bytes(self._directory / name)) <= MAX_SOCKET_PATH_BYTES
        return name if fits else f"{short}.sock"


async def _dial(channel: DisturbedChannel) -> None:
    with suppress(TimeoutError, RpcFailed):
        await channel.connect(DIAL_S)


def _joined(directory: Path, endpoint: str) -> Path:
    return Path(os.path.normpath(directory / endpoint))


@asynccontextmanager
async def follow_registrations(
    kubelet: KubeletPaths, served: KubeletPaths, watch: TrafficWatch
) -> AsyncIterator[Registrations]:
    """Pass on registrations until the block ends; then no plugin is reached through the relay any more."""
    async with asyncio.TaskGroup() as tasks:
        registrations = Registrations(kubelet, served, watch, tasks)
        try:
            yield registrations
        finally:
            await registrations.close()
