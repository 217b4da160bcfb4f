"""Whole conversations with h2 on the other side, in both roles: random calls, sizes, windows, resets and pieces."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest

from plugbay.wire.http2.codes import ErrorCode
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.events import ConnectionFailed, DataReceived, Event, HeadersReceived, Pong, StreamReset
from plugbay.wire.http2.header_blocks import encode
from tests.unit.wire.http2.peers import REQUEST_FIELDS, RESPONSE_FIELDS, TRAILER_FIELDS, Clock

CONVERSATIONS: Final = 150
SOAK_CONVERSATIONS: Final = 10_000
MOST_TURNS: Final = 20_000

Fields = tuple[tuple[bytes, bytes], ...]
Message = tuple[Fields, bytes, Fields]
"""Headers, content, trailers; without trailers the content ends the message."""


class Mailbox:
    """Messages as they come in at one side, by stream."""

    def __init__(self) -> None:
        self.headers: dict[int, Fields] = {}
        self.content: dict[int, bytearray] = {}
        self.trailers: dict[int, Fields] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()

    def add_fields(self, stream: int, fields: Fields) -> None:
        if stream in self.headers:
            self.trailers[stream] = fields
        else:
            self.headers[stream] = fields
            self.content[stream] = bytearray()

    def message(self, stream: int) -> Message:
        return self.headers[stream], bytes(self.content[stream]), self.trailers.get(stream, ())


class OurSide:
    """A connection of ours, with a reader that consumes late."""

    def __init__(self, role: Role, random: Random) -> None:
        windows = [random.choice((100, 3000, 65_535, 1_000_000)), random.choice((65_535, 2_000_000))]
        frame = random.choice((16_384, 100_000))
        limits = Http2Limits(max_frame_bytes=frame, stream_window=windows[0], connection_window=windows[1])
        self.connection = Http2Connection(role, limits, Clock())
        self.mail = Mailbox()
        self.unread = list[tuple[int, int]]()
        self.pongs = 0

    def send(self, stream: int, message: Message, random: Random) -> None:
        fields, content, trailers = message
        self.connection.send_headers(stream, encode(fields))
        self.send_rest(stream, content, trailers, random)

    def send_rest(self, stream: int, content: bytes, trailers: Fields, random: Random) -> None:
        cut = random.randrange(len(content) + 1)
        self.connection.send_data(stream, content[:cut])
        self.connection.send_data(stream, content[cut:], ends=not trailers)
        if trailers:
            self.connection.send_headers(stream, encode(trailers), ends=True)

    def take_in(self, sent: bytes) -> list[int]:
        """Read; return the streams that the peer has ended."""
        ended = list[int]()
        for event in self.connection.receive(sent):
            ended += self.note(event)
        return ended

    def note(self, event: Event) -> Iterator[int]:
        match event:
            case HeadersReceived(stream, fields, ends):
                self.mail.add_fields(stream, tuple((bytes(name), bytes(value)) for name, value in fields))
            case DataReceived(stream, content, ends):
                self.mail.content[stream] += content
                self.unread.append((stream, len(content)))
            case StreamReset(stream):
                self.mail.reset.add(stream)
                return
            case Pong():
                self.pongs += 1
                return
            case ConnectionFailed():
                pytest.fail(str(event))
            case _:
                return
        if ends:
            self.mail.ended.add(stream)
            yield stream

    def read(self, random: Random) -> None:
        random.shuffle(self.unread)
        for _ in range(random.randrange(len(self.unread) + 1)):
            self.connection.consumed(*self.unread.pop())


class TheirSide:
    """A connection of h2, which sends what its windows let through."""

    def __init__(self, role: Role, random: Random) -> None:
        config = h2.config.H2Configuration(client_side=role is Role.CLIENT, header_encoding=False)
        self.connection = h2.connection.H2Connection(config)
        window, frame = random.choice((100, 3000, 65_535, 1_000_000)), random.choice((16_384, 50_000))
        self.connection.max_inbound_frame_size = frame
        self.connection.local_settings = h2.settings.Settings(
            client=role is Role.CLIENT,
            initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
                h2.settings.SettingCodes.MAX_FRAME_SIZE: frame,
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.connection.initiate_connection()
        self.mail = Mailbox()
        self.outgoing: dict[int, tuple[bytearray, Fields]] = {}
        self.unread = list[tuple[int, int]]()

    def send(self, stream: int, message: Message) -> None:
        fields, content, trailers = message
        self.connection.send_headers(stream, fields)
        self.outgoing[stream] = bytearray(content), trailers

    def send_more(self, random: Random) -> None:
        for stream, (content, trailers) in list(self.outgoing.items()):
            if stream in self.mail.reset:
                del self.outgoing[stream]
                continue
            fits = min(self.connection.local_flow_control_window(stream), self.connection.max_outbound_frame_size)
            piece = bytes(content[: max(0, min(fits, random.choice((1, 1000, 100_000))))])
            del content[: len(piece)]
            padding = random.choice((None, 0, 7)) if piece and fits > len(piece) + 8 else None
            if piece:
                self.connection.send_data(stream, piece, pad_length=padding)
            if not content:
                del self.outgoing[stream]
                if trailers:
                    self.connection.send_headers(stream, trailers, end_stream=True)
                else:
                    self.connection.end_stream(stream)

    def take_in(self, sent: bytes) -> list[int]:
        """Read; return the streams that we have ended."""
        ended = []
        for event in self.connection.receive_data(sent):
            match event:
                case h2.events.RequestReceived() | h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    assert event.headers is not None
                    fields = tuple((bytes(name), bytes(value)) for name, value in event.headers)
                    self.mail.add_fields(event.stream_id or 0, fields)
                case h2.events.DataReceived():
                    self.mail.content[event.stream_id or 0] += event.data or b""
                    self.unread.append((event.stream_id or 0, event.flow_controlled_length or 0))
                case h2.events.StreamEnded():
                    self.mail.ended.add(event.stream_id or 0)
                    ended.append(event.stream_id or 0)
                case h2.events.StreamReset():
                    self.mail.reset.add(event.stream_id or 0)
                case _:
                    pass
        return ended

    def read(self, random: Random) -> None:
        for _ in range(random.randrange(len(self.unread) + 1)):
            stream, count = self.unread.pop(0)
            if count:
                self.connection.acknowledge_received_data(count, stream)


def random_message(random: Random, fields: Fields) -> Message:
    extra = tuple((b"x-%d" % number, random.randbytes(5).hex().encode()) for number in range(random.randrange(3)))
    size = random.choice((0, 1, 5, 1000, 20_000))
    return (*fields, *extra), random.randbytes(size), random.choice(((), TRAILER_FIELDS))


def pieces(sent: bytes, random: Random) -> Iterator[bytes]:
    while sent:
        cut = random.choice((1, 9, 100, 100_000))
        yield sent[:cut]
        sent = sent[cut:]


def converse(seed: int, role: Role) -> None:
    """Some calls at once between us, as ``role``, and h2; both sides get whole what the other one sent."""
    random = Random(seed)
    we = OurSide(role, random)
    they = TheirSide(Role.CLIENT if role is Role.SERVER else Role.SERVER, random)
    they.take_in(we.connection.take())
    we.take_in(they.connection.data_to_send())  # h2 does not wait for the acknowledgement of its settings
    calls = random.randrange(1, 6)
    questions, answers, dropped = dict[int, Message](), dict[int, Message](), set[int]()
    for _ in range(MOST_TURNS):
        if len(questions) < calls and (role is Role.SERVER or we.connection.can_open):
            question = random_message(random, REQUEST_FIELDS)
            if role is Role.CLIENT:
                stream = we.connection.open(encode(question[0]))
                we.send_rest(stream, question[1], question[2], random)
            else:
                stream = they.connection.get_next_available_stream_id()
                they.send(stream, question)
            questions[stream] = question
        if random.random() < 0.02:
            we.connection.ping(b"pingpong")
        they.send_more(random)
        to_them, to_us = we.connection.take(), they.connection.data_to_send()
        for at_us in (True, False):
            for piece in pieces(to_us if at_us else to_them, random):
                for stream in (we if at_us else they).take_in(piece):
                    if at_us is (role is Role.SERVER):
                        answers[stream] = random_message(random, RESPONSE_FIELDS)
                        if at_us:
                            we.send(stream, answers[stream], random)
                        else:
                            they.send(stream, answers[stream])
        we.read(random)
        they.read(random)
        if random.random() < 0.02 and (live := sorted(questions.keys() - dropped - we.mail.ended - we.mail.reset)):
            stream = random.choice(live)
            if stream in we.mail.headers:
                we.connection.reset(stream, ErrorCode.CANCEL)
                dropped.add(stream)
        asked, told = (they.mail, we.mail) if role is Role.CLIENT else (we.mail, they.mail)
        lost = dropped | we.mail.reset | they.mail.reset
        if len(questions) == calls and questions.keys() <= (asked.ended & told.ended) | lost and not to_us + to_them:
            break
    else:
        pytest.fail(f"seed {seed}: no end after {MOST_TURNS} turns")
    for stream in questions.keys() - lost:
        assert asked.message(stream) == questions[stream]
        assert told.message(stream) == answers[stream]
    assert we.connection.streams == 0


@pytest.mark.parametrize("role", Role)
def test_messages_arrive_whole(role: Role) -> None:
    for seed in range(CONVERSATIONS):
        converse(seed, role)


@pytest.mark.soak
@pytest.mark.parametrize("role", Role)
def test_messages_arrive_whole_in_many_conversations(role: Role) -> None:
    for seed in range(CONVERSATIONS, CONVERSATIONS + SOAK_CONVERSATIONS):
        converse(seed, role)
