"""The calls of ``v1beta1.DevicePlugin`` with all that a message can hold, for a caller that judges a plugin.

A kubelet asks for one container at a time; here a request takes several, and the answer shows each. Nothing in an
answer is checked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from google.protobuf.message import DecodeError

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.values import dataclass
from plugbay.wire.calls import CallChannel, call
from plugbay.wire.convert import decode_edits, device_from_pb, options_from_pb, reason_to_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import unary
from plugbay.wire.plugin_server import PreferenceRequest

DEVICE_PLUGIN_SERVICE: Final = "v1beta1.DevicePlugin"
UNKNOWN_METHOD: Final = "PlugbayAsksForAMethodThatIsNot"
_PREFIX: Final = f"/{DEVICE_PLUGIN_SERVICE}/"


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """A Register call as it came; nothing is checked.

    Attributes:
        options: those in the request; None when it has none.
    """

    version: str
    endpoint: str
    resource_name: str
    options: PluginOptions | None


def register_handler(accept: Callable[[RegisterRequest], Awaitable[None]]) -> Service:
    """The service ``v1beta1.Registration`` with the whole request; what ``accept`` raises is the refusal."""

    async def handle(request: pb.RegisterRequest) -> pb.Empty:
        options = options_from_pb(request.options) if request.HasField("options") else None
        await accept(RegisterRequest(request.version, request.endpoint, request.resource_name, options))
        return pb.Empty()

    return Service("v1beta1.Registration", {"Register": unary(pb.RegisterRequest, handle)})


async def ask_options(channel: CallChannel, *, timeout_s: float) -> PluginOptions:
    """GetDevicePluginOptions."""
    method = f"{_PREFIX}GetDevicePluginOptions"
    return options_from_pb(await call(channel, method, pb.Empty(), pb.DevicePluginOptions, timeout_s=timeout_s))


@dataclass(frozen=True, slots=True)
class DeviceList:
    """One message of ListAndWatch.

    Attributes:
        devices: in the message's order; one that is in it twice is here twice.
        size: of the encoded message, in bytes.
    """

    devices: tuple[ListedDevice, ...]
    size: int


async def watch_lists(channel: CallChannel) -> AsyncGenerator[DeviceList, None]:
    """ListAndWatch.

    Raises:
        RpcFailed: the stream broke, or a message is not one.
    """
    async with aclosing(channel.stream(f"{_PREFIX}ListAndWatch", pb.Empty().SerializeToString())) as messages:
        async for message in messages:
            try:
                devices = pb.ListAndWatchResponse.FromString(message).devices
            except DecodeError as error:
                detail = f"grpc: failed to unmarshal the received message: {error}"
                raise RpcFailed(RpcCode.INTERNAL, detail) from error
            yield DeviceList(tuple(device_from_pb(device) for device in devices), len(message))


async def ask_unknown(channel: CallChannel, *, timeout_s: float) -> None:
    """A method that no version of the API has."""
    await channel.unary(f"{_PREFIX}{UNKNOWN_METHOD}", b"", timeout_s=timeout_s)


async def ask_allocate(
    channel: CallChannel, containers: Sequence[Sequence[str]], *, timeout_s: float
) -> tuple[ContainerEdits, ...]:
    """Allocate with one container request for each of ``containers``; the edits of each container response."""
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=i) for i in containers])
    answer = await call(channel, f"{_PREFIX}Allocate", request, pb.AllocateResponse, timeout_s=timeout_s)
    return tuple(decode_edits(each.SerializeToString(deterministic=True)) for each in answer.container_responses)


async def ask_preferred(
    channel: CallChannel, containers: Sequence[PreferenceRequest], *, timeout_s: float
) -> tuple[tuple[DeviceId, ...], ...]:
    """GetPreferredAllocation with one container request for each of ``containers``; the IDs of each answer."""
    request = pb.PreferredAllocationRequest()
    for each in containers:
        request.container_requests.add(
            available_deviceIDs=each.available, must_include_deviceIDs=each.must_include, allocation_size=each.size
        )
    method = f"{_PREFIX}GetPreferredAllocation"
    answer = await call(channel, method, request, pb.PreferredAllocationResponse, timeout_s=timeout_s)
    return tuple(tuple(DeviceId(each) for each in one.deviceIDs) for one in answer.container_responses)


async def ask_pre_start(channel: CallChannel, devices: Sequence[str], *, timeout_s: float) -> None:
    """PreStartContainer."""
    request = pb.PreStartContainerRequest(devices_ids=devices)
    await call(channel, f"{_PREFIX}PreStartContainer", request, pb.PreStartContainerResponse, timeout_s=timeout_s)


async def ask_post_stop(
    channel: CallChannel, devices: Sequence[str], operation: OperationId, *, timeout_s: float
) -> None:
    """PostStopContainer, an extension of ours."""
    request = pb.PostStopContainerRequest(devices_ids=devices, operation_id=operation)
    await call(channel, f"{_PREFIX}PostStopContainer", request, pb.Empty, timeout_s=timeout_s)


async def ask_deallocate(
    channel: CallChannel, devices: Sequence[str], operation: OperationId, reason: ReleaseReason, *, timeout_s: float
) -> None:
    """Deallocate, an extension of ours."""
    one = pb.ContainerDeallocateRequest(devices_ids=devices, operation_id=operation, reason=reason_to_pb(reason))
    request = pb.DeallocateRequest(container_requests=[one])
    await call(channel, f"{_PREFIX}Deallocate", request, pb.Empty, timeout_s=timeout_s)
