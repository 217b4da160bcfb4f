"""A survey of what a plugin would offer now, without offering it to a kubelet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from plugbay.errors import DiscoveryFailed, PlugbayError
from plugbay.model.devices import Device
from plugbay.sdk.author.plugin import DevicePlugin, discover_function, health_checks
from plugbay.sdk.author.problems import problem_of
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.discovery.discovery import is_path_missing
from plugbay.sdk.discovery.host_paths import judged, missing_paths
from plugbay.sdk.discovery.listing import Listing
from plugbay.sdk.discovery.run import discovered
from plugbay.sdk.health.monitor import HealthMonitor
from plugbay.sdk.hooks.calls import call
from plugbay.sdk.process.config_file import ConfigFile
from plugbay.sdk.process.sources import LooksOnce, Member, found_plugins
from plugbay.sdk.serving.preparation import tear_down
from plugbay.sdk.serving.service import PluginService

logger = logging.getLogger(__name__)


async def survey(plugin: DevicePlugin) -> list[Device]:
    """The devices by ID, replicas not counted, after one look at them and one round of every health check.

    Raises:
        DiscoveryFailed: the plugin could not be set up, could not look, or found what no kubelet can be told.
        CannotIsolate: a check is to run in a process of its own and cannot.
        InvalidCdiName: the plugin's CDI kind is not a CDI kind.
    """
    listed: list[Device] = []
    service = PluginService(plugin, lambda: None, lambda _: None)

    def publish(devices: Iterable[Device]) -> None:
        listed[:] = devices
        service.publish(listed)  # which refuses a list that no kubelet would take

    listing = Listing(publish)
    monitors = [HealthMonitor(check, listing) for check in health_checks(plugin)]
    try:
        await call(plugin.set_up)
    except Exception as error:  # an author's code may raise anything
        raise _failed(plugin, "set_up()", plugin.set_up, error) from error
    try:
        found = await _found(plugin)
        if plugin.check_paths:
            found = [judged(device, missing_paths(device)) for device in found]
        if plugin.cdi_kind is not None:
            found = _expressible(plugin.resource_name, plugin.cdi_kind, found)
        try:
            listing.found(found, moment=listing.moment(), why="survey")
        except PlugbayError as error:
            raise _failed(plugin, "discover()", discover_function(plugin), error) from error
        for monitor in monitors:
            await monitor.look_once()
        listing.publish()
    finally:
        listing.close()
        await tear_down(plugin)
    return listed


async def plugins_now(members: Iterable[Member]) -> list[DevicePlugin]:
    """The plugins that would be served now; sources look once.

    Raises:
        DiscoveryFailed: a source could not look.
    """
    plugins: list[DevicePlugin] = []
    for member in members:
        if isinstance(member, DevicePlugin):
            plugins.append(member)
        elif isinstance(member, PluginSource):
            try:
                plugins += (await found_plugins(member)).values()
            except Exception as error:  # an author's code may raise anything
                raise DiscoveryFailed(member.name, "looking for resources", problem_of(error)) from error
        elif isinstance(member, LooksOnce):
            plugins += await member.look_once()
        elif isinstance(member, ConfigFile):
            await member.load_once()
            plugins += await plugins_now(member.members)
        else:
            plugins += await plugins_now(member.members)
    return plugins


async def _found(plugin: DevicePlugin) -> list[Device]:
    try:
        return await discovered(plugin)
    except Exception as error:  # an author's code may raise anything
        if is_path_missing(plugin, error):
            return []
        raise _failed(plugin, "discover()", discover_function(plugin), error) from error


def _expressible(resource: str, kind: str, devices: list[Device]) -> list[Device]:
    """The devices that a CDI spec can hold; the log says why it cannot hold the others."""
    # Imported here: most plugins have no CDI kind.
    from plugbay.cdi.names import parse_kind
    from plugbay.sdk.cdi.entries import sorted_out

    parse_kind(kind)
    good, _, problems = sorted_out(devices)
    for problem in problems.values():
        logger.error("%s: not offered: %s", resource, problem)
    return good


def _failed(plugin: DevicePlugin, name: str, hook: Callable[..., Any], error: Exception) -> DiscoveryFailed:
    return DiscoveryFailed(plugin.resource_name, name, problem_of(error, hook))
