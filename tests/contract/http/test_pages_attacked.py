"""The pages of a process whose readers are hostile: what the process is for goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from plugbay import Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.ops.clock import SystemClock
from plugbay.ops.http import serve_http
from plugbay.ops.http_limits import PAGES, Limits
from plugbay.ops.listening import Address, TcpAddress, UnixAddress
from plugbay.ops.metrics import Metric
from plugbay.ops.pages import Pages, serve_pages
from plugbay.sdk.process.pages import PluginPages
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.http_pages import LOOPBACK, page, page_once
from tests.contract.rigs.http_requests import Site, connect, path
from tests.contract.rigs.loop_time import HELD_S, loop_time

__all__ = ["path"]

NAME = "example.com/thing"
Answer = TypeVar("Answer")
DEADLINE_S = 30
_HEAD = b"HEAD /status HTTP/1.1\r\nHost: h\r\n\r\n"
_CHUNKED = b"GET /status HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


class Many(DevicePlugin):
    """A plugin with so many devices that its status takes a while to make."""

    resource_name = NAME

    def discover(self) -> Iterable[Device]:
        return [Device(f"device-{number}") for number in range(2000)]


@asynccontextmanager
async def attacked(sockets: Path) -> AsyncIterator[tuple[RegisteredPlugin, Address]]:
    """A plugin that a kubelet has registered, and the address of its pages."""
    paths = KubeletPaths(sockets)
    pages = PluginPages(SystemClock(), version="1", proc=Path("/proc/self"))
    async with (
        asyncio.timeout(DEADLINE_S),
        fake_kubelet(paths) as kubelet,
        serve_pages(pages.pages(), LOOPBACK) as at,
        watching() as watches,
    ):
        roster = Roster(lambda plugin: PluginServer(plugin, paths), watches)
        async with roster.serving([Many()]):
            pages.roster = roster
            await page_once(at, "/readyz", 200)
            yield await kubelet.next_registration(), at


async def allocate_during(attack: asyncio.Future[list[Answer]], plugin: RegisteredPlugin) -> None:
    """Every Allocate while the attack lasts takes little of the loop's time, whatever else the loop does meanwhile."""
    async with loop_time() as held:
        while True:
            is_over = attack.done()
            began = time.thread_time()
            await plugin.client.allocate([DeviceId("device-7")])
            assert time.thread_time() - began < HELD_S
            if is_over:
                break
    assert held.longest_s < HELD_S


def client(at: Address) -> socket.socket:
    assert isinstance(at, TcpAddress)
    return socket.create_connection((at.host, at.port), timeout=DEADLINE_S)


def send_and_wait(at: Address, *sent: bytes) -> bytes:
    """What a client gets that sends all this at once, until the server closes the connection."""
    with client(at) as connection:
        try:
            for each in sent:
                connection.sendall(each)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server has heard enough
        return b"".join(received(connection))


def received(connection: socket.socket) -> Iterator[bytes]:
    try:
        while part := connection.recv(65536):
            yield part
    except ConnectionError:
        return


async def test_allocates_go_on_beside_a_thousand_pipelined_requests(sockets: Path) -> None:
    async with attacked(sockets) as (plugin, at):
        attack = asyncio.gather(*[asyncio.to_thread(send_and_wait, at, _HEAD * 1900) for _ in range(2)])
        await allocate_during(attack, plugin)
        for answers in await attack:
            assert answers.count(b"HTTP/1.1 200") <= PAGES.requests


async def test_allocates_go_on_beside_bodies_in_chunks_of_a_byte(sockets: Path) -> None:
    async with attacked(sockets) as (plugin, at):
        body = b"1\r\nx\r\n" * 200_000
        attack = asyncio.gather(*[asyncio.to_thread(send_and_wait, at, _CHUNKED, body) for _ in range(2)])
        await allocate_during(attack, plugin)


