"""Two plugins of one process that can be killed between any two effects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, ReleasePolicy
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ResourceName
from plugbay.sdk.author.release_settings import ReleaseSettings
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.release import Release
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from tests.contract.rigs.stock_witness import Witness

GOPHER: Final = ResourceName("example.com/gopher")
BADGER: Final = ResourceName("example.com/badger")
DEVICES: Final[Mapping[ResourceName, tuple[str, ...]]] = {GOPHER: ("g1", "g2", "g3"), BADGER: ("b1", "b2")}
INTERVAL_S: Final = 30.0


class Fate:
    """Kills the process at its next effect but ``left``. What is dead has no effect any more."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.has_come = False
        self.effects = 0
        self.come: Callable[[], object] = lambda: None

    def effect(self) -> None:
        """Something that outlasts the process is about to happen, or has."""
        self.effects += 1
        if self.left is not None and not self.has_come:
            self.left -= 1
            if self.left < 0:
                self.has_come = True
                self.come()
        if self.has_come:  # nothing but a cancellation passes all handlers of errors
            raise asyncio.CancelledError


class Cleaner(DevicePlugin):
    """Its hooks tell the witness."""

    def __init__(self, resource: ResourceName, policy: ReleasePolicy, fate: Fate, witness: Witness) -> None:
        self.resource_name = resource
        self.release_policy = policy
        self._fate = fate
        self._witness = witness

    def discover(self) -> Sequence[Device]:
        return [Device(name) for name in DEVICES[ResourceName(self.resource_name)]]

    async def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        self._fate.effect()
        self._witness.allocated([device.id for device in devices])
        if self._witness.may_answer is not None:
            await self._witness.may_answer.wait()
        self._fate.effect()
        return ContainerEdits()

    async def post_stop(self, assignment: Assignment) -> None:
        self._fate.effect()
        self._witness.stopped(assignment)
        self._fate.effect()

    async def release(self, assignment: Assignment) -> None:
        self._fate.effect()
        self._witness.begins(assignment)
        if self._witness.let_go is not None:
            await self._witness.let_go.wait()
        self._fate.effect()
        self._witness.ends(assignment)
        self._fate.effect()


class StockPlugin:
    """A process. Looks at what is over only when told to."""

    def __init__(self, paths: KubeletPaths, policy: ReleasePolicy, witness: Witness, boot: str) -> None:
        self.fate = Fate()
        shared = Shared(ReleaseSettings(interval_s=INTERVAL_S), paths)
        shared.boot = boot
        self._servers = [
            PluginServer(Cleaner(resource, policy, self.fate, witness), paths, shared=shared) for resource in DEVICES
        ]
        self.releases = [_watched(server.release, self.fate) for server in self._servers]
        self._running = asyncio.create_task(self._run(), name="the plugin's process")
        self.fate.come = lambda: self._running.get_loop().call_soon_threadsafe(self._running.cancel)

    async def _run(self) -> None:
        async with watching() as watches, asyncio.TaskGroup() as self._tasks:
            for server in self._servers:
                self._tasks.create_task(server.run(watches))

    async def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the process do this, as long as it lives."""
        if self.has_ended:
            work.close()
            return
        working = self._tasks.create_task(work)
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()

    async def look(self) -> None:
        """Look for uses that are over, and release them."""
        await self.do(self._look())

    async def _look(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for release in self.releases:
                await release.sweep._look(tasks)

    async def stop(self) -> None:
        """The normal way."""
        for server in self._servers:
            server.stop()
        await self.ended()

    @property
    def has_ended(self) -> bool:
        return self.fate.has_come or self._running.done()

    async def ended(self) -> None:
        """Wait until nothing is left of it, its threads included."""
        await asyncio.wait([self._running])
        await asyncio.to_thread(lambda: None)  # behind what the one thread of `Loop` still does for it
        for release in self.releases:
            release.ledger.close()
        if not self._running.cancelled():
            self._running.result()


def _watched(release: Release | None, fate: Fate) -> Release:
    assert release is not None
    journal = release.ledger._journal
    append, replace = journal.append, journal.replace

    def killable(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*arguments: Any) -> Any:
            fate.effect()
            outcome = write(*arguments)
            fate.effect()
            return outcome

        return written

    journal.append = killable(append)  # type: ignore[method-assign]
    journal.replace = killable(replace)  # type: ignore[method-assign]
    release.run = asyncio.Event().wait  # type: ignore[method-assign,assignment]  # looks only when told to
    return release
