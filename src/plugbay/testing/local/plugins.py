"""Plugins that a test gives to its kubelet: in this process, or as a program of their own."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from plugbay.errors import UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.author.plugin import DevicePlugin, resource_of
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.process.runner import serving
from plugbay.sdk.process.sources import Member
from plugbay.testing.local.holding import Held, hold


class PluginInTest:
    """A plugin that a test gave to its kubelet.

    Attributes:
        name: how failures call it.
        resources: its resources, as far as they are known before it registers.
    """

    def __init__(self, name: str, resources: Sequence[str]) -> None:
        self.name = name
        self.resources = tuple(resources)

    @property
    def has_ended(self) -> bool:
        """Whether it can register no more."""
        return False

    @property
    def pid(self) -> int | None:
        """The process of a command; None for a plugin in this process."""
        return None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command that has ended, negative for a signal; None while it runs."""
        return None

    @property
    def output(self) -> str:
        """The end of what a command printed, both streams together."""
        return ""

    @property
    def account(self) -> str:
        """A sentence about it, for failures."""
        return f"{self.name} is served in this process"


class RunningPlugin(PluginInTest, ABC):
    """The kubelet's side of a `PluginInTest`."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""

    @abstractmethod
    def reload(self) -> None:
        """Have it look for devices and register again, as on SIGHUP."""

    @abstractmethod
    async def end(self) -> None:
        """End it the normal way. Harmless twice."""


class ServedPlugin(RunningPlugin):
    """A plugin in this process; made by `serve_plugin`."""

    def __init__(self, members: Sequence[Member], served: Held[Callable[[], None]]) -> None:
        resources = [resource_of(each) for each in members if isinstance(each, DevicePlugin)]
        super().__init__(", ".join(resources) or "the plugin", resources)
        self._served = served

    def send(self, number: signal.Signals) -> None:
        raise UsageError(f"{self.name} is served in this process, which a signal would reach as a whole")

    def reload(self) -> None:
        self._served.value()

    async def end(self) -> None:
        await self._served.close()


async def serve_plugin(plugins: Sequence[object], paths: KubeletPaths, tasks: asyncio.TaskGroup) -> ServedPlugin:
    """Serve ``plugins`` in this process.

    Raises:
        UsageError: they are not plugins.
        InvalidResourceName, DuplicateResource, InvalidCdiName: they cannot be served.
    """
    members = [_member(each) for each in plugins]
    served = serving(members, paths=paths, cdi_directory=paths.root / "cdi")
    return ServedPlugin(members, await hold(tasks, served, name="plugins of the test"))


def _member(plugin: object) -> Member:
    if isinstance(plugin, type) and issubclass(plugin, DevicePlugin):
        plugin = plugin()
    if isinstance(plugin, DevicePlugin | PluginSource):
        return plugin
    raise UsageError(
        f"{plugin!r} is not a plugin; give a function with @plugin, a DevicePlugin, or a command as a list of words"
    )
