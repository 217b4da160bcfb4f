"""Operations on a network: call every plugin in its order, and cache the result.

Source: CNI specification 1.1.0 section 3; libcni 1.3 ``api.go``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace

from plugbay.cni import chain, versions
from plugbay.cni.answers import parse_result
from plugbay.cni.cache import ResultCache
from plugbay.cni.cached import CachedResult
from plugbay.cni.chain import Attachment, CniCommand
from plugbay.cni.config import NetworkConfig, PluginConfig, parse_list
from plugbay.cni.exclusion import Exclusion
from plugbay.cni.invoke import Plugins
from plugbay.cni.result import Result
from plugbay.cni.result_encoding import convert
from plugbay.errors import (
    InvalidNetworkConfig,
    InvalidNetworkResult,
    NetworkPluginFailed,
    NetworkPluginMissing,
    PlugbayError,
)


class CniRuntime:
    """Attaches containers to networks.

    Operations on one container wait for each other, also across processes with the same cache; garbage
    collection of a network waits for everything that goes on in it.
    """

    def __init__(self, plugins: Plugins, cache: ResultCache) -> None:
        self.plugins = plugins
        self.cache = cache
        # A wait that is longer than the slowest chain means that another process hangs.
        self._exclusion = Exclusion(cache.directory, timeout_s=4 * plugins.timeout_s)

    async def attach(self, network: NetworkConfig, attachment: Attachment) -> Result:
        """ADD: give a container its interface; the result is cached when every plugin has succeeded.

        When one fails, what the others did stays: the caller has to `detach`. So it has when we are killed; what to
        detach is remembered from the beginning.

        Raises:
            NetworkPluginMissing: a plugin is not installed; nothing was done.
            NetworkPluginFailed: the first plugin that failed.
            PathUnusable: it cannot be remembered.
            NetworkBusy: another process holds up the container.
        """
        for plugin in network.plugins:
            self.plugins.find(plugin.type)
        async with self._exclusion.of_container(network.name, attachment.container_id):
            network = await self._negotiated(network)
            entry = CachedResult(network.name, attachment, network.content, None)
            await asyncio.to_thread(self.cache.begin, entry)
            result: Result | None = None
            for plugin in network.plugins:
                result = await self._add(network, plugin, attachment, previous=result)
            assert result is not None, "a network has plugins"
            await asyncio.to_thread(self.cache.finish, replace(entry, result=result))
            return result

    async def detach(self, network: NetworkConfig, attachment: Attachment) -> None:
        """DEL: undo `attach`, in reverse order. It is not an error if something is gone already.

        At the first failure the cached result stays, so that it can be tried again.

        Raises:
            NetworkPluginMissing, NetworkPluginFailed: the first plugin that failed.
            NetworkBusy: another process holds up the container.
        """
        async with self._exclusion.of_container(network.name, attachment.container_id):
            await self._detach(await self._negotiated(network), attachment)

    async def detach_cached(
        self, container_id: str, *, netns: str | None = None, ifname: str | None = None
    ) -> list[CachedResult]:
        """Undo every `attach` of a container that is remembered, with what it was given then; returns what it was.

        This does not need today's configuration.

        Args:
            netns: the container's namespace now; empty when it is gone, None to take the remembered one.
            ifname: only this interface; None for all, the last by name first.

        Raises:
            As `detach`.
        """
        entries = await asyncio.to_thread(self.cache.entries_of, container_id)
        own = [each for each in entries if ifname in (None, each.attachment.ifname)]
        for entry in reversed(own):
            attachment = entry.attachment if netns is None else replace(entry.attachment, netns=netns)
            await self.detach(remembered_network(entry), attachment)
        return own

    async def check(self, network: NetworkConfig, attachment: Attachment) -> None:
        """CHECK: whether what `attach` made is still there.

        Raises:
            NetworkPluginMissing, NetworkPluginFailed: the first plugin that says it is not.
            InvalidNetworkConfig: the network's version has no CHECK.
            PathUnusable: the cached result of the container cannot be read; no plugin was called.
        """
        if not chain.has_check(network):
            raise InvalidNetworkConfig(
                network.source, f"configuration version {network.version} does not support the CHECK command"
            )
        if network.disable_check:
            return
        async with self._exclusion.of_container(network.name, attachment.container_id):
            network = await self._negotiated(network)
            cached = await asyncio.to_thread(self.cache.load, network.name, attachment)
            for plugin in network.plugins:
                await self._tell(network, plugin, CniCommand.CHECK, attachment, cached.result if cached else None)

    async def status(self, network: NetworkConfig) -> None:
        """STATUS: whether the network's plugins are ready to add containers. Before 1.1.0 no plugin is asked.

        Raises:
            NetworkPluginMissing, NetworkPluginFailed: the first plugin that is not.
        """
        network = await self._negotiated(network)
        if not chain.has_status(network):
            return
        for plugin in network.plugins:
            await self.plugins.call(plugin.type, CniCommand.STATUS, chain.status_input(network, plugin))

    async def collect_garbage(self, network: NetworkConfig, valid: Iterable[tuple[str, str]]) -> list[PlugbayError]:
        """GC: remove what the network holds for containers that are not there any more; returns what failed.

        Args:
            valid: container ID and interface name of each attachment that is in use. All others are detached.

        Raises:
            NetworkBusy: another process holds up the network.
        """
        if network.disable_gc:
            return []
        kept = frozenset(valid)
        failed: list[PlugbayError] = []
        async with self._exclusion.of_network(network.name):
            network = await self._negotiated(network)
            for entry in await asyncio.to_thread(self.cache.entries):
                attachment = entry.attachment
                if entry.network == network.name and (attachment.container_id, attachment.ifname) not in kept:
                    try:
                        await self._detach(network, attachment)
                    except PlugbayError as error:
                        failed.append(error)
            if chain.has_status(network):
                failed += await self._call_garbage_collectors(network, sorted(kept))
        return failed

    async def _negotiated(self, network: NetworkConfig) -> NetworkConfig:
        """``network`` in the newest of the versions it offers that all of its plugins take.

        When they have none in common it stays as it is: the first plugin to be called says so best.
        """
        if len(network.offered) == 1:
            return network
        takers: list[tuple[str, ...]] = []
        for name in network.binaries:
            with contextlib.suppress(NetworkPluginMissing, NetworkPluginFailed):
                takers.append((await self.plugins.versions(name)).supported)
        return replace(network, version=versions.negotiate(network.offered, takers) or network.version)

    async def _call_garbage_collectors(
        self, network: NetworkConfig, valid: list[tuple[str, str]]
    ) -> list[PlugbayError]:
        failed: list[PlugbayError] = []
        for plugin in network.plugins:
            try:
                await self.plugins.call(plugin.type, CniCommand.GC, chain.garbage_input(network, plugin, valid))
            except PlugbayError as error:
                failed.append(error)
        return failed

    async def _detach(self, network: NetworkConfig, attachment: Attachment) -> None:
        cached = None
        if chain.tells_delete(network):
            cached = await asyncio.to_thread(self.cache.load_for_removal, network.name, attachment)
        previous = _as_version(cached.result, network.version) if cached and cached.result else None
        for plugin in reversed(network.plugins):
            await self._tell(network, plugin, CniCommand.DEL, attachment, previous)
        await asyncio.to_thread(self.cache.remove, network.name, attachment)

    async def _add(
        self, network: NetworkConfig, plugin: PluginConfig, attachment: Attachment, *, previous: Result | None
    ) -> Result:
        given = chain.plugin_input(network, plugin, capabilities=attachment.capabilities, previous=previous)
        stdout = await self.plugins.call(plugin.type, CniCommand.ADD, given, attachment=attachment)
        try:
            return convert(parse_result(stdout, version=network.version), network.version)
        except InvalidNetworkResult as error:
            problem = f"its answer is not a result: {error}"
            raise NetworkPluginFailed(plugin.type, CniCommand.ADD.value, 0, problem, "") from error

    async def _tell(
        self,
        network: NetworkConfig,
        plugin: PluginConfig,
        command: CniCommand,
        attachment: Attachment,
        previous: Result | None,
    ) -> None:
        given = chain.plugin_input(network, plugin, capabilities=attachment.capabilities, previous=previous)
        await self.plugins.call(plugin.type, command, given, attachment=attachment)


def remembered_network(entry: CachedResult) -> NetworkConfig:
    """The network as it was when a container was attached to it.

    Raises:
        InvalidNetworkConfig: the entry does not hold it.
    """
    return parse_list(entry.config, source=f"the cached configuration of network {entry.network}")


def _as_version(result: Result, version: str) -> Result | None:
    """The result that plugins get when they undo; one that this version cannot express is left out."""
    try:
        return convert(result, version)
    except InvalidNetworkResult:
        return None
