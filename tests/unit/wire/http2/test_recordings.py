"""What other gRPC stacks sent, played to a connection of ours that takes the place of their peer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import ConnectionFailed, DataReceived, Event, GoingAway, HeadersReceived, StreamReset
from tests.unit.wire.http2.peers import REQUEST

GOLDEN: Final = Path(__file__).parents[3] / "golden" / "wire"
RECORDINGS: Final = sorted(GOLDEN.glob("*/*.json*"))
SMALL: Final = [path for path in RECORDINGS if path.suffix == ".json"]
SIDE: Final = {Role.SERVER: "client", Role.CLIENT: "server"}
"""The side of a recording that a connection of ours, in the given role, is to hear."""
LIMITS: Final = Http2Limits(max_frame_bytes=1 << 22, stream_window=1 << 24, connection_window=1 << 24)
"""At least what each recorded side had told its peer."""
MESSAGE: Final = "Gerät fehlt: 100 %\n"
MIB: Final = 1 << 20


@dataclass
class Heard:
    """One stream, as a peer hears it."""

    fields: list[dict[bytes, bytes]] = field(default_factory=list)
    content: bytes = b""
    ended: bool = False
    reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], self.content
        while rest:
            size = int.from_bytes(rest[1:5], "big")
            assert rest[0] == 0
            assert len(rest) >= 5 + size
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    @property
    def status(self) -> tuple[int, str]:
        trailers = self.fields[-1]
        return int(trailers[b"grpc-status"]), unquote(trailers.get(b"grpc-message", b"").decode())


@cache
def pieces(path: Path, role: Role) -> tuple[bytes, ...]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return tuple(bytes.fromhex(sent) for side, sent in json.loads(text) if side == SIDE[role])


def play(role: Role, sent: Iterable[bytes]) -> list[Event]:
    """The events of a connection in ``role`` that reads ``sent`` and consumes all content at once."""
    connection = Http2Connection(role, LIMITS, lambda: 0.0)
    if role is Role.CLIENT:
        for _ in range(2):  # streams 1 and 3: more were never used
            connection.open(REQUEST, ends=True)
    events: list[Event] = []
    for data in sent:
        for event in connection.receive(data):
            if isinstance(event, DataReceived):
                connection.consumed(event.stream, len(event.data))
            events.append(event)
        connection.take()
    return events


def heard(events: Iterable[Event]) -> dict[int, Heard]:
    """What came on each stream; nothing that a recorded peer did may have been wrong."""
    streams: dict[int, Heard] = {}
    for event in events:
        assert not isinstance(event, ConnectionFailed), event
        match event:
            case HeadersReceived(number, fields, ends):
                stream = streams.setdefault(number, Heard())
                stream.fields.append(dict(fields))
                stream.ended = ends
            case DataReceived(number, data, ends):
                streams[number].content += data
                streams[number].ended = ends
            case StreamReset(number, code, by_peer):
                assert by_peer
                streams.setdefault(number, Heard()).reset = code
    return streams


def cut(whole: bytes, places: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for place in sorted(places):
        yield whole[at:place]
        at = place
    yield whole[at:]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


def test_recordings_of_all_stacks_are_there() -> None:
    assert len(RECORDINGS) == 10 * 7 + 4
    assert {path.parent.name.split("-to-")[0] for path in RECORDINGS} == {
        "grpc-c",
        "grpc-go",
        "grpc-java",
        "grpc-js",
        "grpclib",
        "tonic",
    }


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_server_hears_the_request(path: Path) -> None:
    """The request's whole message, its end, and the RST_STREAM of a call that was cancelled or timed out."""
    scenario = path.name.split(".")[0]
    streams = heard(play(Role.SERVER, pieces(path, Role.SERVER)))
    request = streams[max(streams)]
    assert request.ended
    assert request.fields[0][b":method"] == b"POST"
    assert request.fields[0][b"te"] == b"trailers"
    assert request.fields[0][b"content-type"].startswith(b"application/grpc")
    [message] = request.messages
    if scenario == "large-messages":
        assert len(message) > MIB
    elif not path.parent.name.startswith("tonic"):
        method, start = {
            "unary-ok": (b"Allocate", bytes.fromhex("0a040a02") + b"ok"),
            "unary-error": (b"Allocate", bytes.fromhex("0a320a30") + b"error:5:" + MESSAGE.encode().hex().encode()),
            "deadline": (b"Allocate", bytes.fromhex("0a0a0a08") + b"nap:1000"),
        }.get(scenario, (b"ListAndWatch", b""))
        assert request.fields[0][b":path"] == b"/v1beta1.DevicePlugin/" + method
        assert message == start
    assert (b"grpc-timeout" in request.fields[0]) == (scenario == "deadline" or path.parent.name.startswith("tonic"))
    assert request.reset == reset_of_request(path.parent.name, scenario)


