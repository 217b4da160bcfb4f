"""Animals that cannot live with a kubelet that restarts."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from plugbay.kernel.watch import watch_paths
from plugbay.ops.tasks import background, first
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, Identity, identity, rules


class WatchesItsSocketAlone(Animal):
    """Begins anew when its socket is gone, as each kubelet removes it, and looks at nothing else."""

    caught_by = rules(701, 708)

    async def keep_registered(self) -> None:
        await self.register_once()
        await self.stopping.wait()

    async def register_once(self) -> None:
        for _ in itertools.repeat(None):
            if await self.register():
                break
            await asyncio.sleep(0.1)


class IgnoresRestart(WatchesItsSocketAlone):
    """Registers once, and is content."""

    caught_by = rules(109, 701, 702, 703, 707, 708)

    async def until_lost(self, served: Identity) -> None:
        await self.stopping.wait()


class IgnoresHangUp(Animal):
    """Waits for a new kubelet, though the one that is there has hung up."""

    caught_by = rules(708)

    async def _watched(self, request: pb.Empty) -> AsyncIterator[bytes]:
        async for message in self.lists(request):
            yield message


class NeverRecreatesSocket(Animal):
    """Registers a socket again that is gone."""

    caught_by = rules(109, 702, 703, 707)

    async def until_lost(self, served: Identity) -> None:
        await self.stopping.wait()


class IsBackLate(Animal):
    caught_by = rules(704)

    async def register(self) -> bool:
        if getattr(self, "_was_registered", False):
            await asyncio.sleep(2)
        self._was_registered = True
        return await super().register()


class CountsRegistrations(Animal):
    """Behaves, and counts its registrations."""

    registrations = 0

    async def register(self) -> bool:
        self.registrations += 1
        return await super().register()


class LosesDevices(CountsRegistrations):
    """Lists one device alone, once it has begun anew."""

    caught_by = rules(713)

    def devices(self) -> list[pb.Device]:
        return super().devices() if self.registrations < 2 else super().devices()[:1]


class SickAfterRestart(CountsRegistrations):
    """Lists its devices as unhealthy, once it has begun anew."""

    caught_by = rules(713)

    def sick_ids(self) -> set[str]:
        return super().sick_ids() if self.registrations < 2 else {*self.ids}


class ExitsWithoutKubelet(Animal):
    """Leaves it to Kubernetes to start it again."""

    caught_by = rules(706)

    async def live(self) -> None:
        async with background(self._leave(), name="leave"):
            await super().live()

    async def _leave(self) -> None:
        async with watch_paths([self.kubelet]) as changes:
            known = identity(self.kubelet)
            while known is None or identity(self.kubelet) == known:
                await anext(changes)
                known = known or identity(self.kubelet)
        self.stop()


class LeaksServer(Animal):
    """Starts another server for each kubelet, and stops none."""

    caught_by = rules(805)

    async def live(self) -> None:
        async with AsyncExitStack() as self._servers:
            await super().live()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        await self._servers.enter_async_context(super().serving())
        yield

    async def until_lost(self, served: Identity) -> None:
        await first(super().until_lost(served), self._until_restart())

    async def _until_restart(self) -> None:
        known = identity(self.kubelet)
        async with watch_paths([self.kubelet]) as changes:
            while identity(self.kubelet) in (known, None):
                await anext(changes)


class LeaksThreads(Animal):
    caught_by = rules(807)

    async def register(self) -> bool:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return await super().register()


class LeaksMemory(Animal):
    caught_by = rules(806)

    async def register(self) -> bool:
        self._kept = [*getattr(self, "_kept", ()), b"\1" * 1_000_000]
        return await super().register()


class LeaksProcesses(Animal):
    """Starts a child for each registration, and never ends it."""

    caught_by = rules(812)

    async def register(self) -> bool:
        self._children = [*getattr(self, "_children", ()), await asyncio.create_subprocess_exec("sleep", "600")]
        return await super().register()


class TiresOfRestarts(Animal):
    """Registers twenty times in its life."""

    caught_by = rules(808)

    async def register(self) -> bool:
        self._times = getattr(self, "_times", 0) + 1
        if self._times > 20:
            await self.stopping.wait()
        return await super().register()


class ForgetsToLookAgain(WatchesItsSocketAlone):
    """Once it has begun anew, takes what is there some time after a registration for what it registered with."""

    caught_by = rules(712, 808)
    _has_begun = False

    async def keep_registered(self) -> None:
        if not self._has_begun:
            await Animal.keep_registered(self)
        await self.register_once()
        await asyncio.sleep(0.5)
        registered = identity(self.kubelet)
        async with watch_paths([self.kubelet]) as changes:
            while identity(self.kubelet) in (registered, None):
                await anext(changes)

    async def until_lost(self, served: Identity) -> None:
        if self._has_begun:
            await asyncio.sleep(0.5)
            served = identity(self.socket)
        await super().until_lost(served)
        self._has_begun = True


class LeaksServerOfItsSocket(WatchesItsSocketAlone):
    """Stops no server whose socket is gone."""

    caught_by = rules(701, 708, 805)

    async def live(self) -> None:
        async with AsyncExitStack() as self._servers:
            await super().live()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        await self._servers.enter_async_context(super().serving())
        yield
