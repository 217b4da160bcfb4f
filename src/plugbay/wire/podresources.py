"""``v1.PodResourcesLister`` and ``v1alpha1.PodResourcesLister``: both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from plugbay.model.podresources import AllocatableResources, PodResources
from plugbay.wire.calls import call
from plugbay.wire.generated import podresources_v1_pb2 as v1
from plugbay.wire.generated import podresources_v1alpha1_pb2 as v1alpha1
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import unary
from plugbay.wire.podresources_messages import (
    devices_from_v1,
    devices_to_v1,
    memory_from_v1,
    memory_to_v1,
    pod_from_v1,
    pod_from_v1alpha1,
    pod_to_v1,
    pod_to_v1alpha1,
)

V1_SERVICE = "v1.PodResourcesLister"
V1ALPHA1_SERVICE = "v1alpha1.PodResourcesLister"

_AT_ONCE = 500
_Answer = TypeVar("_Answer", bound=Message)
_Value = TypeVar("_Value")
_Item = TypeVar("_Item")
_Taken = TypeVar("_Taken", contravariant=True)


# --- the service ----------------------------------------------------------------------------------------------------


class PodResourcesServicer(Protocol):
    """Answers at once; what it raises is the status, as with `plugbay.wire.handlers.unary`."""

    def list_v1(self) -> Sequence[PodResources]: ...

    def get_v1(self, namespace: str, name: str) -> PodResources: ...

    def allocatable_v1(self) -> AllocatableResources: ...

    def list_v1alpha1(self) -> Sequence[PodResources]:
        """Pods, containers and device IDs are sent; other values are not."""
        ...


def pod_resources_handlers(servicer: PodResourcesServicer) -> Sequence[Service]:
    """Both services, answered by ``servicer``."""

    async def list_v1(_: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:
        answer = v1.ListPodResourcesResponse()
        await _extend(answer.pod_resources, pod_to_v1, servicer.list_v1())
        return answer

    async def get_v1(request: v1.GetPodResourcesRequest) -> v1.GetPodResourcesResponse:
        pod = servicer.get_v1(request.pod_namespace, request.pod_name)
        return v1.GetPodResourcesResponse(pod_resources=pod_to_v1(pod))

    async def allocatable_v1(_: v1.AllocatableResourcesRequest) -> v1.AllocatableResourcesResponse:
        allocatable = servicer.allocatable_v1()
        answer = v1.AllocatableResourcesResponse(
            cpu_ids=allocatable.cpu_ids, memory=map(memory_to_v1, allocatable.memory)
        )
        await _extend(answer.devices, devices_to_v1, allocatable.devices)
        return answer

    async def list_v1alpha1(_: v1alpha1.ListPodResourcesRequest) -> v1alpha1.ListPodResourcesResponse:
        answer = v1alpha1.ListPodResourcesResponse()
        await _extend(answer.pod_resources, pod_to_v1alpha1, servicer.list_v1alpha1())
        return answer

    return (
        Service(
            V1_SERVICE,
            {
                "List": unary(v1.ListPodResourcesRequest, list_v1),
                "Get": unary(v1.GetPodResourcesRequest, get_v1),
                "GetAllocatableResources": unary(v1.AllocatableResourcesRequest, allocatable_v1),
            },
        ),
        Service(V1ALPHA1_SERVICE, {"List": unary(v1alpha1.ListPodResourcesRequest, list_v1alpha1)}),
    )


class _Repeated(Protocol[_Taken]):
    """A repeated field of a message."""

    def extend(self, items: Iterable[_Taken], /) -> None: ...


async def _extend(repeated: _Repeated[_Item], convert: Callable[[_Value], _Item], values: Sequence[_Value]) -> None:
    """Convert ``values`` and let other tasks run in between: 10,000 devices take 50 ms, too long for admission."""
    for start in range(0, len(values), _AT_ONCE):
        repeated.extend(map(convert, values[start : start + _AT_ONCE]))
        await asyncio.sleep(0)


# --- calls ----------------------------------------------------------------------------------------------------------


class PodResourcesCalls:
    """A connection to a PodResources socket. Failing calls raise `RpcFailed`."""

    def __init__(self, socket: Path, *, timeout_s: float) -> None:
        self._channel = Channel(socket)
        self._timeout_s = timeout_s

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        await self._channel.close()

    async def list_v1(self) -> tuple[PodResources, ...]:
        answer = await self._call(V1_SERVICE, "List", v1.ListPodResourcesRequest(), v1.ListPodResourcesResponse)
        return tuple(map(pod_from_v1, answer.pod_resources))

    async def get_v1(self, namespace: str, name: str) -> PodResources:
        request = v1.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        return pod_from_v1((await self._call(V1_SERVICE, "Get", request, v1.GetPodResourcesResponse)).pod_resources)

    async def allocatable_v1(self) -> AllocatableResources:
        answer = await self._call(
            V1_SERVICE, "GetAllocatableResources", v1.AllocatableResourcesRequest(), v1.AllocatableResourcesResponse
        )
        return AllocatableResources(
            tuple(map(devices_from_v1, answer.devices)),
            tuple(answer.cpu_ids),
            tuple(map(memory_from_v1, answer.memory)),
        )

    async def list_v1alpha1(self) -> tuple[PodResources, ...]:
        answer = await self._call(
            V1ALPHA1_SERVICE, "List", v1alpha1.ListPodResourcesRequest(), v1alpha1.ListPodResourcesResponse
        )
        return tuple(map(pod_from_v1alpha1, answer.pod_resources))

    async def _call(self, service: str, method: str, request: Message, answer: type[_Answer]) -> _Answer:
        return await call(self._channel, f"/{service}/{method}", request, answer, timeout_s=self._timeout_s)
