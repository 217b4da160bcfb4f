"""A way between a manager and its plugins on which all that passes is recorded, and nothing is changed or held back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Final
from weakref import WeakSet

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.ids import ResourceName
from plugbay.traffic.recorder import CallRecorder, TrafficRecorder
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.grpc.channel import LOCALHOST, Channel
from plugbay.wire.grpc.metadata import NO_METADATA, Metadata
from plugbay.wire.grpc.services import Method, Service, Unary
from plugbay.wire.message_values import LIST_AND_WATCH, OPTIONS, REGISTER, message_value

_GIVEN_UP: Final = RpcFailed(RpcCode.CANCELLED, "context canceled")
PRESENT: Final = "as it was when the recording began"
"""The note of a record that tells what came before the recording."""


class TappedTransport:
    """Implements `plugbay.wire.plugin_transport.PluginTransport`."""

    def __init__(self, recorder: TrafficRecorder) -> None:
        self._recorder = recorder
        self._resources: dict[Path, ResourceName] = {}
        self._registrations: dict[ResourceName, bytes] = {}
        self._channels: WeakSet[TappedChannel] = WeakSet()

    def channel(self, socket: Path, *, authority: str = LOCALHOST) -> TappedChannel:
        """See `PluginTransport`."""
        resource = self._resources.pop(socket, ResourceName(""))
        channel = TappedChannel(Channel(socket, authority=authority), resource, self._recorder)
        self._channels.add(channel)
        return channel

    def offered(self, service: Service) -> Service:
        """See `PluginTransport`."""
        return Service(
            service.name,
            {name: self._recorded(f"/{service.name}/{name}", method) for name, method in service.methods.items()},
        )

    async def admit(self, resource: ResourceName, socket: Path) -> None:
        """See `PluginTransport`; every plugin may register."""
        self._resources[socket] = resource

    def present(self) -> Iterator[TrafficRecord]:
        """The registrations, options and last lists of the plugins that are connected now, as records of time 0."""
        for channel in sorted(self._channels, key=lambda each: each.number):
            if channel.is_listed:
                if (request := self._registrations.get(channel.resource)) is not None:
                    yield from self._registered(channel.resource, request)
                yield from channel.present()

    def _registered(self, resource: ResourceName, request: bytes) -> Iterator[TrafficRecord]:
        call = self._recorder.next_call()
        for event, sender, message in (
            (TrafficEvent.REQUEST, Party.PLUGIN, request),
            (TrafficEvent.ANSWER, Party.KUBELET, b""),
            (TrafficEvent.END, Party.KUBELET, b""),
        ):
            yield TrafficRecord(0, event, sender, 0, call, resource, REGISTER, message, note=PRESENT)

    def _recorded(self, path: str, method: Method) -> Method:
        if not isinstance(method, Unary):
            return method  # plugins call no streams
        answer = method.answer

        async def handle(encoded: bytes) -> bytes:
            value = message_value(path, encoded, is_answer=False) or {}
            resource = ResourceName(str(value.get("resource_name", "")))
            record = self._recorder.call(0, resource, path, Party.PLUGIN)
            answered = await _unary(record, encoded, lambda: answer(encoded))
            self._registrations[resource] = encoded
            return answered

        return Unary(handle)


class TappedChannel:
    """A channel to a plugin: implements `plugbay.wire.calls.CallChannel`.

    Attributes:
        resource: of the plugin; empty while it is not known.
        number: of the connection.
    """

    def __init__(self, inner: Channel, resource: ResourceName, recorder: TrafficRecorder) -> None:
        self.resource = resource
        self.number = recorder.connection()
        self._inner = inner
        self._recorder = recorder
        self._options: bytes | None = None
        self._lists: dict[int, tuple[bytes, bytes]] = {}
        self._is_open = False

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    @property
    def is_listed(self) -> bool:
        """Whether a stream of lists is open, and has had a list."""
        return bool(self._lists)

    async def connect(self, timeout_s: float) -> None:
        """See `Channel.connect`."""
        await self._inner.connect(timeout_s)
        self._is_open = True
        self._recorder.put(TrafficEvent.CONNECTED, Party.KUBELET, self.number, resource=self.resource)

    async def close(self) -> None:
        """See `Channel.close`."""
        await self._inner.close()
        if self._is_open:
            self._is_open = False
            self._recorder.put(TrafficEvent.CLOSED, Party.KUBELET, self.number, resource=self.resource)

    async def unary(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> bytes:
        """See `Channel.unary`."""
        record = self._recorder.call(self.number, self.resource, method, Party.KUBELET)
        answer = await _unary(
            record, request, lambda: self._inner.unary(method, request, timeout_s=timeout_s, metadata=metadata)
        )
        if method == OPTIONS:
            self._options = answer
        return answer

    async def stream(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> AsyncGenerator[bytes, None]:
        """See `Channel.stream`."""
        record = self._recorder.call(self.number, self.resource, method, Party.KUBELET)
        record.request(request)
        inner = self._inner.stream(method, request, timeout_s=timeout_s, metadata=metadata)
        try:
            async with aclosing(inner) as messages:
                async for message in messages:
                    record.answer(message)
                    self._lists[record.number] = request, message
                    yield message
            record.end()
        except RpcFailed as failure:
            record.end(failure)
            raise
        except (GeneratorExit, asyncio.CancelledError):
            record.given_up(_GIVEN_UP)
            raise
        finally:
            self._lists.pop(record.number, None)

    def present(self) -> Iterator[TrafficRecord]:
        """The options and the last list, as records of time 0; what comes later on the stream goes on from there."""
        yield TrafficRecord(0, TrafficEvent.CONNECTED, Party.KUBELET, self.number, resource=self.resource, note=PRESENT)
        if self._options is not None:
            yield from self._answered(OPTIONS, self._recorder.next_call(), b"", self._options)
            # The stream below has no end yet, and this call has.
        for call, (request, message) in self._lists.items():
            yield from list(self._answered(LIST_AND_WATCH, call, request, message))[:-1]

    def _answered(self, method: str, call: int, request: bytes, answer: bytes) -> Iterator[TrafficRecord]:
        for event, sender, message in (
            (TrafficEvent.REQUEST, Party.KUBELET, request),
            (TrafficEvent.ANSWER, Party.PLUGIN, answer),
            (TrafficEvent.END, Party.PLUGIN, b""),
        ):
            yield TrafficRecord(0, event, sender, self.number, call, self.resource, method, message, note=PRESENT)


async def _unary(record: CallRecorder, request: bytes, call: Callable[[], Awaitable[bytes]]) -> bytes:
    record.request(request)
    try:
        answer = await call()
    except RpcFailed as failure:
        if failure.code is RpcCode.DEADLINE_EXCEEDED:  # which is the caller's
            record.given_up(failure)
        else:
            record.end(failure)
        raise
    except asyncio.CancelledError:
        record.given_up(_GIVEN_UP)
        raise
    record.answer(answer)
    record.end()
    return answer
