"""Which plugins a process serves now, each by itself: they come and go, and none disturbs another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import Any

from plugbay.errors import DuplicateResource, OperatorError, PlugbayError, RegistrationRefused
from plugbay.model.ids import ResourceName
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import first
from plugbay.sdk.author.plugin import DevicePlugin, resource_of
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.process.sources import AskAssigned, FollowsAssignments, Looking, Member, MemberSource
from plugbay.sdk.release.evidence.pod_lists import PodLists
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import Watches
from plugbay.values import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RosterStep:
    """The steps after which the wanted plugins are served.

    Attributes:
        stop: resources whose plugin is wanted no longer.
        start: plugins whose resource is free.
        refused: plugins whose resource is another wanted one's.
    """

    stop: tuple[ResourceName, ...]
    start: Mapping[ResourceName, DevicePlugin]
    refused: tuple[DevicePlugin, ...]


def next_step(
    wanted: Sequence[tuple[ResourceName, DevicePlugin]], served: Mapping[ResourceName, DevicePlugin]
) -> RosterStep:
    """Decide the steps: a plugin that is served keeps its resource; otherwise the first that wants the resource has it.

    A resource whose plugin is to stop is free only when it has: then this is asked again.
    """
    holders = {name: plugin for name, plugin in served.items() if any(plugin is other for _, other in wanted)}
    start: dict[ResourceName, DevicePlugin] = {}
    refused = []
    for name, plugin in wanted:
        holder = holders.setdefault(name, plugin)
        if holder is not plugin:
            refused.append(plugin)
        elif name not in served:
            start[name] = plugin
    stop = tuple(name for name, plugin in served.items() if holders.get(name) is not plugin)
    return RosterStep(stop, start, tuple(refused))


@dataclass(slots=True)
class _Running:
    """A source that is followed."""

    source: MemberSource
    task: asyncio.Task[None]
    told: asyncio.Event = field(default_factory=asyncio.Event)


class Roster:
    """The plugins of a process and what serves them; `change_to` and what sources say decide which.

    Args:
        make: makes the server of a plugin.
        ask_assigned: for sources that want to know which devices pods hold.

    Attributes:
        pod_lists: the lists of the pods of the kubelet that is served; None when there is none to ask.
        changes: moves when a plugin comes, goes or changes its state, and when a source has told of plugins.
        on_refusal: is called each time a kubelet refuses a registration.
        on_unusable: is called when a source says before anything else that it cannot serve at all.
    """

    def __init__(
        self,
        make: Callable[[DevicePlugin], PluginServer],
        watches: Watches,
        pod_lists: PodLists | None = None,
        ask_assigned: AskAssigned | None = None,
    ) -> None:
        self.pod_lists = pod_lists
        self.changes = Changes()
        self.on_refusal: Callable[[RegistrationRefused], None] | None = None
        self.on_unusable: Callable[[OperatorError], None] | None = None
        self._make = make
        self._ask_assigned = ask_assigned
        self._watches = watches
        self._tasks = asyncio.TaskGroup()
        self._members: tuple[Member, ...] = ()
        self._running: dict[PluginSource | MemberSource, _Running] = {}
        self._served: dict[ResourceName, tuple[DevicePlugin, PluginServer]] = {}
        self._refused: tuple[tuple[DevicePlugin, PlugbayError], ...] = ()

    @property
    def servers(self) -> tuple[PluginServer, ...]:
        """The plugins that are served now, those that are just ending included."""
        return tuple(server for _, server in self._served.values())

    @property
    def sources(self) -> tuple[MemberSource, ...]:
        """The sources that are followed now."""
        return tuple(running.source for running in self._running.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each wanted target that no plugin serves."""
        refused = (f"{plugin.resource_name}: not served: {error}" for plugin, error in self._refused)
        silent = (each.source.name for each in self._running.values() if not each.told.is_set())
        return (*refused, *(f"{name}: no look for resources has succeeded yet" for name in silent))

    @asynccontextmanager
    async def serving(self, members: Sequence[Member]) -> AsyncIterator[None]:
        """Serve ``members`` at first, and drain everything at the end; once."""
        async with self._tasks:
            try:
                self.change_to(members)
                yield
            finally:
                for server in self.servers:  # here, where it is known that they end
                    server.stop()
                self.change_to(())

    def change_to(self, members: Sequence[Member]) -> None:
        """Serve ``members`` from now on. Those that are served already notice nothing."""
        self._members = tuple(members)
        self._settle()

    def reload(self) -> None:
        """Make every source and every plugin look again, and plugins register again, as SIGHUP does."""
        for running in self._running.values():
            running.source.refresh()
        for server in self.servers:
            server.reload()

    async def until_looked(self) -> None:
        """Wait until all sources have told of plugins and all plugins have looked for devices."""
        while wait := next(self._looks(), None):
            await wait

    def _looks(self) -> Iterator[Coroutine[Any, Any, object]]:
        """The plugins that are still to be waited for."""
        for running in self._running.values():
            if not running.told.is_set():
                yield running.told.wait()
        for server in self.servers:
            if not (server.looked.is_set() or server.stopping.is_set()):
                yield first(server.looked.wait(), server.stopping.wait())

    def _settle(self) -> None:
        """Bring the served plugins closer to the wanted ones; a plugin that has to end first leads here again."""
        self._settle_sources()
        step = next_step(self._wanted(), {name: plugin for name, (plugin, _) in self._served.items()})
        for name in step.stop:
            server = self._served[name][1]
            if not server.stopping.is_set():
                logger.info("%s: no longer served", name)
                server.stop()
        refused: list[tuple[DevicePlugin, PlugbayError]] = []
        for name, plugin in step.start.items():
            try:
                server = self._make(plugin)
            except PlugbayError as error:
                refused.append((plugin, error))
            else:
                self._start(name, plugin, server)
        refused += [(plugin, DuplicateResource(resource_of(plugin))) for plugin in step.refused]
        for plugin, why in refused:
            if not any(plugin is told for told, _ in self._refused):  # once is enough
                logger.error("%s: not served: %s", plugin.resource_name, why)
        self._refused = tuple(refused)
        self.changes.notify()

    def _settle_sources(self) -> None:
        wanted = dict.fromkeys(self._wanted_sources(self._members))
        for gone in [member for member in self._running if member not in wanted]:
            running = self._running.pop(gone)
            running.task.cancel()
            running.told.set()
        for member in [member for member in wanted if member not in self._running]:
            source = Looking(member) if isinstance(member, PluginSource) else member
            if self._ask_assigned is not None and isinstance(source, FollowsAssignments):
                source.follow_assignments(self._ask_assigned)
            task = self._tasks.create_task(self._follow(member, source), name=f"follow {source.name}")
            self._running[member] = _Running(source, task)

    def _wanted_sources(self, members: Sequence[Member]) -> Iterator[PluginSource | MemberSource]:
        for member in members:
            if not isinstance(member, DevicePlugin):
                yield member
                if running := self._running.get(member):
                    yield from self._wanted_sources(running.source.members)

    def _wanted(self) -> list[tuple[ResourceName, DevicePlugin]]:
        return [(resource_of(plugin), plugin) for plugin in self._wanted_plugins(self._members)]

    def _wanted_plugins(self, members: Sequence[Member]) -> Iterator[DevicePlugin]:
        for member in members:
            if isinstance(member, DevicePlugin):
                yield member
            elif running := self._running.get(member):
                yield from self._wanted_plugins(running.source.members)

    async def _follow(self, member: PluginSource | MemberSource, source: MemberSource) -> None:
        def changed() -> None:
            self._running[member].told.set()
            self._settle()

        async def run() -> None:
            told = self._running[member].told
            try:
                await source.run(self._watches, changed)
            except OperatorError as error:
                if told.is_set() or self.on_unusable is None:
                    raise
                self.on_unusable(error)
                await asyncio.Event().wait()  # the process is about to end

        await _supervise(run, name=source.name, until=asyncio.Event())

    def _start(self, name: ResourceName, plugin: DevicePlugin, server: PluginServer) -> None:
        server.on_refusal = self._tell_refusal
        server.life.on_change = self.changes.notify
        self._served[name] = (plugin, server)
        self._tasks.create_task(self._serve(name, server), name=f"serve {name}")

    def _tell_refusal(self, error: RegistrationRefused) -> None:
        if self.on_refusal is not None:
            self.on_refusal(error)

    async def _serve(self, name: ResourceName, server: PluginServer) -> None:
        await _supervise(partial(server.run, self._watches), name=name, until=server.stopping)
        del self._served[name]
        self._settle()  # another plugin may wait for the resource


async def _supervise(run: Callable[[], Coroutine[Any, Any, None]], *, name: str, until: asyncio.Event) -> None:
    """Run, and run again when it fails, until it is over and ``until`` is set."""
    backoff, loop = Backoff(RETRIES), asyncio.get_running_loop()
    while not until.is_set():
        began = loop.time()
        try:
            await run()
        except Exception:  # the supervising loop: one plugin's failure is its own
            logger.exception("%s: failed; starting it again", name)
            if loop.time() - began > RETRIES.most_s:
                backoff.reset()  # it was well in between
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff.next_delay_s()):
                    await until.wait()
