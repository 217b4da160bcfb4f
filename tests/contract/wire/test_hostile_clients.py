"""Clients that mean harm, on a server in a process of its own: each is hung up on with the right code and costs little.

Others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pytest

from tests.contract.rigs.grpc_process import DEADLINE_S, GrpcProcess, grpc_process
from tests.contract.rigs.raw_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    HEADERS,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    block,
    call_on,
    data,
    frame,
    headers,
    raw_client,
    request_block,
    reset,
    settings,
    widen,
)

MOST: Final = 30_000
"""So many pieces of a flood, which is to be over long before."""
COMPRESSION_ERROR: Final = 9


class Flood(NamedTuple):
    """Bytes without an end, after ``first``."""

    endless: Callable[[int], bytes]
    """Given an odd number that rises."""
    first: bytes = b""
    code: int = ENHANCE_YOUR_CALM


def again(sent: bytes) -> Callable[[int], bytes]:
    return lambda _: sent


HPACK_BOMB: Final = b"\x40\x01x" + b"\x7f" + bytes((0xA1, 0x1E)) + b"y" * 4000
"""A field of 4,000 bytes for the table; 0xbe names it again."""
OPEN: Final = headers(1)
FLOODS: Final = {
    "CVE-2023-44487 rapid reset": Flood(lambda number: headers(number) + reset(number)),
    "CVE-2023-44487 rapid reset of running methods": Flood(
        lambda number: call_on(number, "/rig.Rig/Hang") + reset(number)
    ),
    "CVE-2023-44487 streams above the limit": Flood(lambda number: headers(number)),
    "CVE-2025-8671 made you reset by WINDOW_UPDATE 0": Flood(lambda number: headers(number) + widen(number, 0)),
    "CVE-2025-8671 made you reset by a window over 2^31-1": Flood(
        lambda number: headers(number) + widen(number, 2**31 - 1)
    ),
    "CVE-2025-8671 made you reset by DATA after the end": Flood(
        lambda number: call_on(number, "/rig.Rig/Hang") + data(number, b"x")
    ),
    "CVE-2025-8671 made you reset by PRIORITY of no size": Flood(
        lambda number: headers(number) + frame(PRIORITY, 0, number, b"")
    ),
    "CVE-2019-9514 malformed requests": Flood(
        lambda number: frame(HEADERS, END_HEADERS, number, block([("X-UP", "x")]))
    ),
    "CVE-2019-9516 fields without names": Flood(
        lambda number: frame(HEADERS, END_HEADERS, number, request_block("/rig.Rig/Echo") + b"\0\0\0" * 10)
    ),
    "CVE-2024-27316 CONTINUATION without content": Flood(
        again(frame(CONTINUATION, 0, 1, b"")), frame(HEADERS, 0, 1, b"\0")
    ),
    "CVE-2024-27316 CONTINUATION of a byte": Flood(
        again(frame(CONTINUATION, 0, 1, b"x")), frame(HEADERS, 0, 1, b"\0\x7f\xff\x7f")
    ),
    "CVE-2024-27316 CONTINUATION of 16 KiB": Flood(
        again(frame(CONTINUATION, 0, 1, bytes(16_384))), frame(HEADERS, 0, 1, b"\0")
    ),
    "CVE-2019-9515 SETTINGS": Flood(again(settings())),
    "CVE-2019-9515 SETTINGS with values": Flood(again(settings((4, 1), (4, 65_535)))),
    "CVE-2019-9515 SETTINGS with ACK": Flood(again(frame(SETTINGS, ACK, 0, b""))),
    "CVE-2019-9512 PING": Flood(again(frame(PING, 0, 0, bytes(8)))),
    "CVE-2019-9512 PING with ACK": Flood(again(frame(PING, ACK, 0, bytes(8)))),
    "CVE-2019-9518 DATA without content": Flood(again(data(1, b"")), OPEN),
    "CVE-2019-9518 DATA of padding": Flood(again(frame(DATA, 8, 1, b"\x05" + bytes(5))), OPEN),
    "CVE-2019-9513 PRIORITY": Flood(again(frame(PRIORITY, 0, 1, b"\0\0\0\3\x10")), OPEN),
    "CVE-2019-9513 PRIORITY of idle streams": Flood(lambda n: frame(PRIORITY, 0, n, b"\0\0\0\0\x10")),
    "RFC 9113 10.5 WINDOW_UPDATE of the connection": Flood(again(widen(0, 1))),
    "RFC 9113 10.5 WINDOW_UPDATE of a stream": Flood(again(widen(1, 1)), OPEN),
    "RFC 9113 10.5 frames that nobody knows": Flood(again(frame(0xFA, 0, 1, b"x"))),
    "CVE-2019-9511 dribble by WINDOW_UPDATE": Flood(
        again(widen(1, 1)), settings((4, 0)) + call_on(1, "/rig.Rig/Zeros", b"1000000")
    ),
    "CVE-2019-9511 dribble by SETTINGS on all streams": Flood(
        lambda number: settings((4, number)),
        settings((4, 0)) + b"".join(call_on(number, "/rig.Rig/Zeros", b"20000") for number in range(1, 200, 2)),
    ),
    "CVE-2016-6581 HPACK bomb": Flood(
        again(b""),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, request_block("/rig.Rig/Echo") + HPACK_BOMB)
        + frame(HEADERS, END_HEADERS, 3, request_block("/rig.Rig/Echo") + b"\xbe" * 10_000),
    ),
    "CVE-2016-1544 HPACK bomb of very many fields": Flood(
        again(b""), frame(HEADERS, END_HEADERS, 1, request_block("/rig.Rig/Echo") + b"\x90" * 10_000)
    ),
    "CVE-2020-11080 SETTINGS with very many values": Flood(again(b""), settings(*[(4, 65_535)] * 2000)),
    "RFC 9113 10.5.1 headers of 256 KiB": Flood(again(b""), frame(HEADERS, END_HEADERS, 1, bytes(256 * 1024))),
    "RFC 7541 5.1 a number without an end": Flood(
        again(b""), frame(HEADERS, END_HEADERS, 1, b"\xff" * 10_000), COMPRESSION_ERROR
    ),
    "RFC 9113 3.4 another protocol": Flood(again(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), b"", PROTOCOL_ERROR),
}


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcProcess]:
    with grpc_process() as server:
        yield server


@pytest.mark.parametrize("flood", [pytest.param(flood, id=name) for name, flood in FLOODS.items()])
async def test_a_flood_ends_the_connection(server: GrpcProcess, flood: Flood) -> None:
    async with (
        asyncio.timeout(DEADLINE_S),
        server.abused(most_mib=12),
        raw_client(server.path, greets=flood.code != PROTOCOL_ERROR) as peer,
    ):
        goodbye = await peer.flood(itertools.chain([flood.first], together(flood.endless)))
        assert goodbye is not None, "hung up without a word"
        assert goodbye.code == flood.code, goodbye.text


def together(endless: Callable[[int], bytes]) -> Iterable[bytes]:
    """Several at a time, as a peer in a hurry writes them."""
    for first in range(1, 2 * MOST, 200):
        yield b"".join(endless(number) for number in range(first, first + 200, 2))


async def test_cve_2023_44487_from_ten_connections(server: GrpcProcess) -> None:
    async def abuse() -> None:
        async with raw_client(server.path) as peer:
            goodbye = await peer.flood(together(lambda number: call_on(number, "/rig.Rig/Hang") + reset(number)))
            assert goodbye is not None
            assert goodbye.code == ENHANCE_YOUR_CALM

    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=16, most_cpu_s=3), asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(abuse())


async def test_cve_2023_44487_methods_that_end_slowly_count_as_long_as_they_run(server: GrpcProcess) -> None:
    numbers = range(1, 200, 2)
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=8), raw_client(server.path) as peer:
        await peer.send(b"".join(call_on(number, "/rig.Rig/Linger") for number in numbers))
        await peer.send(frame(PING, 0, 0, bytes(8)))
        await peer.until(PING, flags=ACK)
        await asyncio.sleep(0.05)
        await peer.send(b"".join(reset(number) for number in numbers))
        await peer.send(call_on(201, "/rig.Rig/Echo"))
        assert (await peer.until(RST_STREAM)).code == REFUSED_STREAM
        for number in itertools.count(203, 2):
            await peer.send(call_on(number, "/rig.Rig/Echo"))
            answer = await anext(each async for each in peer.frames() if each.kind in {DATA, RST_STREAM})
            if answer.kind == DATA:
                break
            await asyncio.sleep(0.05)


async def test_rfc_9113_6_7_pings_at_a_slow_rate_are_answered(server: GrpcProcess) -> None:
    async with asyncio.timeout(DEADLINE_S), server.abused(most_mib=8), raw_client(server.path) as peer:
        for number in range(100):
            await peer.send(frame(PING, 0, 0, struct.pack(">Q", number)))
            assert (await peer.until(PING, flags=ACK)).payload == struct.pack(">Q", number)
