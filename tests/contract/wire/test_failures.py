"""Our gRPC over real unix sockets, and every way to fail."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import grpc
import pytest

from plugbay.errors import ConflictingEdits, RpcCode, RpcFailed
from plugbay.model.devices import Device, ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin, refusing
from plugbay.wire.device_list import NewList, encode_devices
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.plugin_server import device_plugin_handler
from tests.contract.rigs.wire import DEADLINE_S, G1, connected, failure_of, hang, open_raw, pair, path

__all__ = ["path"]


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK], ids=str)
async def test_a_status_arrives_as_it_was_sent(path: Path, code: grpc.StatusCode) -> None:
    async with pair(path, allocate_answer=refusing(RpcCode[code.name], "no power: 50 %")) as (_, client):
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,))
    assert (failure.value.code, failure.value.detail) == (RpcCode[code.name], "no power: 50 %")


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
        assert (failure.value.code, failure.value.detail) == (RpcCode.UNKNOWN, text)
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
        pytest.param(RpcFailed(RpcCode.ABORTED, "bus reset"), (RpcCode.ABORTED, "bus reset"), id="status"),
        pytest.param(
            ConflictingEdits("m", "k", "a", "b"),
            (RpcCode.UNKNOWN, "two devices disagree about m 'k': a and b"),
            id="ours",
        ),
        pytest.param(OSError("gone"), (RpcCode.UNKNOWN, "OSError: gone"), id="bug"),
    ],
)
async def test_a_stream_that_breaks_has_the_same_status(
    path: Path, error: Exception, status: tuple[RpcCode, str]
) -> None:
    async with serve_grpc(path, [device_plugin_handler(BreakingLists(error))]), connected(PluginClient(path)) as client:
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
    async with pair(path, allocate_answer=refusing(RpcCode.UNKNOWN, text)) as (_, client):
        for _ in range(10):  # by default, texts of some lengths arrive sometimes
            failure = await failure_of(client.allocate((G1,)))
            assert (failure.code, failure.detail) == (RpcCode.UNKNOWN, text)


async def test_a_method_the_plugin_does_not_have(path: Path) -> None:
    async with serve_grpc(path, []), connected(PluginClient(path)) as client:
        with pytest.raises(RpcFailed) as failure:
            await client.allocate((G1,))
    assert failure.value.code is RpcCode.UNIMPLEMENTED


async def test_an_answer_that_cannot_be_read(path: Path) -> None:
    async def garbage(_: bytes) -> bytes:
        return b"\xff\xff"

    async with (
        serve_grpc(path, [Service("v1beta1.DevicePlugin", {"Allocate": Unary(garbage)})]),
        connected(PluginClient(path)) as client,
    ):
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
    dialing = f"dial unix {path}: connect: no such file or directory"
    assert (failure.value.code, failure.value.detail) == (
        RpcCode.UNAVAILABLE,
        f'connection error: desc = "transport: Error while dialing: {dialing}"',
    )


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
        assert (await call).code in {RpcCode.UNAVAILABLE, RpcCode.CANCELLED}
        assert (await failure_of(anext(lists))).code in {RpcCode.UNAVAILABLE, RpcCode.CANCELLED}
        assert (await failure_of(client.options(timeout_s=DEADLINE_S))).code is RpcCode.UNAVAILABLE
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
        assert [task.result().code for task in failures] == [RpcCode.CANCELLED, RpcCode.CANCELLED]
        assert (await failure_of(client.options())).code is RpcCode.CANCELLED  # and so does what comes later


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


async def test_waits_for_the_loss_of_a_connection_that_are_given_up_leave_nothing(path: Path) -> None:
    async with serve_grpc(path, []):
        connection = Channel(path)
        await connection.connect(DEADLINE_S)
        before = _futures()
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await connection.until_lost()
        assert _futures() - before < 5
        waiting = asyncio.ensure_future(connection.until_lost())
        await asyncio.sleep(0)
        await connection.close()
        await asyncio.wait_for(waiting, DEADLINE_S)


def _futures() -> int:
    return sum(isinstance(each, asyncio.Future) for each in gc.get_objects())
