"""The needs of all plugins of a process: those that show in the plugins, and those that their authors declared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from plugbay.errors import NeedsRefused
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.author.needs import HostDirectory, Need, OneAtATime
from plugbay.sdk.author.plugin import DevicePlugin, as_paths, gives_back, offers
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, PluginNeeds, combined
from plugbay.sdk.process.sources import Member

_KUBELET: Final = KubeletPaths(Path(KUBELET_ROOT))
_DEV: Final = Path("/dev")
_IN_EVERY_CONTAINER: Final = (Path("/proc"), Path("/sys"))
_NOT_IN_THEM: Final = Path("/sys/fs")


@runtime_checkable
class DeclaresNeeds(Protocol):
    """A source of plugins that says what all of them need, whatever it finds."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Sequence[Need]:
        """The needs.

        Raises:
            NeedsRefused: no manifest can give them.
        """


async def needs_now(members: Iterable[Member], also: Iterable[Need] = ()) -> PluginNeeds:
    """The needs of ``members``, and those that the process has besides.

    Functions of ``@resources`` are called once; no device is looked for.

    Raises:
        DiscoveryFailed: such a function failed.
        NeedsRefused: no manifest can give what is needed.
    """
    served: dict[str, None] = {}
    needs: list[Need] = [_SOCKETS, *also]
    await _collect(members, served, needs)
    return combined(tuple(served), needs)


async def _collect(members: Iterable[Member], served: dict[str, None], needs: list[Need]) -> None:
    for member in members:
        if isinstance(member, DevicePlugin):
            served[member.resource_name] = None
            needs += plugin_needs(member)
        elif isinstance(member, PluginSource):
            needs += (*member.needs, *_to_watch(member.name, member.watched_paths))
            from plugbay.sdk.inspection.survey import plugins_now  # imported here: it brings all that serves

            if not (found := await plugins_now([member])):
                served[member.name] = None
            await _collect(found, served, needs)
        elif isinstance(member, DeclaresNeeds):
            served[member.name] = None
            needs += member.needs
        else:
            await _collect(member.members, served, needs)


_SOCKETS: Final = HostDirectory(
    str(_KUBELET.device_plugins), "the kubelet's socket, and the plugin's own beside it", writable=True
)


def plugin_needs(plugin: DevicePlugin) -> Iterator[Need]:
    """The needs of one plugin beside the directory of sockets.

    Raises:
        NeedsRefused: it watches what no container can see.
    """
    name = plugin.resource_name
    yield from plugin.needs
    yield from _to_watch(name, as_paths(plugin.watch))
    if plugin.check_paths:
        yield HostDirectory(str(_DEV), f"{name} checks that device nodes exist")
    if plugin.cdi_kind is not None:
        yield HostDirectory(str(CDI_DIRECTORY), f"the CDI spec of {plugin.cdi_kind}", writable=True)
    if gives_back(plugin) or offers(plugin, "post_stop"):
        yield OneAtATime(f"{name} keeps track of who uses its devices")
        yield HostDirectory("/sys/fs/cgroup", f"{name} waits until no container of a pod runs")
    if gives_back(plugin):
        socket = _KUBELET.pod_resources_socket
        yield HostDirectory(str(socket.parent), f"the kubelet's list of pods, for {name} to see who has which device")


def _to_watch(name: str, paths: Iterable[Path]) -> Iterator[HostDirectory]:
    for path in paths:
        if not path.is_absolute():
            raise NeedsRefused(f"{name} watches {str(path)!r}, which a container has elsewhere: use a path from /")
        if (place := _mounted(name, Path(os.path.normpath(path)))) is not None:
            yield HostDirectory(str(place), f"{name} watches {path}")


def _mounted(name: str, path: Path) -> Path | None:
    """The directory of the host in which ``path`` can be watched; None if every container has it."""
    if path.is_relative_to(_DEV):
        return _DEV  # those below it come and go
    if any(map(path.is_relative_to, _IN_EVERY_CONTAINER)) and not path.is_relative_to(_NOT_IN_THEM):
        return None
    place = path.parent if path.is_file() else path  # a file that is replaced is another file
    if len(place.parts) < 2 or (place != path and len(place.parts) < 3):
        raise NeedsRefused(f"{name} watches {path}: {place} is too much to mount, it needs a directory of its own")
    return place
