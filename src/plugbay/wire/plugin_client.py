"""The manager's side of ``v1beta1.DevicePlugin``: calls to one plugin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.values import dataclass
from plugbay.wire.calls import call
from plugbay.wire.convert import decode_edits, options_from_pb, reason_to_pb
from plugbay.wire.device_list import ChangedDevices, DeviceListReader, NewList
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.metadata import NO_METADATA, Metadata
from plugbay.wire.newest import newest
from plugbay.wire.plugin_transport import PLAIN, PluginTransport

_SERVICE = "/v1beta1.DevicePlugin/"
_Answer = TypeVar("_Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class ContainerResponse:
    """The first container response of an Allocate answer.

    Attributes:
        encoded: ContainerAllocateResponse, the same bytes for the same content.
    """

    encoded: bytes

    @property
    def edits(self) -> ContainerEdits:
        return decode_edits(self.encoded)


class PluginClient:
    """A connection to a plugin's socket. Failing calls raise `RpcFailed`."""

    def __init__(self, path: Path, transport: PluginTransport = PLAIN) -> None:
        self._channel = transport.channel(path)

    async def connect(self, timeout_s: float) -> None:
        """Connect, trying again while the socket is not there yet.

        Raises:
            TimeoutError: the plugin did not answer in time.
        """
        await self._channel.connect(timeout_s)

    @property
    def is_connected(self) -> bool:
        return self._channel.is_connected

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        await self._channel.close()

    async def options(self, *, timeout_s: float | None = None) -> PluginOptions:
        return options_from_pb(
            await self._call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions, timeout_s)
        )

    async def lists(self, metadata: Metadata = NO_METADATA) -> AsyncGenerator[NewList | ChangedDevices, None]:
        """The device lists, as long as the plugin streams. The plugin's normal end of the stream ends the iteration.

        Args:
            metadata: the metadata of the call, such as `plugbay.wire.plugin_server.PROMISE`.
        """
        async with aclosing(self._messages(metadata)) as messages:
            reader = DeviceListReader()
            async for message in messages:
                yield reader.read(message)

    async def newest_lists(self, metadata: Metadata = NO_METADATA) -> AsyncGenerator[NewList | ChangedDevices, None]:
        """The lists of `lists`, without those that a newer one has overtaken before they were read."""
        async with aclosing(newest(self._messages(metadata))) as messages:
            reader = DeviceListReader()
            async for message in messages:
                yield reader.read(message)

    def _messages(self, metadata: Metadata) -> AsyncGenerator[bytes, None]:
        return self._channel.stream(f"{_SERVICE}ListAndWatch", pb.Empty().SerializeToString(), metadata=metadata)

    async def preferred_allocation(
        self,
        available: Sequence[DeviceId],
        must_include: Sequence[DeviceId],
        size: int,
        *,
        timeout_s: float | None = None,
    ) -> tuple[DeviceId, ...]:
        """The plugin's preference; empty for none."""
        request = pb.PreferredAllocationRequest(
            container_requests=[
                pb.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
                )
            ]
        )
        answer = await self._call("GetPreferredAllocation", request, pb.PreferredAllocationResponse, timeout_s)
        if not answer.container_responses:
            return ()
        return tuple(DeviceId(text) for text in answer.container_responses[0].deviceIDs)

    async def allocate(
        self, devices: Sequence[DeviceId], *, timeout_s: float | None = None
    ) -> ContainerResponse | None:
        """The edits that a container gets with ``devices``; None if the answer holds no container response."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=devices)])
        answer = await self._call("Allocate", request, pb.AllocateResponse, timeout_s)
        if not answer.container_responses:
            return None
        return ContainerResponse(answer.container_responses[0].SerializeToString(deterministic=True))

    async def pre_start_container(self, devices: Sequence[DeviceId], *, timeout_s: float | None = None) -> None:
        await self._call(
            "PreStartContainer",
            pb.PreStartContainerRequest(devices_ids=devices),
            pb.PreStartContainerResponse,
            timeout_s,
        )

    async def post_stop_container(
        self, devices: Sequence[DeviceId], operation: OperationId, *, timeout_s: float | None = None
    ) -> None:
        request = pb.PostStopContainerRequest(devices_ids=devices, operation_id=operation)
        await self._call("PostStopContainer", request, pb.Empty, timeout_s)

    async def deallocate(
        self,
        devices: Sequence[DeviceId],
        operation: OperationId,
        reason: ReleaseReason,
        *,
        timeout_s: float | None = None,
    ) -> None:
        container = pb.ContainerDeallocateRequest(
            devices_ids=devices, operation_id=operation, reason=reason_to_pb(reason)
        )
        request = pb.DeallocateRequest(container_requests=[container])
        await self._call("Deallocate", request, pb.Empty, timeout_s)

    async def _call(self, method: str, request: Message, answer: type[_Answer], timeout_s: float | None) -> _Answer:
        return await call(self._channel, _SERVICE + method, request, answer, timeout_s=timeout_s)
