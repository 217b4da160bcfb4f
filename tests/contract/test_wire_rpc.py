"""Our gRPC, both sides, over real unix sockets: every call, every way to fail, and the limits of the transport."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from plugbay.errors import ConflictingEdits, PathTooLong, PathUnusable, RegistrationRefused, RpcFailed
from plugbay.model.devices import Device, ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.testing.fake_plugin import FakePlugin, fake_plugin, refusing
from plugbay.wire.device_list import NewList, encode_devices
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.handlers import server_stream
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.plugin_server import PreferenceRequest, device_plugin_handler
from plugbay.wire.registration import Registration, register, registration_handler
from plugbay.wire.transport import MAX_MESSAGE_BYTES, MAX_SOCKET_PATH_BYTES, open_channel, serve_grpc

DEADLINE_S = 30
EDITS = ContainerEdits(
    env={"Gopher": "g1"},
    mounts=(Mount("/c", "/h", read_only=True),),
    device_nodes=(DeviceNode("/dev/c", "/dev/h", "rwm"),),
    annotations={"example.com/note": "x"},
    cdi_devices=("example.com/gopher=g1",),
)
G1, G2 = DeviceId("g1"), DeviceId("g2")


@pytest.fixture
def path(sockets: Path) -> Path:
    return sockets / "plugin.sock"


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[PluginClient]:
    client = PluginClient(path)
    try:
        await client.connect(DEADLINE_S)
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def pair(path: Path, **plugin: object) -> AsyncIterator[tuple[FakePlugin, PluginClient]]:
    async with fake_plugin("example.com/gopher", path, [Device(G1)]) as fake, connected(path) as client:
        vars(fake).update(plugin)
        yield fake, client


# --- the calls -----------------------------------------------------------------------------------------------------


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


# --- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK], ids=str)
async def test_a_status_arrives_as_it_was_sent(path: Path, code: grpc.StatusCode) -> None:
    name = "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")
    async with pair(path, allocate_answer=refusing(name, "no power: 50 %")) as (_, client):
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,))
    assert (failure.value.code, failure.value.detail) == (name, "no power: 50 %")


async def raise_author_error(*_: object) -> ContainerEdits:
    raise ConflictingEdits("mount", "/c", "/a", "/b")


async def raise_bug(*_: object) -> ContainerEdits:
    raise KeyError("größe")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            raise_author_error, "two devices disagree about mount '/c': /a and /b", id="ours-speaks-for-itself"
        ),
        pytest.param(raise_bug, "KeyError: 'größe'", id="a-bug-is-named"),
    ],
)
async def test_an_exception_of_the_plugin_is_status_unknown(
    path: Path, answer: Callable[..., Awaitable[ContainerEdits]], text: str
) -> None:
    async with pair(path, allocate_answer=answer) as (_, client):
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,))
        assert (failure.value.code, failure.value.detail) == ("Unknown", text)
        assert await client.options() == PluginOptions()  # the plugin lives on


class BreakingLists(FakePlugin):
    """Its streams break after the first list."""

    def __init__(self, error: Exception) -> None:
        super().__init__("example.com/gopher", Path("unused"), [Device(G1)], PluginOptions())
        self.error = error

    async def lists(self) -> AsyncIterator[bytes]:
        yield encode_devices([Device(G1)])
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(RpcFailed("Aborted", "bus reset"), ("Aborted", "bus reset"), id="status"),
        pytest.param(
            ConflictingEdits("m", "k", "a", "b"), ("Unknown", "two devices disagree about m 'k': a and b"), id="ours"
        ),
        pytest.param(OSError("gone"), ("Unknown", "OSError: gone"), id="bug"),
    ],
)
async def test_a_stream_that_breaks_has_the_same_status(path: Path, error: Exception, status: tuple[str, str]) -> None:
    async with serve_grpc(path, [device_plugin_handler(BreakingLists(error))]), connected(path) as client:
        lists = client.lists()
        assert await anext(lists) == NewList((ListedDevice(G1, "Healthy"),))
        with pytest.raises(RpcFailed) as failure:
            await anext(lists)
    assert (failure.value.code, failure.value.detail) == status


async def test_a_list_that_is_none_ends_the_iteration(path: Path) -> None:
    async with pair(path) as (plugin, client):
        lists = client.lists()
        await anext(lists)
        plugin.send_raw(b"\xff")
        with pytest.raises(RpcFailed, match="code = Internal"):
            await anext(lists)


@pytest.mark.parametrize("size", [12_000, 200_000])
async def test_a_long_text_of_an_error_arrives(path: Path, size: int) -> None:
    text = "x" * size
    async with pair(path, allocate_answer=refusing("Unknown", text)) as (_, client):
        for _ in range(10):  # by default, texts of some lengths arrive sometimes
            failure = await failure_of(client.allocate((G1,)))
            assert (failure.code, failure.detail) == ("Unknown", text)


async def test_a_method_the_plugin_does_not_have(path: Path) -> None:
    async with serve_grpc(path, []), connected(path) as client:
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,))
    assert failure.value.code == "Unimplemented"


async def test_an_answer_that_cannot_be_read(path: Path) -> None:
    async def garbage(request: bytes, context: object) -> bytes:
        return b"\xff\xff"

    handler = grpc.method_handlers_generic_handler(
        "v1beta1.DevicePlugin", {"Allocate": grpc.unary_unary_rpc_method_handler(garbage)}
    )
    async with serve_grpc(path, [handler]), connected(path) as client:
        with pytest.raises(RpcFailed, match="code = Internal desc = grpc: failed to unmarshal"):
            await client.allocate((G1,))


async def test_a_request_that_cannot_be_read(path: Path) -> None:
    async with fake_plugin("example.com/gopher", path), open_raw(path, "/v1beta1.DevicePlugin/Allocate") as call:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(b"\xff\xff")
    assert failure.value.code() is grpc.StatusCode.INTERNAL
    assert (failure.value.details() or "").startswith("grpc: error unmarshalling request")


async def test_a_call_has_a_deadline(path: Path) -> None:
    async with pair(path, allocate_answer=hang) as (_, client):
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,), timeout_s=0.05)
    assert str(failure.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def test_nobody_there(path: Path) -> None:
    client = PluginClient(path)
    with pytest.raises(RpcFailed) as failure:
        await client.options(timeout_s=DEADLINE_S)
    await client.close()
    assert failure.value.code == "Unavailable"


async def test_nobody_to_connect_to(path: Path) -> None:
    client = PluginClient(path)
    with pytest.raises(TimeoutError):
        await client.connect(0.05)
    await client.close()


async def test_a_server_that_goes_away_fails_what_is_under_way(path: Path) -> None:
    started = asyncio.Event()

    async def hang_after_start(_: Sequence[DeviceId]) -> ContainerEdits:
        started.set()
        return await hang()

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        async with fake_plugin("example.com/gopher", path, [Device(G1)]) as plugin:
            plugin.allocate_answer = hang_after_start
            client = PluginClient(path)
            lists = client.lists()
            await anext(lists)
            call = tasks.create_task(failure_of(client.allocate((G1,))))
            await started.wait()
        assert (await call).code in {"Unavailable", "Canceled"}
        assert (await failure_of(anext(lists))).code in {"Unavailable", "Canceled"}
        assert (await failure_of(client.options(timeout_s=DEADLINE_S))).code == "Unavailable"
        await client.close()


async def test_closing_the_connection_fails_calls_without_cancelling_their_tasks(path: Path) -> None:
    started = asyncio.Event()

    async def hang_after_start(_: Sequence[DeviceId]) -> ContainerEdits:
        started.set()
        return await hang()

    async with asyncio.timeout(DEADLINE_S), pair(path, allocate_answer=hang_after_start) as (_, client):
        lists = client.lists()
        await anext(lists)
        async with asyncio.TaskGroup() as tasks:
            failures = [tasks.create_task(failure_of(call)) for call in (client.allocate((G1,)), anext(lists))]
            await started.wait()
            await client.close()
        assert [task.result().code for task in failures] == ["Canceled", "Canceled"]
        assert (await failure_of(client.options())).code == "Canceled"  # and so does what comes later


async def test_a_cancelled_caller_stays_cancelled(path: Path) -> None:
    started = asyncio.Event()

    async def hang_after_start(_: Sequence[DeviceId]) -> ContainerEdits:
        started.set()
        return await hang()

    async with asyncio.timeout(DEADLINE_S), pair(path, allocate_answer=hang_after_start) as (_, client):
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(client.allocate((G1,)))
            await started.wait()
            call.cancel()
        assert call.cancelled()


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
    async with serve_grpc(path, [device_plugin_handler(plugin)]), connected(path) as client:
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
    handler = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {"ListAndWatch": stream})
    async with serve_grpc(path, [handler]), connected(path) as client:
        assert len([update async for update in client.lists()]) == 2


# --- paths and sizes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a b.sock", "100%.sock", "%20.sock", "é.sock", "a:b#c?d.sock", b"\xff.sock"], ids=repr
)
async def test_any_file_name_can_be_a_socket(sockets: Path, name: str | bytes) -> None:
    path = sockets / (name if isinstance(name, str) else name.decode(errors="surrogateescape"))
    async with pair(path) as (_, client):
        assert path.is_socket()
        assert await client.options() == PluginOptions()
    assert not path.exists()


async def test_the_longest_path(sockets: Path) -> None:
    path = sockets / ("s" * (MAX_SOCKET_PATH_BYTES - len(bytes(sockets)) - 1))
    async with pair(path) as (_, client):
        assert await client.options() == PluginOptions()


async def test_a_longer_path_is_refused(sockets: Path) -> None:
    path = sockets / ("s" * (MAX_SOCKET_PATH_BYTES - len(bytes(sockets))))
    with pytest.raises(PathTooLong, match="108 bytes"):
        async with serve_grpc(path, []):
            pass


async def test_a_missing_directory_is_named(sockets: Path) -> None:
    with pytest.raises(PathUnusable, match=r"missing: cannot make a socket here: No such file or directory"):
        async with serve_grpc(sockets / "missing" / "x.sock", []):
            pass


async def test_a_stale_socket_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with pair(path) as (_, client):
        assert await client.options() == PluginOptions()


async def test_a_message_of_four_mebibytes_passes(path: Path) -> None:
    async with pair(path) as (plugin, client):
        lists = client.lists()
        await anext(lists)
        plugin.send_raw(padded_list(MAX_MESSAGE_BYTES))
        assert [device.id for device in (await anext(lists)).devices] == [G2]


async def test_a_larger_list_ends_the_stream(path: Path) -> None:
    async with pair(path) as (plugin, client):
        lists = client.lists()
        await anext(lists)
        plugin.send_raw(padded_list(MAX_MESSAGE_BYTES + 1))
        text = f"grpc: received message larger than max ({MAX_MESSAGE_BYTES + 1} vs. {MAX_MESSAGE_BYTES})"
        assert str(await failure_of(anext(lists))) == f"rpc error: code = ResourceExhausted desc = {text}"


async def test_a_larger_request_is_refused(path: Path) -> None:
    async with fake_plugin("example.com/gopher", path), open_raw(path, "/v1beta1.DevicePlugin/Allocate") as call:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(bytes(MAX_MESSAGE_BYTES + 1))
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def padded_list(size: int) -> bytes:
    """A list of ``size`` bytes with the device g2; the rest is a field nobody knows."""
    devices = encode_devices([Device(G2)])
    filling = size - len(devices) - 2 - 4
    length = bytes([filling & 0x7F | 0x80, filling >> 7 & 0x7F | 0x80, filling >> 14 & 0x7F | 0x80, filling >> 21])
    return devices + b"\xfa\x3f" + length + bytes(filling)


@asynccontextmanager
async def open_raw(path: Path, method: str) -> AsyncIterator[Callable[[bytes], Awaitable[bytes]]]:
    """A call that sends and receives bytes."""
    channel = open_channel(path)
    try:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        yield call
    finally:
        await channel.close()


async def failure_of(call: Awaitable[object]) -> RpcFailed:
    try:
        answer = await call
    except RpcFailed as failure:
        return failure
    raise AssertionError(f"did not fail: {answer}")


async def hang(*_: object) -> ContainerEdits:
    await asyncio.Event().wait()
    raise AssertionError("never set")
