"""Our gRPC, both sides, over real unix sockets: every call, and streams that end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest

from plugbay.errors import RegistrationRefused, RpcFailed
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import server_stream
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.plugin_server import PreferenceRequest, device_plugin_handler
from plugbay.wire.registration import Registration, register, registration_handler
from tests.contract.rigs.grpcio import open_channel
from tests.contract.rigs.wire import DEADLINE_S, EDITS, G1, G2, connected, pair, path

__all__ = ["path"]


async def test_options(path: Path) -> None:
    options = PluginOptions(True, False, True, True)
    async with pair(path, options_answer=options) as (_, client):
        assert await client.options() == options


async def test_allocate_carries_every_edit(path: Path) -> None:
    async def answer(_: Sequence[DeviceId]) -> ContainerEdits:
        return EDITS

    async with pair(path, allocate_answer=answer) as (plugin, client):
        response = await client.allocate((G1, G2))
        assert response is not None
        assert response.edits == EDITS
        assert plugin.allocated == [(G1, G2)]


async def test_allocate_without_a_container_response(path: Path) -> None:
    async def answer(_: Sequence[DeviceId]) -> None:
        return None

    async with pair(path, allocate_answer=answer) as (_, client):
        assert await client.allocate((G1,)) is None


async def test_preferred_allocation(path: Path) -> None:
    async with pair(path) as (plugin, client):
        assert await client.preferred_allocation((G1, G2), (G2,), 1) == (G2,)
        assert plugin.preferred == [PreferenceRequest((G1, G2), (G2,), 1)]


async def test_pre_start_container(path: Path) -> None:
    async with pair(path) as (plugin, client):
        await client.pre_start_container((G1,))
        assert plugin.pre_started == [(G1,)]


async def test_post_stop_container(path: Path) -> None:
    async with pair(path) as (plugin, client):
        await client.post_stop_container((G1, G2), OperationId("op-1"))
        assert plugin.post_stopped == [((G1, G2), "op-1", None)]


@pytest.mark.parametrize("reason", ReleaseReason)
async def test_deallocate_says_why(path: Path, reason: ReleaseReason) -> None:
    async with pair(path) as (plugin, client):
        await client.deallocate((G1, G2), OperationId("op-1"), reason)
        assert plugin.deallocated == [((G1, G2), "op-1", reason)]


async def test_deallocate_for_a_reason_from_the_future(path: Path) -> None:
    container = pb.ContainerDeallocateRequest(devices_ids=[G1], reason=9)  # type: ignore[arg-type]  # not known yet
    async with pair(path) as (plugin, _):
        channel = open_channel(path)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/v1beta1.DevicePlugin/Deallocate")
        await call(pb.DeallocateRequest(container_requests=[container]).SerializeToString())
        await channel.close()
        assert plugin.deallocated == [((G1,), "", ReleaseReason.UNSPECIFIED)]


async def test_lists_until_the_plugin_ends_the_stream(path: Path) -> None:
    async with pair(path) as (plugin, client):
        seen = []
        async for update in client.lists():
            seen.append([device.id for device in update.devices])
            if len(seen) == 1:
                plugin.send([Device(G1), Device(G2)])
            else:
                plugin.end_streams()
        assert seen == [[G1], [G1, G2]]


async def test_registration_says_who_and_where(path: Path) -> None:
    heard = []

    async def accept(registration: Registration) -> None:
        heard.append(registration)

    registration = Registration("v1beta1", "gopher.sock", "example.com/gopher")
    async with serve_grpc(path, [registration_handler(accept)]):
        await register(path, registration, options=PluginOptions(), timeout_s=DEADLINE_S)
    assert heard == [registration]


async def test_a_refused_registration_has_the_text_of_the_refusal(path: Path) -> None:
    async def accept(_: Registration) -> None:
        raise RegistrationRefused('the ResourceName "gpu" is invalid')

    async with serve_grpc(path, [registration_handler(accept)]):
        with pytest.raises(RpcFailed) as refusal:
            await register(path, Registration("v1beta1", "x", "gpu"), options=PluginOptions(), timeout_s=DEADLINE_S)
    assert str(refusal.value) == 'rpc error: code = Unknown desc = the ResourceName "gpu" is invalid'


# --- streams -------------------------------------------------------------------------------------------------------


async def test_a_caller_that_goes_away_runs_the_handlers_finally(path: Path) -> None:
    cleaned = asyncio.Event()

    class Watched(FakePlugin):
        async def lists(self) -> AsyncIterator[bytes]:
            try:
                async for message in super().lists():
                    yield message
            finally:
                cleaned.set()

    plugin = Watched("example.com/gopher", path, [Device(G1)], PluginOptions())
    async with serve_grpc(path, [device_plugin_handler(plugin)]), connected(PluginClient(path)) as client:
        async with aclosing(client.lists()) as lists:
            await anext(lists)
            assert not cleaned.is_set()
        await asyncio.wait_for(cleaned.wait(), DEADLINE_S)
        assert await client.options() == PluginOptions()  # only the stream ended


async def test_an_iterator_that_cannot_be_closed_is_served_too(path: Path) -> None:
    class Once:
        def __init__(self) -> None:
            self.left = [b"", b""]

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    stream = server_stream(pb.Empty, lambda _: Once())
    async with (
        serve_grpc(path, [Service("v1beta1.DevicePlugin", {"ListAndWatch": stream})]),
        connected(PluginClient(path)) as client,
    ):
        assert len([update async for update in client.lists()]) == 2