def reset_of_request(pair: str, scenario: str) -> int | None:
    if scenario not in {"stream-cancelled", "deadline", "graceful-stop"}:
        return None
    if pair == "grpclib-to-grpc-go":  # it cancels with NO_ERROR, and at other ends it only closes
        return ErrorCode.NO_ERROR if scenario == "stream-cancelled" else None
    if (pair, scenario) == ("grpc-go-to-grpclib", "graceful-stop"):  # that server closes at once
        return None
    return ErrorCode.CANCEL


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_client_hears_the_response(path: Path) -> None:
    scenario = path.name.split(".")[0]
    events = play(Role.CLIENT, pieces(path, Role.CLIENT))
    streams = heard(events)
    response = streams.get(max(streams, default=0), Heard())
    sizes = [len(message) for message in response.messages]
    match scenario:
        case "unary-ok":
            assert sizes == ([0] if path.parent.name.startswith("tonic") else [2])
        case "large-messages":
            assert MIB < sizes[0] < MIB + 100
        case "stream-end":
            assert sizes == [21, 21, 21]
        case "stream-cancelled" | "graceful-stop":
            assert sizes == [21]
            assert not response.ended
        case _:
            assert sizes == []
    if scenario in {"unary-ok", "large-messages", "stream-end"}:
        assert response.ended
        assert response.status in {(0, ""), (0, "OK")}
    elif scenario == "unary-error":
        assert response.status == (5, MESSAGE)
    elif scenario == "deadline" and response.ended:  # the others send nothing, or RST_STREAM
        assert response.status[0] == 4
    leaving = [event.last_stream for event in events if isinstance(event, GoingAway) and event.code == 0]
    if scenario == "graceful-stop" and path.parent.name != "grpc-go-to-grpclib":
        assert leaving[-1] in {1, 3, 2**31 - 1}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("path", SMALL, ids=name_of)
def test_a_recording_byte_by_byte_gives_the_same_events(path: Path, role: Role) -> None:
    whole = b"".join(pieces(path, role))
    assert play(role, (whole[at : at + 1] for at in range(len(whole)))) == play(role, [whole])


@given(st.sampled_from(SMALL), st.sampled_from(Role), st.data())
def test_a_recording_in_any_pieces_gives_the_same_events(path: Path, role: Role, data: st.DataObject) -> None:
    whole = b"".join(pieces(path, role))
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=20))
    assert play(role, cut(whole, places)) == play(role, pieces(path, role))


@pytest.mark.parametrize("size", [1_000, 16_383, 70_001])
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("path", [path for path in RECORDINGS if path.suffix == ".gz"], ids=name_of)
def test_a_large_recording_in_pieces_of_one_size_gives_the_same_events(path: Path, role: Role, size: int) -> None:
    whole = b"".join(pieces(path, role))
    assert play(role, cut(whole, range(size, len(whole), size))) == play(role, pieces(path, role))
