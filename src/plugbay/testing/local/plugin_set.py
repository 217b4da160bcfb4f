"""The plugins of one test's kubelet: started, found again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plugbay.errors import UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.local.commands import CommandOptions, start_command
from plugbay.testing.local.plugins import PluginInTest, RunningPlugin, serve_plugin


class PluginsInTest:
    """Those of one kubelet that have not been ended.

    Args:
        environ: what commands find in their environment.
        ended: called when a command has ended.
    """

    def __init__(
        self,
        paths: KubeletPaths,
        tasks: asyncio.TaskGroup,
        *,
        environ: Mapping[str, str],
        ended: Callable[[], object],
    ) -> None:
        self.all: list[RunningPlugin] = []
        self._paths = paths
        self._tasks = tasks
        self._environ = environ
        self._ended = ended

    async def start(self, plugins: Sequence[Any], options: CommandOptions) -> RunningPlugin:
        """Start a command, or serve plugins in this process.

        Raises:
            As `LocalKubelet.plugin`.
        """
        plugin = await self._start(plugins, options)
        self.all.append(plugin)
        return plugin

    def running(self, plugin: PluginInTest) -> RunningPlugin:
        """The plugin, if it is one of these.

        Raises:
            UsageError: it is not.
        """
        for each in self.all:
            if each is plugin:
                return each
        raise UsageError(f"{plugin.name} is not a plugin of this kubelet, or has ended")

    async def end(self, plugin: PluginInTest) -> None:
        """End a plugin the normal way."""
        running = self.running(plugin)
        await running.end()
        self.all.remove(running)

    async def end_all(self) -> None:
        while self.all:
            await self.all.pop().end()

    async def _start(self, plugins: Sequence[Any], options: CommandOptions) -> RunningPlugin:
        match plugins:
            case [list() | tuple() as words]:
                command = [str(word) for word in words]
                return await start_command(
                    command, options, self._paths.root, self._tasks, environ=self._environ, ended=self._ended
                )
            case _ if options != CommandOptions():
                raise UsageError("env, private_root and resources are for a command, given as a list of words")
            case _:
                return await serve_plugin(plugins, self._paths, self._tasks)
