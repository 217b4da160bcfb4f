"""Two plugins of one process that can be killed between any two effects, and who watches what their hooks are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, ReleasePolicy
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.custody import Custody
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import ReleaseSettings
from plugbay.sdk.release.sweep import Sweep
from plugbay.sdk.server import PluginServer
from plugbay.sdk.watching import watching

GOPHER: Final = ResourceName("example.com/gopher")
BADGER: Final = ResourceName("example.com/badger")
DEVICES: Final[Mapping[ResourceName, tuple[str, ...]]] = {GOPHER: ("g1", "g2", "g3"), BADGER: ("b1", "b2")}
INTERVAL_S: Final = 30.0
SLOWNESS_S: Final = 0.02
"""So long a held release goes on for an Allocate that should wait for it; nothing depends on it that must hold."""


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


class Witness:
    """What is true of the devices, whatever anybody has written down.

    Args:
        users: the pods that may use a device now.

    Attributes:
        given: what the pod has got that the kubelet works on now.
        dirty: devices that were given and not released since.
        started: those that a container has which was started and not post-stopped.
        running: those that a container has which runs.
        failing: so many of the next releases fail.
        held: whether a release goes on until `let_go` is set.
        wrong: what must never happen, and did.
    """

    def __init__(self, policy: ReleasePolicy, users: Callable[[str], Collection[str]]) -> None:
        self._policy = policy
        self._users = users
        self.given: set[str] = set()
        self.dirty: set[str] = set()
        self.started: set[str] = set()
        self.running: Counter[str] = Counter()
        self.failing = 0
        self.let_go: asyncio.Event | None = None
        self.releasing_begun = asyncio.Event()
        self.wrong: list[str] = []
        self.releases = 0
        self._releasing: Counter[str] = Counter()
        self._released_here: set[str] = set()
        self._units: dict[str, tuple[str, ...]] = {}

    def process_starts(self) -> None:
        """None is left of the one before."""
        self._releasing.clear()
        self._released_here.clear()

    def starts(self, units: Collection[str]) -> None:
        """A container."""
        self.running.update(units)
        self.started.update(units)

    def allocated(self, units: Collection[str]) -> None:
        if busy := [unit for unit in units if self._releasing[unit]]:
            self._say(f"gave {busy} while they were released")
        if self._policy is ReleasePolicy.STRICT and (soiled := self.dirty.intersection(units) - self.given):
            self._say(f"gave {sorted(soiled)} dirty")
        self.given.update(units)
        self.dirty.update(units)

    def begins(self, assignment: Assignment) -> None:
        units = assignment.units
        for unit in units:
            if users := [*self._users(unit), *["the pod being admitted"] * (unit in self.given)]:
                self._say(f"released {unit} while {', '.join(users)} may use it")
        if self._policy is ReleasePolicy.STRICT and (unstopped := self.started.intersection(units)):
            self._say(f"released {sorted(unstopped)} before post_stop")
        if self._units.setdefault(assignment.key, units) != units:
            self._say(f"{assignment.key} was {self._units[assignment.key]} and is {units}")
        if assignment.key in self._released_here:
            self._say(f"released {assignment.key} twice in one process")
        self._releasing.update(units)
        self.releasing_begun.set()

    def ends(self, assignment: Assignment) -> None:
        self._releasing.subtract(assignment.units)
        if self.failing:
            self.failing -= 1
            raise RuntimeError("the drive does not answer")
        self.releases += 1
        self._released_here.add(assignment.key)
        self.dirty.difference_update(assignment.units)

    def stopped(self, assignment: Assignment) -> None:
        if running := [unit for unit in assignment.units if self.running[unit]]:
            self._say(f"post-stopped {running} which run")
        self.started.difference_update(assignment.units)

    def _say(self, what: str) -> None:
        self.wrong.append(what)


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
        self.custodies = [_watched(server.custody, self.fate) for server in self._servers]
        self._sweeps = [Sweep(custody) for custody in self.custodies]
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
            for sweep in self._sweeps:
                await sweep._look(tasks)

    async def stop(self) -> None:
        """The normal way."""
        for server in self._servers:
            server.stop()
        await self.ended()

    @property
    def has_ended(self) -> bool:
        return self.fate.has_come or self._running.done()

    async def ended(self) -> None:
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()


def _watched(custody: Custody | None, fate: Fate) -> Custody:
    assert custody is not None
    journal = custody.book._journal
    append, rewrite = journal.append, journal.rewrite

    def killable(write: Callable[..., None]) -> Callable[..., None]:
        def written(*arguments: Any) -> None:
            fate.effect()
            write(*arguments)
            fate.effect()

        return written

    journal.append = killable(append)  # type: ignore[method-assign]
    journal.rewrite = killable(rewrite)  # type: ignore[method-assign]
    custody.run = asyncio.Event().wait  # type: ignore[method-assign,assignment]  # looks only when told to
    return custody
