"""The plugin's side of ``v1beta1.DevicePlugin``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.values import dataclass
from plugbay.wire.convert import edits_to_pb, options_to_pb, reason_from_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import server_stream, unary

PROMISE: Final[Mapping[str, str]] = {"device-manager-deallocate": "true"}
"""Metadata of ListAndWatch, from a manager that will call PostStopContainer and Deallocate, to a plugin that asked for
one of them: otherwise a plugin that hears of no end could not tell it from a kubelet, which never calls."""
STORE: Final = "device-manager-store"
"""Metadata of ListAndWatch, from a manager with a store that outlives it: the store's name. What one process of the
manager has assigned, the next one of the same store knows of; of a kubelet's checkpoint no plugin can tell that."""

LISTS_ONLY_READ: Final[Mapping[str, str]] = {"pod-resources-list-only-reads": "true"}
"""Metadata by which a manager says in ListAndWatch that its PodResources, unlike a kubelet's, changes nothing when it
lists pods (spec 4.9.2)."""

KEEPS_PLUGINS_APART: Final[Mapping[str, str]] = {"device-plugins-kept-apart": "true"}
"""Metadata by which a manager says in ListAndWatch that of several plugins for one resource only that counts which
registered last, and that an older one takes over when it ends; a kubelet up to 1.36 mixes them up (spec 2.5)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A manager's description of itself.

    Attributes:
        will_call: whether it promises to call PostStopContainer and Deallocate (`PROMISE`).
        store: names the store that it has its assignments from; empty if it does not say (`STORE`).
        lists_only_read: whether it may be asked for its pods at any time (`LISTS_ONLY_READ`).
        keeps_plugins_apart: whether an older plugin of a resource does no harm (`KEEPS_PLUGINS_APART`).
    """

    will_call: bool = False
    store: str = ""
    lists_only_read: bool = False
    keeps_plugins_apart: bool = False


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
        """The encoded lists (`encode_devices`), the first one at once; closed when the manager goes away."""
        ...

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]: ...

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        """The edits for one container; None leaves it out of the answer, which only a test wants."""
        ...

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None: ...

    async def post_stop_container(self, devices: Sequence[DeviceId], operation: OperationId) -> None: ...

    async def deallocate(self, devices: Sequence[DeviceId], operation: OperationId, reason: ReleaseReason) -> None:
        """The devices of one container request; managers send one."""
        ...


def device_plugin_handler(servicer: DevicePluginServicer, heed: Callable[[Caller], object] | None = None) -> Service:
    """The service ``v1beta1.DevicePlugin``, answered by ``servicer``.

    Args:
        heed: called with the caller of every ListAndWatch, before that is answered.
    """

    def tell(metadata: Metadata) -> None:
        if heed is not None:
            store = str(metadata.get(STORE, ""))
            said = metadata.items()
            promises = (each.items() <= said for each in (LISTS_ONLY_READ, KEEPS_PLUGINS_APART))
            heed(Caller(PROMISE.items() <= said, store, *promises))

    async def get_options(_: pb.Empty) -> pb.DevicePluginOptions:
        return options_to_pb(await servicer.options())

    async def preferred(request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        answer = pb.PreferredAllocationResponse()
        for container in request.container_requests:
            chosen = await servicer.preferred_allocation(
                PreferenceRequest(
                    _ids(container.available_deviceIDs),
                    _ids(container.must_include_deviceIDs),
                    container.allocation_size,
                )
            )
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def allocate(request: pb.AllocateRequest) -> pb.AllocateResponse:
        answer = pb.AllocateResponse()
        for container in request.container_requests:
            edits = await servicer.allocate(_ids(container.devices_ids))
            if edits is not None:
                answer.container_responses.append(edits_to_pb(edits))
        return answer

    async def pre_start(request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        await servicer.pre_start_container(_ids(request.devices_ids))
        return pb.PreStartContainerResponse()

    async def post_stop(request: pb.PostStopContainerRequest) -> pb.Empty:
        await servicer.post_stop_container(_ids(request.devices_ids), OperationId(request.operation_id))
        return pb.Empty()

    async def deallocate(request: pb.DeallocateRequest) -> pb.Empty:
        for container in request.container_requests:
            await servicer.deallocate(
                _ids(container.devices_ids), OperationId(container.operation_id), reason_from_pb(container.reason)
            )
        return pb.Empty()

    return Service(
        "v1beta1.DevicePlugin",
        {
            "GetDevicePluginOptions": unary(pb.Empty, get_options),
            "ListAndWatch": server_stream(
                pb.Empty,
                lambda _: servicer.lists(),
                tell,
            ),
            "GetPreferredAllocation": unary(pb.PreferredAllocationRequest, preferred),
            "Allocate": unary(pb.AllocateRequest, allocate),
            "PreStartContainer": unary(pb.PreStartContainerRequest, pre_start),
            "PostStopContainer": unary(pb.PostStopContainerRequest, post_stop),
            "Deallocate": unary(pb.DeallocateRequest, deallocate),
        },
    )


def _ids(texts: Iterable[str]) -> tuple[DeviceId, ...]:
    """Take texts for device IDs, all at once by a cast: a kubelet may offer 10,000 devices in one call."""
    return cast("tuple[DeviceId, ...]", tuple(texts))