async def test_allocates_go_on_beside_requests_in_bytes(sockets: Path) -> None:
    def trickle(at: Address) -> None:
        with client(at) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in b"GET /status HTTP/1.1\r\nX: " + b"x" * 2000:
                connection.send(bytes([byte]))

    async with attacked(sockets) as (plugin, at):
        await allocate_during(asyncio.gather(*[asyncio.to_thread(trickle, at) for _ in range(4)]), plugin)


async def test_idle_connections_make_room_for_a_probe(sockets: Path) -> None:
    async with attacked(sockets) as (plugin, at):
        with ExitStack() as held:
            idle = [held.enter_context(client(at)) for _ in range(PAGES.connections + 10)]
            assert (await page(at, "/healthz")).status == 200
            assert await asyncio.to_thread(idle[0].recv, 1) == b"", "the oldest one was kept"
            await plugin.client.allocate([DeviceId("device-7")])


async def test_clients_that_read_nothing_make_room_for_a_probe(sockets: Path) -> None:
    async with attacked(sockets) as (plugin, at):
        with ExitStack() as held:
            for _ in range(PAGES.connections):
                held.enter_context(client(at)).sendall(b"GET /status HTTP/1.1\r\nHost: h\r\n\r\n" * 8)
            assert (await page(at, "/healthz")).status == 200
            await plugin.client.allocate([DeviceId("device-7")])


async def test_announced_body_is_refused_before_it_comes() -> None:
    async with asyncio.timeout(DEADLINE_S), serve_pages(Pages(list, {}, list, dict), LOOPBACK) as at:
        request = b"GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n"
        assert (await asyncio.to_thread(send_and_wait, at, request)).startswith(b"HTTP/1.1 413")


@contextmanager
def few_descriptors_left(count: int) -> Iterator[None]:
    """Until the block ends this process can open ``count`` more, or less."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + count, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


async def test_without_descriptors_idle_clients_go_and_one_line_tells(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        with ExitStack() as held:
            idle = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(30)]
            late = held.enter_context(socket.socket(socket.AF_UNIX))
            late.settimeout(DEADLINE_S)
            with few_descriptors_left(10):
                for each in (*idle, late):
                    each.connect(str(path))
                late.sendall(b"GET /echo/1/log HTTP/1.1\r\nHost: h\r\n\r\n")
                answer = await asyncio.to_thread(late.recv, 100)
                assert answer.startswith(b"HTTP/1.1 200")
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage().startswith("cannot accept an HTTP client: Too many open files; idle clients are")
    assert all(record.exc_info is None for record in caplog.records)


async def test_page_is_made_once_for_all_who_ask_for_it_at_a_time() -> None:
    made = 0

    def metrics() -> list[Metric]:
        nonlocal made
        made += 1
        return []

    async with asyncio.timeout(DEADLINE_S), serve_pages(Pages(metrics, {}, list, dict), LOOPBACK, max_age_s=60) as at:
        await asyncio.gather(*[page(at, "/metrics") for _ in range(10)])
    assert made == 1


async def test_control_socket_is_not_held_by_chunks_of_a_byte(path: Path) -> None:
    limits = Limits(read_s=0.2)
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path), limits=limits):
        async with loop_time() as held, await connect(path) as wire:
            wire.say("POST /json HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")
            wire.writer.write(b"1\r\nx\r\n" * 400_000)
            assert (await wire.head())[0] == 408, "the deadline did not cut it off"
        assert held.longest_s < HELD_S


async def test_a_busy_connection_is_not_closed_for_another_client(path: Path) -> None:
    site = Site()
    async with (
        asyncio.timeout(DEADLINE_S),
        serve_http(site.router, UnixAddress(path), limits=Limits(connections=1)),
        await connect(path) as streaming,
    ):
        streaming.say("GET /stream HTTP/1.1", "Host: h")
        await streaming.head()
        async with await connect(path) as waiting:
            waiting.say("GET /echo/1/log HTTP/1.1", "Host: h")
            await site.started.wait()
            site.go_on.set()
            assert b"second" in await streaming.reader.read()
            assert (await waiting.response())[0] == 200
