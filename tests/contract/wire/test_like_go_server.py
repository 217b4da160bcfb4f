"""What odd clients are answered: the same as by grpc-go 1.81.1, with which each case was recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.message import DecodeError
from hpack import Decoder

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    Device,
    Empty,
    ListAndWatchResponse,
)
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service
from plugbay.wire.handlers import unary
from plugbay.wire.http2 import frames
from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.frames import ACK, END_HEADERS, END_STREAM, HEAD, frame
from plugbay.wire.http2.header_blocks import encode
from tests.contract.rigs.wire import DEADLINE_S, path

__all__ = ["path"]

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "wire" / "grpc-go-server.json"
CASES: Final[list[dict[str, Any]]] = json.loads(GOLDEN.read_text())
GREETING: Final = frames.PREFACE + frame(frames.SETTINGS, 0, 0, b"") + frame(frames.SETTINGS, ACK, 0, b"")
PING: Final = b"the last"
ROUNDS: Final = 3
"""So many answered PINGs after the last answer show that nothing follows: a task that is to answer has run by then."""
HANDLING_S: Final = 0.3
"""The longest that a method here takes, with room for a slow machine."""

Answer = list[Any]


# --- the service, as the recorded server's --------------------------------------------------------------------------


async def allocate(request: AllocateRequest) -> AllocateResponse:
    first = request.container_requests[0].devices_ids if request.container_requests else []
    what, *words = (first[0] if first else "ok").split(":")
    match what:
        case "error" | "plain":
            raise failure_of(what, words)
        case "nap" | "sleep":
            await asyncio.sleep(min(int(words[0]) / 1000, HANDLING_S / 2))
    return AllocateResponse(container_responses=[ContainerAllocateResponse()])


async def watch(request: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
    what, *words = str(metadata.get("x-behave", "hold:1")).split(":")
    try:
        Empty.FromString(request)
    except Exception as error:
        raise RpcFailed(RpcCode.INTERNAL, "grpc: failed to unmarshal the received message: ") from error
    if what == "error":
        raise failure_of(what, words)
    for number in range(int(words[0])):
        devices = [Device(ID=f"device-{number}", health="Healthy")]
        yield ListAndWatchResponse(devices=devices).SerializeToString()
    if what == "then":
        raise failure_of(words[2], words[3:])
    if what == "hold":
        await asyncio.Event().wait()


def failure_of(what: str, words: list[str]) -> RpcFailed:
    if what == "plain":
        return RpcFailed(RpcCode.UNKNOWN, bytes.fromhex(words[0]).decode())
    return RpcFailed(list(RpcCode)[int(words[0])], bytes.fromhex(words[1]).decode())


SERVICE: Final = Service(
    "v1beta1.DevicePlugin", {"Allocate": unary(AllocateRequest, allocate), "ListAndWatch": ServerStream(watch)}
)


# --- the client -------------------------------------------------------------------------------------------------------


class Conversation:
    """One connection that writes bytes and takes down what is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()

    async def answers(self, sends: bytes, wanted: int) -> tuple[list[Answer], str]:
        """What comes back: so many answers and what follows at once, or all until the connection ends."""
        found: list[Answer] = []
        pings = 0
        try:
            self._writer.write(GREETING + sends)
            while True:
                if len(found) >= wanted and not pings:
                    self._writer.write(frame(frames.PING, 0, 0, PING))
                    pings = 1
                word, flags, stream = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                payload = await self._reader.readexactly(word >> 8)
                if word & 0xFF == frames.PING and payload == PING:
                    if pings == ROUNDS:
                        return found, "open"
                    self._writer.write(frame(frames.PING, 0, 0, PING))
                    pings += 1
                if (answer := self._answer(word & 0xFF, flags, stream, payload)) is not None:
                    found.append(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return found, "closed"

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> Answer | None:
        ends = flags & END_STREAM != 0
        match kind:
            case frames.HEADERS:
                fields = self._decoder.decode(payload, raw=True)
                return ["HEADERS", stream, ends, {name.decode(): value.decode() for name, value in fields}]
            case frames.DATA:
                return ["DATA", stream, ends, payload.hex()]
            case frames.RST_STREAM:
                return ["RST_STREAM", stream, int.from_bytes(payload)]
            case frames.GOAWAY:
                return ["GOAWAY", int.from_bytes(payload[:4]), int.from_bytes(payload[4:8])]
        return None


def tidied(answers: list[Answer]) -> list[Answer]:
    """Without what makes no difference: an empty text, the subtype of the content, and RST_STREAM after the end."""
    kept: list[Answer] = []
    for answer in answers:
        if answer[0] == "HEADERS":
            fields = {name: value for name, value in answer[3].items() if (name, value) != ("grpc-message", "")}
            if fields.get("content-type", "").startswith("application/grpc+"):
                fields["content-type"] = "application/grpc"
            kept.append([*answer[:3], fields])
        elif answer[0] != "RST_STREAM" or answer[2] != ErrorCode.NO_ERROR:
            kept.append(answer)
    return kept


# --- where ours differ ------------------------------------------------------------------------------------------------


def status(number: int, text: str) -> list[Answer]:
    fields = {":status": "200", "content-type": "application/grpc", "grpc-status": str(number), "grpc-message": text}
    return [["HEADERS", 1, True, fields]]


def unreadable(request: bytes) -> list[Answer]:
    """The refusal of an AllocateRequest: protobuf's own words, which every version chooses anew."""
    with pytest.raises(DecodeError) as problem:
        AllocateRequest.FromString(request)
    return status(13, f"grpc: error unmarshalling request: {problem.value}")


def reset(code: ErrorCode) -> list[Answer]:
    return [["RST_STREAM", 1, int(code)]]


def goaway(code: ErrorCode, last: int = 0) -> list[Answer]:
    return [["GOAWAY", last, int(code)]]


OK: Final[list[Answer]] = [
    ["HEADERS", 1, False, {":status": "200", "content-type": "application/grpc"}],
    ["DATA", 1, False, "00000000020a00"],
    ["HEADERS", 1, True, {"grpc-status": "0"}],
]
MALFORMED: Final = reset(ErrorCode.PROTOCOL_ERROR)
FAULT: Final = goaway(ErrorCode.PROTOCOL_ERROR)
WRONG_SIZE: Final = goaway(ErrorCode.FRAME_SIZE_ERROR)
NO_REQUEST: Final = status(13, "cardinality violation: received no request message from non-client-streaming RPC")
TWO_REQUESTS: Final = status(
    13, "cardinality violation: received multiple request messages for non-client-streaming RPC"
)
CUT_OFF: Final = status(13, "unexpected EOF")

STRICTER: Final[dict[str, list[Answer]]] = {
    **dict.fromkeys(("path-0", "no-method", "no-scheme", "no-path", "te-gzip", "keep-alive"), MALFORMED),
    **dict.fromkeys(("transfer-encoding", "content-length-wrong"), MALFORMED),
    **dict.fromkeys(("data-idle", "rst-idle", "window-idle", "push", "settings-push-2", "settings-frame-small"), FAULT),
    "window-over-conn": goaway(ErrorCode.FLOW_CONTROL_ERROR),
    "window-over-stream": reset(ErrorCode.FLOW_CONTROL_ERROR),
    "no-message-headers-end": NO_REQUEST,
    "no-message-stream": NO_REQUEST,
    "two-messages": TWO_REQUESTS,
    "trailing-bytes": CUT_OFF,
    "trailing-bytes-stream": CUT_OFF,
}
"""Clients that break RFC 9113 or gRPC, which grpc-go does not notice, or never answers."""
MILDER: Final[dict[str, list[Answer]]] = {
    **dict.fromkeys(("two-hosts", "bad-value", "two-timeouts-bad-first"), OK),
    **dict.fromkeys(("bin-0", "bin-1", "bin-2", "bin-3", "bin-4", "bin-5"), OK),
    "trailers-no-end": MALFORMED,
    "headers-after-end": reset(ErrorCode.STREAM_CLOSED),
    "reused-stream": reset(ErrorCode.STREAM_CLOSED),
    "settings-headers-small": status(5, ""),
}
"""Headers that no method here looks at; errors of one stream, for which grpc-go ends the connection; a text is cut that
the client says is too long, and the status arrives."""
WITH_GOAWAY: Final[dict[str, list[Answer]]] = {
    **dict.fromkeys(("window-zero-conn", "settings-stream", "goaway-stream", "continuation-alone"), FAULT),
    **dict.fromkeys(("headers-interrupted", "continuation-other"), FAULT),
    **dict.fromkeys(("settings-ack-payload", "settings-short"), WRONG_SIZE),
    "settings-window-big": goaway(ErrorCode.FLOW_CONTROL_ERROR),
    "bad-hpack": goaway(ErrorCode.COMPRESSION_ERROR),
}
"""grpc-go closes the connection without a word."""
NOT_PROTOBUF: Final = b"\xff\xff"
NOT_UTF8: Final = b"\x0a\x03\x0a\x01\xff"
IN_OTHER_WORDS: Final[dict[str, list[Answer]]] = {
    "bad-protobuf": unreadable(NOT_PROTOBUF),
    "bad-utf8": unreadable(NOT_UTF8),
    "bad-protobuf-stream": status(13, "grpc: failed to unmarshal the received message: "),
    "no-message-data-end": NO_REQUEST,
    "short-prefix": CUT_OFF,
    "short-message": CUT_OFF,
    "short-prefix-stream": CUT_OFF,
}
"""The texts of protobuf's library are its own; grpc-go has others for unary calls than for streams."""
LATER: Final[dict[str, list[Answer]]] = {"unary-not-ended": [], "unary-not-ended-error": []}
"""grpc-go answers a unary call before the client has ended its request; no client known here leaves that open."""
OTHER: Final = STRICTER | MILDER | WITH_GOAWAY | IN_OTHER_WORDS | LATER


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
async def test_an_odd_client(path: Path, case: dict[str, Any]) -> None:
    expected = tidied(OTHER.get(case["case"], case["answers"]))
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [SERVICE]):
        reader, writer = await asyncio.open_unix_connection(path)
        answers, end = await Conversation(reader, writer).answers(bytes.fromhex(case["sends"]), len(expected))
        writer.close()
    assert tidied(answers) == expected
    assert end == ("closed" if expected and expected[-1][0] == "GOAWAY" else "open")


