"""The way between our manager and its plugins, recorded and disturbed; handed to `plugbay.manager.run_manager`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from plugbay.model.ids import ResourceName
from plugbay.testing.traffic.faults import Breakage, DisturbedCall, FaultSwitches
from plugbay.testing.traffic.passing import Passage
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import Party, TrafficEvent
from plugbay.wire.grpc import texts
from plugbay.wire.grpc.channel import LOCALHOST, Channel
from plugbay.wire.grpc.metadata import NO_METADATA, Metadata
from plugbay.wire.grpc.services import Method, Service, Unary
from plugbay.wire.message_values import message_value


class DisturbedTransport:
    """Implements `plugbay.wire.plugin_transport.PluginTransport`.

    Attributes:
        recorder: gets a record of everything that passes.
        switches: the faults.
    """

    def __init__(self, recorder: TrafficRecorder, switches: FaultSwitches) -> None:
        self.recorder = recorder
        self.switches = switches
        self._resources: dict[Path, ResourceName] = {}

    def channel(self, socket: Path, *, authority: str = LOCALHOST) -> DisturbedChannel:
        """See `PluginTransport`. The resource behind a socket is known once a plugin was admitted there."""
        resource = self._resources.get(socket, "")
        return DisturbedChannel(Channel(socket, authority=authority), resource, self.recorder, self.switches)

    def offered(self, service: Service) -> Service:
        """See `PluginTransport`. The calls of plugins, such as Register, are disturbed like calls to them."""
        return Service(
            service.name,
            {name: self._recorded(f"/{service.name}/{name}", method) for name, method in service.methods.items()},
        )

    async def admit(self, resource: ResourceName, socket: Path) -> None:
        """See `PluginTransport`."""
        self.switches.check_admission(resource)
        self._resources[socket] = resource

    def _recorded(self, path: str, method: Method) -> Method:
        if not isinstance(method, Unary):
            return method  # plugins call no streams
        answer = method.answer

        async def handle(encoded: bytes) -> bytes:
            value = message_value(path, encoded, is_answer=False) or {}
            resource = str(value.get("resource_name", ""))
            call = DisturbedCall(path, resource, _no_connection)
            record = self.recorder.call(0, resource, path, Party.PLUGIN)
            return await Passage(call, record, self.switches).unary(encoded, None, lambda request, _: answer(request))

        return Unary(handle)


def _no_connection() -> None:
    """A call of a plugin fails with the status of a broken connection instead."""


class DisturbedChannel:
    """A channel to a plugin, or of a plugin to its kubelet: implements `plugbay.wire.calls.CallChannel`."""

    def __init__(
        self,
        inner: Channel,
        resource: str,
        recorder: TrafficRecorder,
        switches: FaultSwitches,
        *,
        caller: Party = Party.KUBELET,
    ) -> None:
        self._caller = caller
        self._inner = inner
        self._resource = resource
        self._recorder = recorder
        self._switches = switches
        self._number = 0
        self._calls: set[DisturbedCall] = set()
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    async def connect(self, timeout_s: float) -> None:
        """See `Channel.connect`."""
        await self._inner.connect(timeout_s)
        self._put(TrafficEvent.CONNECTED)

    async def close(self) -> None:
        """See `Channel.close`."""
        for call in tuple(self._calls):
            call.end(Breakage(texts.closing()))
        await self._inner.close()
        if self._number and not self._is_closed:
            self._is_closed = True
            self._put(TrafficEvent.CLOSED)

    async def unary(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> bytes:
        """See `Channel.unary`."""

        async def pass_on(request: bytes, left_s: float | None) -> bytes:
            return await self._inner.unary(method, request, timeout_s=left_s, metadata=metadata)

        call = self._open(method)
        try:
            return await self._passage(call).unary(request, timeout_s, pass_on)
        finally:
            self._calls.discard(call)

    async def stream(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> AsyncGenerator[bytes, None]:
        """See `Channel.stream`."""

        def pass_on(request: bytes, left_s: float | None) -> AsyncGenerator[bytes, None]:
            return self._inner.stream(method, request, timeout_s=left_s, metadata=metadata)

        call = self._open(method)
        messages = self._passage(call).stream(request, timeout_s, pass_on)
        try:
            async for message in messages:
                yield message
        finally:
            self._calls.discard(call)
            await messages.aclose()

    def _open(self, method: str) -> DisturbedCall:
        call = DisturbedCall(method, self._resource, self.break_off)
        self._calls.add(call)
        return call

    def _passage(self, call: DisturbedCall) -> Passage:
        record = self._recorder.call(self._known(), self._resource, call.method, self._caller)
        return Passage(call, record, self._switches)

    def break_off(self) -> None:
        """Break the connection, and every call on it, also those that a fault holds back."""
        for call in tuple(self._calls):
            call.end(Breakage(texts.connection_lost(texts.reading_failed("connection reset by peer"))))
        self._inner.break_off()

    def _put(self, event: TrafficEvent) -> None:
        self._recorder.put(event, self._caller, self._known(), resource=self._resource)

    def _known(self) -> int:
        """The number of the connection; one that is never used has none."""
        self._number = self._number or self._recorder.connection()
        return self._number
