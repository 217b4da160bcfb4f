"""The needs of all plugins of a process: those that show in the plugins, and those that their authors declared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from plugbay.errors import NeedsRefused
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.author.needs import HostDirectory, Need, OneAtATime, OnNodes
from plugbay.sdk.author.plugin import DevicePlugin, as_paths, gives_back, offers
from plugbay.sdk.author.resources import PluginSource
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.sdk.deploying.container_places import mounted_for
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, PluginNeeds, combined
from plugbay.sdk.process.sources import Member

_KUBELET: Final = KubeletPaths(Path(KUBELET_ROOT))
_DEV: Final = Path("/dev")
_DIRECTORY_OF_PARTS: Final = ".d"


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
    found = _Found()
    await _collect(members, found, ())
    needs = (_SOCKETS, *also, *found.needs)
    if not all(found.nodes):  # a plugin that goes everywhere takes the others along
        needs = tuple(each for each in needs if not isinstance(each, OnNodes))
    return combined(tuple(found.served), needs)


class _Found:
    """The findings about members: what they serve, what they need, and for each of them the nodes that it is for."""

    def __init__(self) -> None:
        self.served: dict[str, None] = {}
        self.needs: list[Need] = []
        self.nodes: list[tuple[OnNodes, ...]] = []

    def add(self, name: str, nodes: tuple[OnNodes, ...]) -> None:
        """Note a member that serves, with the nodes that it is for; none for all nodes."""
        self.served[name] = None
        self.nodes.append(nodes)


async def _collect(members: Iterable[Member], found: _Found, of_source: tuple[OnNodes, ...]) -> None:
    for member in members:
        if isinstance(member, DevicePlugin):
            found.add(member.resource_name, _nodes(member.needs) or of_source)
            found.needs += plugin_needs(member)
        elif isinstance(member, PluginSource):
            found.needs += (*member.needs, *_to_watch(member.name, member.watched_paths))
            from plugbay.sdk.inspection.survey import plugins_now  # imported here: it brings all that serves

            nodes = _nodes(member.needs) or of_source
            if not (plugins := await plugins_now([member])):
                found.add(member.name, nodes)
            await _collect(plugins, found, nodes)
        elif isinstance(member, DeclaresNeeds):
            found.add(member.name, _nodes(member.needs))
            found.needs += member.needs
        else:
            await _collect(member.members, found, of_source)


def _nodes(needs: Iterable[Need]) -> tuple[OnNodes, ...]:
    return tuple(each for each in needs if isinstance(each, OnNodes))


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
    if (seen := mounted_for(str(path))) != str(path):
        return Path(seen) if seen else None
    is_file = path.is_file() or (not path.exists() and len(path.parts) > 3 and _names_file(path))
    place = path.parent if is_file else path  # a file that is replaced is another file
    if len(place.parts) < 2 or (place != path and len(place.parts) < 3):
        raise NeedsRefused(f"{name} watches {path}: {place} is too much to mount, it needs a directory of its own")
    return place


def _names_file(path: Path) -> bool:
    """Whether a path that is not on this machine has the name of a file.

    A volume of type DirectoryOrCreate would make a directory of that name on a node without the file, and its pod would
    not start on a node with it.
    """
    return path.suffix[1:].isalpha() and path.suffix != _DIRECTORY_OF_PARTS
