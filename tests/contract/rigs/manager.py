"""A manager on real sockets, and what tests around it need: plugins, pods, a clock, waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.errors import AdmissionError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.admission.topology import HintProvider
from plugbay.manager.config import ManagerConfig
from plugbay.manager.endpoints import watcher
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.changes import Changes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.testing.fakes.watched_plugin import FakeWatchedPlugin
from plugbay.wire.plugin_transport import PLAIN, PluginTransport
from plugbay.wire.pluginregistration import RegistrationStatus

GOPHER: Final = ResourceName("example.com/gopher")
OTHER: Final = ResourceName("example.com/other")
APP: Final = ContainerName("app")
REGISTERED: Final = RegistrationStatus(True)
DEADLINE_S: Final = 30


def container(name: str, kind: ContainerKind = ContainerKind.APP, **limits: int) -> ContainerRequest:
    return ContainerRequest(
        ContainerName(name), kind, {ResourceName(f"example.com/{kind}"): count for kind, count in limits.items()}
    )


def pod(uid: str, *containers: ContainerRequest, gopher: int = 1) -> PodRequest:
    return PodRequest(PodUid(uid), "default", uid, containers or (container("app", gopher=gopher),))


class SleepersClock(ManualClock):
    """Knows who sleeps for how long, so that a test can let exactly that time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep: list[float] = []
        self._news = Changes()

    async def sleep(self, seconds: float) -> None:
        self.asleep.append(seconds)
        self._news.notify()
        await super().sleep(seconds)

    async def until_asleep(self, seconds: float) -> None:
        """Wait until somebody sleeps so long."""
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self._news:
                if seconds in self.asleep:
                    return

    async def sleep_through(self, seconds: float) -> None:
        """Wait until somebody sleeps so long, and let the time pass."""
        await self.until_asleep(seconds)
        self.asleep.remove(seconds)
        self.advance(seconds)


@dataclass
class Bench:
    """A manager and the plugins around it."""

    config: ManagerConfig
    clock: SleepersClock
    manager: DeviceManager
    stack: AsyncExitStack

    @property
    def paths(self) -> KubeletPaths:
        return self.config.paths

    @property
    def registry(self) -> Path:
        return self.paths.plugins_registry

    @property
    def hidden(self) -> Path:
        """A socket in the registry that is not found until `show`, so that a plugin can be prepared."""
        return self.registry / ".hidden"

    def show(self, name: str = "p.sock") -> None:
        self.hidden.rename(self.registry / name)

    def at(self, socket: str) -> Path:
        return self.paths.device_plugins / socket

    async def plugin(
        self, *devices: str | Device, resource: str = GOPHER, options: PluginOptions | None = None, socket: str = ""
    ) -> FakePlugin:
        """A registered plugin whose devices, all healthy, the manager has seen."""
        path = self.at(socket or f"{resource.split('/')[1]}.sock")
        plugin = await self.stack.enter_async_context(fake_plugin(resource, path, listed(devices), options=options))
        await plugin.register(self.paths.registration_socket)
        await self.until(lambda: self._has_list_of(path, ResourceName(resource)))
        await self.counts(len(devices), len(devices), resource=resource)
        return plugin

    def _has_list_of(self, socket: Path, resource: ResourceName) -> bool:
        """Whether it is the active plugin, and not an older one with as many devices, that has sent its list."""
        active = self.manager.endpoints.active(resource)
        return active is not None and active.socket == socket and active.table is not None

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.manager.changes():
                if condition():
                    return

    async def counts(self, capacity: int, allocatable: int, *, resource: str = GOPHER) -> None:
        """Wait until the resource counts so."""
        wanted = ResourceCount(capacity, allocatable)
        await self.until(lambda: self.manager.resources().get(ResourceName(resource)) == wanted)

    def held(self, uid: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        return self.manager.devices_of(PodUid(uid))  # type: ignore[return-value]  # plain strings read better here

    def gophers_of(self, uid: str) -> dict[str, set[str]]:
        """The gophers each container of a pod holds."""
        return {name: set(by_resource[GOPHER]) for name, by_resource in self.held(uid).items()}

    async def admit(self, *pods: PodRequest) -> None:
        """One after another."""
        for each in pods:
            await self.manager.admit(each)

    async def release(self, uid: str) -> None:
        await self.manager.release_pod(PodUid(uid))

    async def prepare(self, uid: str, name: str = "app") -> ContainerEdits:
        return await self.manager.prepare_container(PodUid(uid), ContainerName(name))

    def edits(self, uid: str, name: str = "app") -> ContainerEdits:
        return self.manager.edits(PodUid(uid), ContainerName(name))


@asynccontextmanager
async def bench(
    root: Path,
    *,
    clock: SleepersClock | None = None,
    hint_providers: Sequence[HintProvider] = (),
    transport: PluginTransport = PLAIN,
    info_timeout_s: float = DEADLINE_S,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """A manager until the block ends; ``settings`` are fields of `ManagerConfig`.

    Args:
        info_timeout_s: deadline of GetInfo. A plugin that a busy machine keeps from answering within a kubelet's second
            would be asked again when the clock has moved, and nobody moves it.
    """
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db", **settings)
    clock = clock or SleepersClock()
    async with AsyncExitStack() as around:
        around.enter_context(pytest.MonkeyPatch.context()).setattr(watcher, "INFO_TIMEOUT_S", info_timeout_s)
        manager = await around.enter_async_context(
            run_manager(config, clock=clock, hint_providers=hint_providers, transport=transport)
        )
        yield Bench(config, clock, manager, await around.enter_async_context(AsyncExitStack()))


def listed(devices: Iterable[str | Device]) -> list[Device]:
    return [each if isinstance(each, Device) else Device(DeviceId(each)) for each in devices]


async def rejection(manager: DeviceManager, request: PodRequest) -> str:
    with pytest.raises(AdmissionError) as caught:
        await manager.admit(request)
    return str(caught.value)


async def registered(plugin: FakeWatchedPlugin) -> None:
    """Wait until the last thing a watched plugin was told is that it is registered."""
    await plugin.until(lambda p: p.statuses[-1:] == [REGISTERED])


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


class Gate:
    """A plugin's behaviour that waits in the middle of a call until the test lets it go on."""

    def __init__(self, behaviour: Callable[..., Any]) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self._behaviour = behaviour

    async def __call__(self, *arguments: object) -> Any:
        self.entered.set()
        await self.open.wait()
        return await self._behaviour(*arguments)
