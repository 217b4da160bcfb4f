"""A kubelet as a plugin sees it: a registration socket, and a client that follows each registered plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import RegistrationRefused, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.wire.device_list import ChangedDevices, NewList
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.registration import Registration, registration_handler

PATIENCE_S: Final = 30.0
"""The longest time that any wait of a test may take."""
DIAL_S: Final = 10.0
"""The time for which a kubelet dials a plugin."""


class RegisteredPlugin:
    """A plugin after one registration: its Register call, its newest list, and ``client`` for every other call.

    Attributes:
        options: its answer when it was dialled.
        devices: its newest list, by ID in the plugin's order.
        ended: set when its ListAndWatch stream is over.
    """

    def __init__(self, registration: Registration, socket: Path) -> None:
        self.registration = registration
        self.socket = socket
        self.client = PluginClient(socket)
        self.options = PluginOptions()
        self.devices: dict[DeviceId, ListedDevice] = {}
        self.ended = asyncio.Event()
        self._lists: asyncio.Queue[tuple[DeviceId, ...]] = asyncio.Queue()

    async def next_list(self) -> tuple[str, ...]:
        """Wait for the next list; return its device IDs. Each list is returned once.

        Raises:
            TimeoutError: no list came in time.
        """
        async with asyncio.timeout(PATIENCE_S):
            return await self._lists.get()

    async def until_devices(self, *ids: str) -> None:
        """Read lists until one has exactly these devices, in this order."""
        while await self.next_list() != ids:
            pass

    async def until_ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.ended.wait()

    async def dial(self) -> None:
        """Dial the plugin, as a kubelet does before it answers Register."""
        try:
            await self.client.connect(DIAL_S)
        except TimeoutError:
            raise RegistrationRefused("failed to dial device plugin: context deadline exceeded") from None
        self.options = await self.client.options(timeout_s=DIAL_S)

    async def follow(self) -> None:
        """Read lists until the stream ends, then hang up, as a kubelet does."""
        try:
            async for update in self.client.lists():
                match update:
                    case NewList(devices):
                        self.devices = {device.id: device for device in devices}
                    case ChangedDevices(devices):
                        self.devices.update({device.id: device for device in devices})
                self._lists.put_nowait(tuple(self.devices))
        except RpcFailed:
            pass  # the plugin is gone, or its stream broke: the end of the stream is all a kubelet sees
        finally:
            self.ended.set()
            await self.client.close()


class FakeKubelet:
    """Used through `fake_kubelet`.

    Attributes:
        refusal: the text of every answer to Register; None accepts.
        follows_lists: whether it opens ListAndWatch after a registration.
        clears_directory: whether it removes all sockets when it starts, as kubelets do.
        hangs: whether a Register call is never answered.
        attempts: every Register call so far, refused or not.
    """

    def __init__(self, paths: KubeletPaths, tasks: asyncio.TaskGroup, *, clears_directory: bool) -> None:
        self.paths = paths
        self.clears_directory = clears_directory
        self.hangs = False
        self._is_stopping = False
        self.refusal: str | None = None
        self.follows_lists = True
        self.attempts: list[Registration] = []
        self._tasks = tasks
        self._followers: set[asyncio.Task[None]] = set()
        self._attempted: asyncio.Queue[Registration] = asyncio.Queue()
        self._registered: asyncio.Queue[RegisteredPlugin] = asyncio.Queue()
        self._up = AsyncExitStack()

    async def start(self) -> None:
        """Clear the directory of sockets, plugins' included, then listen, as a kubelet does."""
        self._is_stopping = False
        self.paths.device_plugins.mkdir(parents=True, exist_ok=True)
        for entry in self.paths.device_plugins.iterdir():
            if self.clears_directory and entry.is_socket():
                entry.unlink(missing_ok=True)
        await self._up.enter_async_context(
            serve_grpc(self.paths.registration_socket, [registration_handler(self._accept)])
        )

    async def stop(self) -> None:
        """Hang up on every plugin and stop listening; plugins' sockets stay."""
        self._is_stopping = True
        self.hang_up()
        if self._followers:
            await asyncio.wait(self._followers)
        await self._up.aclose()

    def hang_up(self) -> None:
        """Close the connection to every plugin and go on listening."""
        for follower in self._followers:
            follower.cancel()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def next_registration(self) -> RegisteredPlugin:
        """Wait for the next accepted registration. Each is returned once.

        Raises:
            TimeoutError: no registration came in time.
        """
        async with asyncio.timeout(PATIENCE_S):
            return await self._registered.get()

    async def next_attempt(self) -> Registration:
        """Wait for the next Register call, refused or not. Each is returned once."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._attempted.get()

    @property
    def unasked_registrations(self) -> int:
        """How many accepted registrations wait for `next_registration`."""
        return self._registered.qsize()

    async def _accept(self, registration: Registration) -> None:
        self.attempts.append(registration)
        self._attempted.put_nowait(registration)
        if self.refusal is not None:
            raise RegistrationRefused(self.refusal)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        plugin = RegisteredPlugin(registration, self.paths.device_plugins / registration.endpoint)
        try:
            await plugin.dial()
            if self._is_stopping:  # too late: `stop` would not hang up on this plugin any more
                await asyncio.get_running_loop().create_future()
        except BaseException:
            await plugin.client.close()
            raise
        follower = self._tasks.create_task(plugin.follow() if self.follows_lists else _hold(plugin))
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        self._registered.put_nowait(plugin)


async def _hold(plugin: RegisteredPlugin) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await plugin.client.close()


@asynccontextmanager
async def fake_kubelet(paths: KubeletPaths, *, clears_directory: bool = True) -> AsyncIterator[FakeKubelet]:
    """A kubelet that listens in ``paths`` during the block, and can be stopped, restarted and told to refuse::

    async with fake_kubelet(KubeletPaths(root)) as kubelet:
        plugin = await kubelet.next_registration()
        await plugin.until_devices("g1", "g2")
        answer = await plugin.client.allocate(["g1"])
    """
    async with asyncio.TaskGroup() as tasks:
        kubelet = FakeKubelet(paths, tasks, clears_directory=clears_directory)
        try:
            await kubelet.start()
            yield kubelet
        finally:
            await kubelet.stop()
