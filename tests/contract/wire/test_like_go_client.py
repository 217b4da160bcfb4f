"""What callers see of odd servers: the same as callers of grpc-go 1.81.1, with which each case was recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.errors import RpcFailed
from plugbay.wire.calls import call
from plugbay.wire.generated.deviceplugin_v1beta1_pb2 import AllocateRequest, AllocateResponse
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.http2 import frames
from plugbay.wire.http2.frames import END_STREAM, HEAD, frame
from tests.contract.rigs.wire import DEADLINE_S, path

__all__ = ["path"]

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "wire" / "grpc-go-client.json"
CASES: Final[list[dict[str, Any]]] = json.loads(GOLDEN.read_text())
CALL_S: Final = DEADLINE_S / 2

MALFORMED: Final = ("INTERNAL", "received invalid frame")
CUT_OFF: Final = ("INTERNAL", "unexpected EOF")


def fault(code: str) -> tuple[str, str]:
    return "UNAVAILABLE", f"error reading from server: connection error: {code} ("


STRICTER: Final = {
    "no-http-status": MALFORMED,
    "http-status-abc-grpc": MALFORMED,
    "connection-header": MALFORMED,
    "pseudo-in-trailers": MALFORMED,
    "data-before-headers": MALFORMED,
    "content-length-wrong": MALFORMED,
    "window-over-stream": MALFORMED,
    "push-promise": fault("PROTOCOL_ERROR"),
    "headers-on-unopened": fault("PROTOCOL_ERROR"),
    "headers-even": fault("PROTOCOL_ERROR"),
    "rst-on-unopened": fault("PROTOCOL_ERROR"),
    "short-prefix-ok": CUT_OFF,
    "short-prefix-error": CUT_OFF,
    "two-messages-second-short": CUT_OFF,
}
"""Servers that break RFC 9113, or end within a message, which grpc-go does not notice."""
LESS_DETAIL: Final = {
    "no-http-status-no-type": MALFORMED,
    "http-status-abc": MALFORMED,
    "http-status-20": MALFORMED,
    "http-100-end": MALFORMED,
    "second-headers": MALFORMED,
    "trailers-without-end": MALFORMED,
    "upper-case": MALFORMED,
    "bad-value": MALFORMED,
    "pseudo-after": MALFORMED,
    "pseudo-unknown": MALFORMED,
    "two-http-statuses": MALFORMED,
    "request-pseudo": MALFORMED,
    "data-end-before-headers": MALFORMED,
}
MORE_DETAIL: Final = {
    "window-zero-connection": fault("PROTOCOL_ERROR"),
    "data-on-zero": fault("PROTOCOL_ERROR"),
    "bad-hpack": fault("COMPRESSION_ERROR"),
    "continuation-alone": fault("PROTOCOL_ERROR"),
    "settings-bad-length": fault("FRAME_SIZE_ERROR"),
    "bad-protobuf": ("INTERNAL", "grpc: failed to unmarshal the received message: "),
}
OF_NO_USE: Final = {
    "status-1-99": ("UNKNOWN", "m"),
    "status-2--1": ("UNKNOWN", "m"),
    "status-10-17": ("UNKNOWN", "m"),
    "bad-status-in-headers": ("OK", ""),
    "bin-bad": ("OK", ""),
    "bin-bad-trailer": ("NOT_FOUND", "e"),
    "http-418": ("UNKNOWN", "unexpected HTTP status code received from server: 418 ("),
}
"""Codes without a name, and headers that no call here looks at."""
OTHER: Final = STRICTER | LESS_DETAIL | MORE_DETAIL | OF_NO_USE


@asynccontextmanager
async def odd_server(path: Path, case: dict[str, Any]) -> AsyncIterator[None]:
    """A server that answers each request with what the case sends."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(frame(frames.SETTINGS, 0, 0, bytes.fromhex(case.get("settings", ""))))
            await reader.readexactly(len(frames.PREFACE))
            while True:
                word, flags, stream = HEAD.unpack(await reader.readexactly(HEAD.size))
                await reader.readexactly(word >> 8)
                if word & 0xFF == frames.DATA and flags & END_STREAM:
                    writer.write(on_stream(bytes.fromhex(case["sends"]), stream))
                    await writer.drain()
                    if case["then"] == "close":
                        writer.write_eof()
                        await reader.read()
                        return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            closed.set()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        server.close()
        async with asyncio.timeout(DEADLINE_S):
            await closed.wait()
            await server.wait_closed()


def on_stream(recorded: bytes, stream: int) -> bytes:
    """``recorded`` on stream 1, sent on another one; its last frame may not be all there."""
    sent, at = b"", 0
    while len(recorded) - at >= HEAD.size:
        word, flags, number = HEAD.unpack_from(recorded, at)
        stop = at + HEAD.size + (word >> 8)
        sent += HEAD.pack(word, flags, stream + number - 1 if number else 0) + recorded[at + HEAD.size : stop]
        at = stop
    return sent + recorded[at:]


def assert_like(case: dict[str, Any], kind: str, code: str, text: str) -> None:
    name = case["case"]
    if name not in OTHER:
        assert (code, text.replace("\xa0", " ")) == tuple(case[kind][:2])
        return
    expected = OTHER[name]
    assert code == expected[0]
    assert text.startswith(expected[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
async def test_a_unary_call(path: Path, case: dict[str, Any]) -> None:
    async with asyncio.timeout(DEADLINE_S), odd_server(path, case):
        channel = Channel(path)
        code, text = "OK", ""
        try:
            await call(channel, "/v1beta1.DevicePlugin/Allocate", AllocateRequest(), AllocateResponse, timeout_s=CALL_S)
        except RpcFailed as failure:
            code, text = failure.code.name, failure.detail
        await channel.close()
    assert_like(case, "unary", code, text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
async def test_a_stream(path: Path, case: dict[str, Any]) -> None:
    messages: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S), odd_server(path, case):
        channel = Channel(path)
        code, text = "OK", ""
        try:
            async for message in channel.stream("/v1beta1.DevicePlugin/ListAndWatch", b"", timeout_s=CALL_S):
                messages.append(message)
        except RpcFailed as failure:
            code, text = failure.code.name, failure.detail
        await channel.close()
    if case["case"] == "bad-protobuf":  # the stream's reader parses
        assert (code, len(messages)) == ("OK", 1)
        return
    assert_like(case, "stream", code, text)
    if case["case"] not in OTHER:
        assert len(messages) == case["stream"][2]
