"""Waits of a test's kubelet for its plugins, and the texts of waits that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from plugbay.model.ids import ResourceName
from plugbay.ops.changes import Changes
from plugbay.testing.local.expectations import PluginNotReady, sight_text
from plugbay.testing.local.lives import KubeletLives
from plugbay.testing.local.plugin_set import PluginsInTest
from plugbay.testing.local.plugins import PluginInTest
from plugbay.testing.local.refusals import refused_registrations
from plugbay.testing.local.sights import KubeletSight, sight_of
from plugbay.traffic.recorder import TrafficRecorder

Connections = Mapping[ResourceName, object]
"""The connection of each resource over which a list has come; None for a resource without one."""


class Awaiting:
    """Waits for changes of a kubelet, each with a deadline."""

    def __init__(self, lives: KubeletLives, plugins: PluginsInTest, changes: Changes, traffic: TrafficRecorder) -> None:
        self._lives = lives
        self._plugins = plugins
        self._changes = changes
        self._traffic = traffic

    @property
    def sight(self) -> KubeletSight:
        """All that the kubelet sees of plugins and devices now."""
        manager = self._lives.now.manager
        return sight_of(manager.snapshot(), frozenset(manager.resources()))

    def endpoints(self) -> Connections:
        if not self._lives.is_running:
            return {}
        manager = self._lives.now.manager
        active = {name: manager.endpoints.active(name) for name in manager.in_use()}
        return {name: each if each and each.table is not None else None for name, each in active.items()}

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition became true in time."""
        try:
            async with asyncio.timeout(seconds):
                async for _ in self._changes:
                    if condition():
                        break
        except TimeoutError:
            return condition()
        return True

    async def until_ready(self, plugin: PluginInTest, before: Connections, seconds: float) -> None:
        """Wait until a plugin has registered and sent a list; if it does not, end it.

        Args:
            before: the connections before it was started.

        Raises:
            PluginNotReady: not in time, or it has ended.
        """

        def is_ready() -> bool:
            now = self.endpoints()
            new = {name for name, each in now.items() if each is not None and each is not before.get(name)}
            return bool(new) if not plugin.resources else new >= set(plugin.resources)

        if await self.until(lambda: is_ready() or plugin.has_ended, seconds) and is_ready():
            return
        problem = "ended before it was ready" if plugin.has_ended else f"was not ready within {seconds:g} s"
        wanted = f"{plugin.name} {problem}: a registration and a list of devices were expected"
        said = self.failure(wanted, plugin)  # before we end it
        await self._plugins.end(plugin)
        raise PluginNotReady(said)

    async def until_back(self, resources: Sequence[ResourceName], seconds: float) -> None:
        """Wait until the plugins of ``resources`` have registered with the kubelet of now.

        Raises:
            PluginNotReady: not in time.
        """
        if not await self.until(lambda: not self._missing(resources), seconds):
            missing = ", ".join(self._missing(resources))
            problem = f"the kubelet was restarted, and {missing} did not register again within {seconds:g} s"
            raise PluginNotReady(self.failure(problem))

    def failure(self, problem: str, *plugins: PluginInTest) -> str:
        """The text of a failure: the problem, the kubelet's sight, and the accounts of plugins, by default of all."""
        sight = sight_text(self.sight) if self._lives.is_running else "the kubelet is stopped"
        accounts = [each.account for each in plugins or self._plugins.all]
        return "\n".join([problem, sight, *refused_registrations(self._traffic), *accounts])

    def _missing(self, resources: Sequence[ResourceName]) -> list[ResourceName]:
        there = self.endpoints()
        return [name for name in resources if there.get(name) is None]
