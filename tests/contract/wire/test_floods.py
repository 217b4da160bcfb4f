"""Peers on our sockets that send far too much, read nothing, or break off: what others ask goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.wire.device_list import DeviceListReader
from plugbay.wire.newest import newest
from tests.contract.rigs.manager import OTHER, bench, container, listed, pod, rejection
from tests.contract.rigs.raw_http2 import call, call_and_reset, open_connection
from tests.contract.rigs.wire import G1, pair, path

__all__ = ["path"]

DEADLINE_S = 30
LIST = "/v1beta1.DevicePlugin/ListAndWatch"
ALLOCATE = "/v1beta1.DevicePlugin/Allocate"
FLOOD = 5_000
LISTS = 1_000
NOT_UTF8 = b"\x0a\x03\x0a\x01\xff"


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What goes only with the garbage stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_calls_that_are_reset_do_not_cancel_those_of_others(path: Path) -> None:
    async def reset() -> None:
        writer = await open_connection(path)
        with contextlib.suppress(ConnectionError):
            for number in range(FLOOD):
                writer.write(call_and_reset(ALLOCATE, number))
                if number % 500 == 0:
                    await writer.drain()
            await writer.drain()
        writer.transport.abort()

    async with asyncio.timeout(DEADLINE_S), pair(path) as (_, client):
        flood = asyncio.gather(*[reset() for _ in range(3)])
        for _ in range(20):
            assert await client.allocate([G1]) is not None
        await flood


async def test_allocate_cancelled_by_a_plugin_that_is_there_is_made_again_once(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        calls = 0

        async def cancel_first(devices: Sequence[DeviceId]) -> ContainerEdits:
            nonlocal calls
            calls += 1
            if calls != 2:
                raise RpcFailed(RpcCode.CANCELLED, "CANCELLED")
            return ContainerEdits(env={"CALL": str(calls)})

        plugin.allocate_answer = cancel_first
        await b.admit(pod("p"))
        assert b.edits("p") == ContainerEdits(env={"CALL": "2"})
        assert "code = Canceled" in await rejection(b.manager, pod("q"))
        assert calls == 4


async def test_list_that_cannot_be_read_ends_the_connection_at_once(sockets: Path, no_collector: None) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        plugin.send_raw(NOT_UTF8)
        await b.counts(1, 0)
        async with asyncio.timeout(DEADLINE_S):
            await plugin.until_unwatched()
            while connections_at(plugin.socket):  # noqa: ASYNC110  # the kernel tells nobody
                await asyncio.sleep(0.01)


def connections_at(socket: Path) -> int:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {socket}") and line.split()[5] == "03" for line in lines)


async def test_stalled_watchers_that_go_leave_nothing_in_the_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def devices(number: int) -> list[Device]:
        return [Device(f"device-{number}-{each}") for each in range(2000)]

    async with asyncio.timeout(DEADLINE_S), pair(path) as (plugin, client):
        writers = [await open_connection(path) for _ in range(5)]
        for writer in writers:
            writer.write(call(LIST))
        lists = client.lists()
        await anext(lists)
        while plugin.calls.count("ListAndWatch") <= len(writers):  # noqa: ASYNC110  # a stream is told to nobody
            await asyncio.sleep(0.01)
        for number in range(10):
            plugin.send(devices(number))
        async for update in lists:
            if len(update.devices) == 2000 and update.devices[0].id == "device-9-0":
                break
        await lists.aclose()
        for writer in writers:
            writer.transport.abort()
        await plugin.until_unwatched()
    assert caplog.records == []


async def test_others_are_served_beside_a_plugin_that_sends_lists_without_a_pause(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def count(reader: DeviceListReader, message: bytes) -> Any:
        read.append(message)
        return read_list(reader, message)

    read_list = DeviceListReader.read
    monkeypatch.setattr(DeviceListReader, "read", count)
    async with asyncio.timeout(DEADLINE_S), bench(sockets) as b:
        flooding = await b.plugin("a")
        await b.plugin("x", resource=OTHER)
        for number in range(LISTS):
            flooding.send(listed([f"device-{number}"]))
        flooding.send(listed(["a", "b", "last"]))
        await b.admit(pod("p", container("app", other=1)))
        await b.counts(3, 3)
    assert len(read) < LISTS / 2, "lists that newer ones have overtaken cost nobody time"


async def numbers(until: int) -> AsyncGenerator[bytes, None]:
    for number in range(until):
        yield str(number).encode()
        await asyncio.sleep(0)
    raise RpcFailed(RpcCode.UNAVAILABLE, "gone")


async def read_slowly(messages: AsyncGenerator[bytes, None], read: list[int]) -> None:
    async for message in newest(messages):
        read.append(int(message))
        await asyncio.sleep(0.01)


async def test_messages_that_the_reader_had_no_time_for_are_left_out() -> None:
    read: list[int] = []
    with pytest.raises(RpcFailed, match="gone"):
        await read_slowly(numbers(1000), read)
    assert (read[0], read[-1]) == (0, 999)
    assert read == sorted(set(read))
    assert len(read) < 100


async def test_few_messages_are_all_read_without_delay() -> None:
    read: list[int] = []
    began = asyncio.get_running_loop().time()
    with pytest.raises(RpcFailed, match="gone"):
        await read_slowly(numbers(8), read)
    assert read == list(range(8))
    assert asyncio.get_running_loop().time() - began < 5
