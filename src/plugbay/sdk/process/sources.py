"""The sources of a process's plugins while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from plugbay.errors import DuplicateResource, PluginLoadError
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.metrics import Metric
from plugbay.ops.tasks import first
from plugbay.sdk.author.plugin import DevicePlugin, resource_of
from plugbay.sdk.author.problems import problem_of, trace_of
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.hooks.calls import given
from plugbay.sdk.watching import Watches, warn_of_silence
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.model.podresources import PodResources
    from plugbay.sdk.serving.server import PluginServer

logger = logging.getLogger(__name__)


AskAssigned: TypeAlias = Callable[[], Mapping[ResourceName, Mapping[DeviceId, Collection[str]]]]
"""As `plugbay.sdk.assigned.assigned_by_checkpoint`, which blocks, for one kubelet."""


class MemberSource(Protocol):
    """A source of plugins to serve, which tells again whenever they change.

    Attributes:
        name: for logs.
    """

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> Sequence[Member]:
        """The plugins to serve now, as far as they are known; one that stays the same object goes on undisturbed."""

    def refresh(self) -> None:
        """Look again soon, as on SIGHUP; from the event loop's thread."""

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        """Keep `members` true until cancelled. Call ``changed`` once they are known, and when others are there.

        Raises:
            OperatorError: before ``changed`` is called at all, it ends the process: nothing can be served like this.
        """


@runtime_checkable
class LooksOnce(Protocol):
    """A `MemberSource` whose plugins are known only when it has looked."""

    async def look_once(self) -> Sequence[DevicePlugin]:
        """The plugins that would be served now.

        Raises:
            OperatorError: nothing could be served.
        """


@runtime_checkable
class Measures(Protocol):
    """A `MemberSource` that has metrics of its own."""

    async def metrics(self, pods: Sequence[PodResources] | None) -> Sequence[Metric]:
        """The metrics of this moment, for one reader; it is cancelled when it takes too long.

        Args:
            pods: the pods with their devices; None when they cannot be known.
        """


@runtime_checkable
class MeasuresServers(Protocol):
    """A `MemberSource` with further metrics of what the servers of its plugins count."""

    @property
    def members(self) -> Sequence[Member]: ...

    def server_metrics(self, servers: Sequence[PluginServer]) -> Sequence[Metric]:
        """The metrics of this moment, by the servers of its members."""


@dataclass(frozen=True, slots=True)
class ConfigState:
    """The config of a `MemberSource`.

    Attributes:
        source: the file or directory that it comes from.
        name: of the config in use, empty for one without a name; None while there is none.
        problem: why a newer one is not used; empty if there is no newer one.
    """

    source: str
    name: str | None
    problem: str


@runtime_checkable
class Configured(Protocol):
    """A `MemberSource` that may come to another config while it runs."""

    @property
    def config_state(self) -> ConfigState | None:
        """The config of this moment; None if it has none that could change."""


@runtime_checkable
class FollowsAssignments(Protocol):
    """A `MemberSource` that wants to know which devices pods hold."""

    def follow_assignments(self, ask: AskAssigned) -> None:
        """Take ``ask``; called before `MemberSource.run`."""


Member = DevicePlugin | PluginSource | MemberSource
"""A target that a process can be asked to serve."""


class Looking:
    """A `PluginSource` that is looked at whenever its resources may have changed."""

    def __init__(self, source: PluginSource) -> None:
        self.name = source.name
        self._source = source
        self._asked = asyncio.Event()
        self._backoff = Backoff(RETRIES)
        self._last_problem = ""
        self._plugins: dict[ResourceName, DevicePlugin] | None = None

    @property
    def members(self) -> Sequence[Member]:
        return tuple((self._plugins or {}).values())

    def refresh(self) -> None:
        self._asked.set()

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        loop = asyncio.get_running_loop()
        with ExitStack() as up:
            self._source.bind_refresh(lambda: loop.call_soon_threadsafe(self.refresh))
            up.callback(self._source.bind_refresh, None)
            waits: list[Callable[[], Coroutine[Any, Any, object]]] = [self._asked.wait]
            if paths := self._source.watched_paths:
                waits.append(up.enter_context(watches.watch(paths)).__anext__)
                if self._source.every is None:
                    await warn_of_silence(self.name, paths, remedy="set `every`")
            while True:
                self._asked.clear()
                delay_s = await self._look(changed)
                await first(*(wait() for wait in waits), timeout_s=delay_s)

    async def _look(self, changed: Callable[[], None]) -> float | None:
        """Look once; returns the seconds until the next look is due at the latest."""
        try:
            found = await found_plugins(self._source)
        except Exception as error:  # an author's code may raise anything
            self._report(error)
            return self._backoff.next_delay_s()
        if self._last_problem:
            logger.info("%s: looking for resources works again", self.name)
        self._last_problem = ""
        self._backoff.reset()
        before = self._plugins or {}
        self._plugins = {name: before.get(name, plugin) for name, plugin in found.items()}
        changed()
        return self._source.every

    def _report(self, error: Exception) -> None:
        problem = problem_of(error)
        if problem != self._last_problem:  # the same one over and over is one line in the log
            logger.error(
                "%s: looking for resources failed, %s: %s",
                self.name,
                "no resource is served yet" if self._plugins is None else "all resources stay as they were",
                problem,
                exc_info=trace_of(error),
            )
        self._last_problem = problem


def known_plugins(members: Sequence[Member]) -> Iterator[DevicePlugin]:
    """The plugins among ``members``, and those that sources know of already."""
    for member in members:
        if isinstance(member, DevicePlugin):
            yield member
        elif not isinstance(member, PluginSource):
            yield from known_plugins(member.members)


async def found_plugins(source: PluginSource) -> dict[ResourceName, DevicePlugin]:
    """The plugins that one look finds, by resource.

    Raises:
        PluginLoadError: the source gives something else than plugins.
        InvalidResourceName, DuplicateResource: no kubelet can be told of them.
        Exception: whatever the author's code raises.
    """
    try:
        return await _found(source)
    except FileNotFoundError:
        if all(map(os.path.exists, source.watched_paths)):
            raise
        return {}  # what it looks at is not there: then there are no resources


async def _found(source: PluginSource) -> dict[ResourceName, DevicePlugin]:
    found: dict[ResourceName, DevicePlugin] = {}
    plugins = await given(source.find)
    if not (plugins is None or isinstance(plugins, Iterable | AsyncIterable)):
        raise PluginLoadError(source.name, f"it gave {plugins!r}, which is not a list of plugins")
    async for plugin in _each(plugins):
        if not isinstance(plugin, DevicePlugin):  # told at once: an async generator may go on for ever
            raise PluginLoadError(source.name, f"it gave {plugin!r}, which is not a plugin")
        if (name := resource_of(plugin)) in found:
            raise DuplicateResource(name)
        found[name] = plugin
    return found


async def _each(items: Any) -> AsyncIterator[object]:
    """The items of an async iterable, a plain one, or None."""
    if hasattr(items, "__aiter__"):
        async for item in items:
            yield item
        return
    for item in items or ():
        yield item