REQUEST: Final = bytes.fromhex(next(case["sends"] for case in CASES if case["case"] == "ok"))
HEADERS: Final = REQUEST[: HEAD.size + (HEAD.unpack_from(REQUEST)[0] >> 8)]
TIMEOUT: Final = encode([(b"grpc-timeout", b"50m")])


async def test_a_request_that_does_not_come_in_time(path: Path) -> None:
    block = HEADERS[HEAD.size :] + TIMEOUT
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [SERVICE]):
        reader, writer = await asyncio.open_unix_connection(path)
        sends = frame(frames.HEADERS, END_HEADERS, 1, block)
        answers, end = await Conversation(reader, writer).answers(sends, 2)
        writer.close()
    assert answers == [*status(4, "context deadline exceeded"), *reset(ErrorCode.NO_ERROR)]
    assert end == "open"


async def test_trailers_of_a_call_that_is_refused_already(path: Path) -> None:
    refused = next(bytes.fromhex(case["sends"]) for case in CASES if case["case"] == "no-type")
    refused = refused[: HEAD.size + (HEAD.unpack_from(refused)[0] >> 8)]
    trailers = frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, encode([(b"x", b"y")]))
    async with asyncio.timeout(DEADLINE_S), serve_grpc(path, [SERVICE]):
        reader, writer = await asyncio.open_unix_connection(path)
        answers, end = await Conversation(reader, writer).answers(refused + trailers, 1)
        writer.close()
    assert [answer[:3] for answer in tidied(answers)] == [["HEADERS", 1, True]]
    assert end == "open"
