"""A plugin as the kubelet met it by one registration: its options, its lists, and calls to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import RpcFailed
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.changes import Changes
from plugbay.testing.conformance.probe.answers import CallSeen, seen
from plugbay.testing.conformance.trace import Trace
from plugbay.values import dataclass
from plugbay.wire import plugin_calls
from plugbay.wire.calls import CallChannel
from plugbay.wire.plugin_calls import RegisterRequest
from plugbay.wire.plugin_server import PreferenceRequest

CALL_S: Final = 10.0
"""The time that a plugin has for one call, unless a scene says otherwise."""
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SeenList:
    """One message of ListAndWatch.

    Attributes:
        at: when it came, on the loop's clock.
        devices: in the message's order; one that is in it twice is here twice.
        size: of the encoded message, in bytes.
    """

    at: float
    devices: tuple[ListedDevice, ...]
    size: int = 0

    @property
    def healthy(self) -> tuple[DeviceId, ...]:
        """The IDs of the devices that are healthy, each once."""
        return tuple(dict.fromkeys(each.id for each in self.devices if each.is_healthy))


class MeetingRoute(Enum):
    """The ways in which a plugin and a kubelet meet (spec 1.7)."""

    REGISTER = "kubelet.sock"
    WATCHER = "plugins_registry"


class Meeting:
    """One registration that was accepted.

    Attributes:
        request: the Register call; by the watcher's route, what GetInfo answered.
        route: the way in which they met.
        socket: the plugin's socket as it lies in our file system.
        options: its answer to GetDevicePluginOptions.
        lists: all messages of its ListAndWatch stream so far.
        heard: done after each list, before the next one is read.
        began: when the stream was opened, on the loop's clock.
        ended: set when the stream is over.
        end: the error that the stream ended with; None for a normal end, or while it lasts.
    """

    def __init__(self, request: RegisterRequest, socket: Path, channel: CallChannel, trace: Trace) -> None:
        self.request = request
        self.socket = socket
        self.channel = channel
        self.options = PluginOptions()
        self.route = MeetingRoute.REGISTER
        self.lists: list[SeenList] = []
        self.began = 0.0
        self.heard: Callable[[], Awaitable[None]] = _nothing
        self.ended = asyncio.Event()
        self.end: RpcFailed | None = None
        self._changes = Changes()
        self.trace = trace

    @property
    def resource(self) -> str:
        return self.request.resource_name

    @property
    def devices(self) -> tuple[ListedDevice, ...]:
        """The newest list; empty before the first one."""
        return self.lists[-1].devices if self.lists else ()

    @property
    def healthy(self) -> tuple[DeviceId, ...]:
        """The IDs of the devices in the newest list that are healthy, each once."""
        return self.lists[-1].healthy if self.lists else ()

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds``, which is asked after each list and at the stream's end; False if it never does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                async for _ in self._changes:
                    if holds():
                        return True
                    if self.ended.is_set():
                        return False
        return holds()

    async def until_listed(self, timeout_s: float) -> bool:
        """Wait for the first list; False if it does not come."""
        return await self.until(lambda: bool(self.lists), timeout_s)

    # --- calls ------------------------------------------------------------------------------------------------------

    async def ask_options(self, *, timeout_s: float = CALL_S) -> CallSeen[PluginOptions]:
        return await self._seen("GetDevicePluginOptions", plugin_calls.ask_options(self.channel, timeout_s=timeout_s))

    async def allocate(
        self, *containers: Sequence[str], timeout_s: float = CALL_S
    ) -> CallSeen[tuple[ContainerEdits, ...]]:
        """Allocate, with the device IDs of each container."""
        call = plugin_calls.ask_allocate(self.channel, containers, timeout_s=timeout_s)
        return await self._seen(f"Allocate {_shown(containers)}", call)

    async def prefer(
        self, *containers: PreferenceRequest, timeout_s: float = CALL_S
    ) -> CallSeen[tuple[tuple[DeviceId, ...], ...]]:
        """GetPreferredAllocation, with what is asked for each container."""
        call = plugin_calls.ask_preferred(self.channel, containers, timeout_s=timeout_s)
        sizes = [f"{each.size} of {len(each.available)}" for each in containers]
        return await self._seen(f"GetPreferredAllocation {', '.join(sizes)}", call)

    async def ask_unknown(self, *, timeout_s: float = CALL_S) -> CallSeen[None]:
        """Call a method that no version of the API has."""
        call = plugin_calls.ask_unknown(self.channel, timeout_s=timeout_s)
        return await self._seen(plugin_calls.UNKNOWN_METHOD, call)

    async def pre_start(self, devices: Sequence[str], *, timeout_s: float = CALL_S) -> CallSeen[None]:
        call = plugin_calls.ask_pre_start(self.channel, devices, timeout_s=timeout_s)
        return await self._seen(f"PreStartContainer {_shown([devices])}", call)

    async def post_stop(self, devices: Sequence[str], operation: str, *, timeout_s: float = CALL_S) -> CallSeen[None]:
        call = plugin_calls.ask_post_stop(self.channel, devices, OperationId(operation), timeout_s=timeout_s)
        return await self._seen(f"PostStopContainer {_shown([devices])}", call)

    async def deallocate(
        self,
        devices: Sequence[str],
        operation: str,
        reason: ReleaseReason = ReleaseReason.POD_ENDED,
        *,
        timeout_s: float = CALL_S,
    ) -> CallSeen[None]:
        call = plugin_calls.ask_deallocate(self.channel, devices, OperationId(operation), reason, timeout_s=timeout_s)
        return await self._seen(f"Deallocate {_shown([devices])}", call)

    async def _seen(self, text: str, call: Awaitable[_Value]) -> CallSeen[_Value]:
        self.trace.note(f"kubelet calls {text}")
        answer = await seen(call)
        self.trace.note(f"{text.split()[0]}: {answer.text} (after {answer.took_s * 1000:.1f} ms)")
        return answer

    # --- the stream -------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read lists until the stream ends, then hang up, as a kubelet does."""
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        try:
            async for message in plugin_calls.watch_lists(self.channel):
                devices = message.devices
                self.lists.append(SeenList(loop.time(), devices, message.size))
                self.trace.note(f"{self.resource} lists {len(devices)} devices: {_listed(devices)}")
                self._changes.notify()
                await self.heard()
            self.trace.note(f"{self.resource} ends its stream")
        except RpcFailed as failure:
            self.end = failure
            self.trace.note(f"the stream of {self.resource} breaks: {failure}")
        finally:
            self.ended.set()
            self._changes.notify()
            await self.channel.close()


async def _nothing() -> None:
    return None


_SHOWN: Final = 6
"""So many devices are named in a line of a trace."""


def _listed(devices: Sequence[ListedDevice]) -> str:
    named = [f"{each.id!r}={each.health}" for each in devices[:_SHOWN]]
    return ", ".join([*named, "..."] if len(devices) > _SHOWN else named)


def _shown(containers: Sequence[Sequence[str]]) -> str:
    texts = [", ".join([*map(repr, ids[:_SHOWN]), *(["..."] if len(ids) > _SHOWN else [])]) for ids in containers]
    return " ".join(f"[{text}]" for text in texts[:_SHOWN])
