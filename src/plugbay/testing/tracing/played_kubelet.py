"""The kubelet that a replay plays: a registration socket whose calls are answered by the replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.message_values import LIST_AND_WATCH
from plugbay.wire.registration import Registration, moved_registration

DIAL_S: Final = 10.0
CALL_S: Final = 30.0
"""The time that a plugin has for one call."""


@dataclass(eq=False)
class PlayedRegistration:
    """A Register call that waits for its answer.

    Attributes:
        request: as it came.
    """

    request: bytes
    registration: Registration
    _answer: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def answer(self, refusal: RpcFailed | None) -> None:
        """Accept, or refuse; the plugin may have given up meanwhile."""
        if not self._answer.done():
            self._answer.set_result(None) if refusal is None else self._answer.set_exception(refusal)

    async def answered(self) -> None:
        await self._answer


class PlayedKubelet:
    """Used through `played_kubelet`."""

    def __init__(self, paths: KubeletPaths, tasks: asyncio.TaskGroup) -> None:
        self._paths = paths
        self._tasks = tasks
        self._life = AsyncExitStack()
        self._came: asyncio.Queue[PlayedRegistration] = asyncio.Queue()
        self._channels: dict[str, Channel] = {}

    async def start(self) -> None:
        """Clear the directory of sockets, then listen, as a kubelet does."""
        await asyncio.to_thread(self._clear)
        service = Service("v1beta1.Registration", {"Register": Unary(self._register)})
        await self._life.enter_async_context(serve_grpc(self._paths.registration_socket, [service]))

    async def stop(self) -> None:
        """Hang up on all plugins, and stop listening."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()
        while not self._came.empty():
            self._came.get_nowait()
        await self._life.aclose()

    async def next_registration(self) -> PlayedRegistration:
        """The next Register call; its answer is the caller's."""
        return await self._came.get()

    async def dial(self, registration: Registration) -> None:
        """Connect to a plugin that registers.

        Raises:
            TimeoutError: it does not serve.
        """
        await self.dial_socket(registration.resource_name, self._paths.device_plugins / registration.endpoint)

    async def dial_socket(self, resource: str, socket: Path) -> None:
        """Connect to a plugin that serves ``resource`` at a socket.

        Raises:
            TimeoutError: it does not serve.
            PathTooLong: the kernel cannot connect to the path.
        """
        channel = Channel(socket)
        before = self._channels.get(resource)
        self._channels[resource] = channel
        if before is not None:
            await before.close()
        await channel.connect(DIAL_S)

    async def call(self, resource: str, method: str, request: bytes) -> bytes | None:
        """The answer to a call, the first message of ListAndWatch, whose stream stays open; None for no message.

        Raises:
            RpcFailed: the plugin refuses, or does not answer in time.
        """
        channel = self._channels[resource]
        if method != LIST_AND_WATCH:
            return await channel.unary(method, request, timeout_s=CALL_S)
        first: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._tasks.create_task(_follow(channel, request, first), name=f"lists of {resource}")
        async with asyncio.timeout(CALL_S):
            return await first

    async def _register(self, request: bytes) -> bytes:
        moved = moved_registration(request, str)
        played = PlayedRegistration(request, Registration("", "", "") if moved is None else moved[0])
        self._came.put_nowait(played)
        await played.answered()
        return b""

    def _clear(self) -> None:
        self._paths.device_plugins.mkdir(parents=True, exist_ok=True)
        for entry in self._paths.device_plugins.iterdir():
            if entry.is_socket():
                entry.unlink(missing_ok=True)


async def _follow(channel: Channel, request: bytes, first: asyncio.Future[bytes | None]) -> None:
    """Read lists until the stream ends; later lists tell of changes, which a replay does not make."""
    failure: RpcFailed | None = None
    try:
        async for message in channel.stream(LIST_AND_WATCH, request):
            if not first.done():
                first.set_result(message)
    except RpcFailed as error:
        failure = error
    if not first.done():
        if failure is None:
            first.set_result(None)
        else:
            first.set_exception(failure)


@asynccontextmanager
async def played_kubelet(paths: KubeletPaths) -> AsyncIterator[PlayedKubelet]:
    """A kubelet that listens in ``paths`` during the block."""
    async with asyncio.TaskGroup() as tasks:
        kubelet = PlayedKubelet(paths, tasks)
        await kubelet.start()
        try:
            yield kubelet
        finally:
            with suppress(RpcFailed):
                await kubelet.stop()
