"""A plugin's service with nothing behind it: ``python -m bench.peers.wire ours|grpcio DIRECTORY``.

It listens at ``small.sock`` and ``big.sock``. Allocate is answered with a few bytes; ListAndWatch with `MESSAGES` lists
of one device, and at ``big.sock`` with one message of `BIG_BYTES`. ``ours`` is on our wire, ``grpcio`` on grpcio's
asyncio server, with the same messages.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.wire.convert import edits_to_pb
from plugbay.wire.device_list import encode_devices
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import PreferenceRequest, device_plugin_handler

SERVICE: Final = "v1beta1.DevicePlugin"
ALLOCATE: Final = f"/{SERVICE}/Allocate"
LISTS: Final = f"/{SERVICE}/ListAndWatch"
SMALL: Final = "small.sock"
BIG: Final = "big.sock"
MESSAGES: Final = 20_000
BIG_BYTES: Final = 16 * 1024 * 1024
_EDITS: Final = ContainerEdits(env={"GOPHER": "g0"})

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


def lists(socket: str) -> Sequence[bytes]:
    """The messages that ListAndWatch sends at ``socket``."""
    return [b"x" * BIG_BYTES] if socket == BIG else [encode_devices([Device("g0")])] * MESSAGES


class Plugin:
    """The service on our wire."""

    def __init__(self, listed: Sequence[bytes]) -> None:
        self._listed = listed

    async def options(self) -> PluginOptions:
        return PluginOptions()

    async def lists(self) -> AsyncIterator[bytes]:
        for message in self._listed:
            yield message

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        return request.available[: request.size]

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        return _EDITS

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        return None

    async def post_stop_container(self, devices: Sequence[DeviceId], operation: OperationId) -> None:
        return None

    async def deallocate(self, devices: Sequence[DeviceId], operation: OperationId, reason: ReleaseReason) -> None:
        return None


async def serve_ours(directory: Path) -> None:
    async with AsyncExitStack() as up:
        for socket in (SMALL, BIG):
            handler = device_plugin_handler(Plugin(lists(socket)))
            await up.enter_async_context(serve_grpc(directory / socket, [handler]))
        await asyncio.Event().wait()


async def serve_grpcio(directory: Path) -> None:
    servers = []
    for socket in (SMALL, BIG):
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _methods(lists(socket))),))
        server.add_insecure_port(f"unix:{directory / socket}")
        await server.start()
        servers.append(server)
    await asyncio.gather(*(server.wait_for_termination() for server in servers))


def _methods(listed: Sequence[bytes]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    async def allocate(request: pb.AllocateRequest, _: _Context) -> pb.AllocateResponse:
        return pb.AllocateResponse(container_responses=[edits_to_pb(_EDITS) for _ in request.container_requests])

    async def listing(_: bytes, __: _Context) -> AsyncIterator[bytes]:
        for message in listed:
            yield message

    return {
        "Allocate": grpc.unary_unary_rpc_method_handler(
            allocate,
            request_deserializer=pb.AllocateRequest.FromString,
            response_serializer=pb.AllocateResponse.SerializeToString,
        ),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(listing),
    }


if __name__ == "__main__":
    asyncio.run({"ours": serve_ours, "grpcio": serve_grpcio}[sys.argv[1]](Path(sys.argv[2])))
