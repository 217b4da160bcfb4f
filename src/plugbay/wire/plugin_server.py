"""The plugin's side of ``v1beta1.DevicePlugin``."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from plugbay.errors import PlugbayError, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.wire.convert import edits_to_pb, options_to_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.status import from_go_name

logger = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Message)
_Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class PreferenceRequest:
    """One container of a GetPreferredAllocation call."""

    available: tuple[DeviceId, ...]
    must_include: tuple[DeviceId, ...]
    size: int


class DevicePluginServicer(Protocol):
    """Answers a manager's calls. What it raises becomes status UNKNOWN with the exception's text, as in Go."""

    async def options(self) -> PluginOptions: ...

    def lists(self) -> AsyncIterator[bytes]:
        """Encoded lists (`encode_devices`), the first one at once; closed when the manager goes away."""
        ...

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]: ...

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        """What one container gets; None leaves it out of the answer, which only a test wants."""
        ...

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None: ...


def device_plugin_handler(servicer: DevicePluginServicer) -> grpc.GenericRpcHandler:
    """The service ``v1beta1.DevicePlugin``, answered by ``servicer``."""

    async def get_options(_: pb.Empty) -> pb.DevicePluginOptions:
        return options_to_pb(await servicer.options())

    async def list_and_watch(_: pb.Empty, context: _Context) -> AsyncIterator[bytes]:
        lists = servicer.lists()
        try:
            async for message in lists:
                yield message
        finally:
            if aclose := getattr(lists, "aclose", None):
                await aclose()

    async def preferred(request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        answer = pb.PreferredAllocationResponse()
        for container in request.container_requests:
            chosen = await servicer.preferred_allocation(
                PreferenceRequest(
                    tuple(map(DeviceId, container.available_deviceIDs)),
                    tuple(map(DeviceId, container.must_include_deviceIDs)),
                    container.allocation_size,
                )
            )
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def allocate(request: pb.AllocateRequest) -> pb.AllocateResponse:
        answer = pb.AllocateResponse()
        for container in request.container_requests:
            edits = await servicer.allocate(tuple(map(DeviceId, container.devices_ids)))
            if edits is not None:
                answer.container_responses.append(edits_to_pb(edits))
        return answer

    async def pre_start(request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        await servicer.pre_start_container(tuple(map(DeviceId, request.devices_ids)))
        return pb.PreStartContainerResponse()

    return grpc.method_handlers_generic_handler(
        "v1beta1.DevicePlugin",
        {
            "GetDevicePluginOptions": unary(pb.Empty, get_options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                list_and_watch, request_deserializer=pb.Empty.FromString
            ),
            "GetPreferredAllocation": unary(pb.PreferredAllocationRequest, preferred),
            "Allocate": unary(pb.AllocateRequest, allocate),
            "PreStartContainer": unary(pb.PreStartContainerRequest, pre_start),
        },
    )


def unary(
    request_type: type[_Request], answer: Callable[[_Request], Awaitable[Message]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler for one unary method whose exceptions reach the caller as a status."""

    async def handle(request: _Request, context: _Context) -> Message:
        try:
            return await answer(request)
        except PlugbayError as error:
            code = grpc.StatusCode.UNKNOWN
            if isinstance(error, RpcFailed):
                code = from_go_name(error.code)
            await context.abort(code, error.detail if isinstance(error, RpcFailed) else str(error))
        except Exception as error:  # the servicer's edge: an author's bug must reach the kubelet's log too
            logger.exception("%s failed", request_type.__name__)
            await context.abort(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")
        raise AssertionError("abort() returned")

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=request_type.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
