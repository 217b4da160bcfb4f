"""The kubelet's plugin watcher: it finds sockets below ``plugins_registry``, and asks them what they are.

Source: kubelet 1.36 ``pkg/kubelet/pluginmanager/``; spec 1.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from plugbay.errors import PathTooLong, RegistrationRefused, RpcFailed
from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths
from plugbay.model.ids import is_extended_resource
from plugbay.testing.conformance.probe.meeting import Meeting, MeetingRoute
from plugbay.wire.plugin_calls import RegisterRequest
from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginInfo, PluginRegistrationClient, RegistrationStatus

_LOOK_S: Final = 0.2
"""A kubelet's reconciler looks once a second."""
_DIAL_S: Final = 10.0
_INFO_S: Final = 1.0
_NOTIFY_S: Final = 5.0
API_VERSION: Final = "v1beta1"
UNANSWERED: Final = "nothing answers at the socket"


@dataclass(slots=True)
class FoundSocket:
    """A socket below plugins_registry.

    Attributes:
        name: its path below that directory.
        info: its answer to GetInfo; None if there was none.
        problem: why it is not registered; empty if it is.
        decided: set when it is known whether it is registered.
    """

    name: str
    info: PluginInfo | None = None
    problem: str = UNANSWERED
    decided: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


class WatchingKubelet(Protocol):
    """The kubelet that the watcher works for."""

    @property
    def paths(self) -> KubeletPaths: ...

    async def dial(self, request: RegisterRequest, path: Path) -> Meeting: ...

    def welcome(self, meeting: Meeting) -> None: ...


class RegistryWatcher:
    """Attributes: ``found``: every socket so far, each time that it was made."""

    def __init__(self, kubelet: WatchingKubelet) -> None:
        self.found: list[FoundSocket] = []
        self._kubelet = kubelet

    async def watch(self) -> None:
        """Register each socket that appears; for as long as the kubelet runs."""
        known: set[tuple[Path, int]] = set()
        while True:
            sockets = set(_sockets(self._kubelet.paths.plugins_registry))
            for path, _ in sorted(sockets - known):
                await self._register(path)
            known = sockets
            await asyncio.sleep(_LOOK_S)

    async def _register(self, path: Path) -> None:
        found = FoundSocket(str(path.relative_to(self._kubelet.paths.plugins_registry)))
        self.found.append(found)
        try:
            found.problem = await self._ask(path, found)
        finally:
            found.decided.set()

    async def _ask(self, path: Path, found: FoundSocket) -> str:
        """Register the plugin behind a socket; returns why that failed, empty if it did not."""
        try:
            client = PluginRegistrationClient(path)
        except PathTooLong as error:
            return str(error)
        try:
            await client.connect(_DIAL_S)
            found.info = await client.info(timeout_s=_INFO_S)
            if problem := problem_of(found.info):
                with suppress(RpcFailed):
                    await client.notify(RegistrationStatus(plugin_registered=False, error=problem), timeout_s=_NOTIFY_S)
                return problem
            meeting = await self._dial(found.info, path)
            try:
                await client.notify(RegistrationStatus(plugin_registered=True), timeout_s=_NOTIFY_S)
            except BaseException:
                await meeting.channel.close()
                raise
            self._kubelet.welcome(meeting)
            return ""
        except TimeoutError:
            return UNANSWERED
        except (RpcFailed, RegistrationRefused) as failure:
            return str(failure)
        finally:
            await client.close()

    async def _dial(self, info: PluginInfo, path: Path) -> Meeting:
        request = RegisterRequest(API_VERSION, info.endpoint, info.name, None)
        endpoint = path if not info.endpoint else _seen_from_here(Path(info.endpoint), self._kubelet.paths.root)
        meeting = await self._kubelet.dial(request, endpoint)
        meeting.route = MeetingRoute.WATCHER
        return meeting


def problem_of(info: PluginInfo) -> str:
    """Why a kubelet does not register it, in the kubelet's words; empty if it does (spec 1.6, 2.6)."""
    if info.type != DEVICE_PLUGIN:
        return f"RegisterPlugin error -- no handler registered for plugin type: {info.type}"
    if API_VERSION not in info.versions:
        versions = " ".join(info.versions)
        return f"manager version, {API_VERSION}, is not among plugin supported versions [{versions}]"
    if not is_extended_resource(info.name):
        return f'invalid name of device plugin socket: the ResourceName "{info.name}" is invalid'
    return ""


def _seen_from_here(path: Path, root: Path) -> Path:
    """The path of a plugin that finds ``root`` at the kubelet's usual place."""
    return root / path.relative_to(STOCK_ROOT) if path.is_relative_to(STOCK_ROOT) else path


def _sockets(directory: Path) -> Iterator[tuple[Path, int]]:
    for path in directory.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
        try:
            if not hidden and path.is_socket():
                yield path, path.stat().st_ino
        except FileNotFoundError:
            continue
