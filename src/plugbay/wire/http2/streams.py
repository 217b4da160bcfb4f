"""The streams of one connection: those that are open, and for a while how others were closed.

Source: RFC 9113 sections 5.1 and 5.1.1.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from plugbay.wire.http2.messages import MessagePart
from plugbay.wire.http2.settings import Role
from plugbay.wire.http2.stream_states import TRANSITIONS, Happening, StreamState
from plugbay.wire.http2.windows import ReceiveWindow

_MOST_REMEMBERED: Final = 1000


class Sent(Enum):
    """How far our own message on a stream is, with what is queued counted as sent."""

    NOTHING = "nothing"
    HEADERS = "headers"
    END = "end"


class Queued(NamedTuple):
    """Something that waits for the peer's windows, or behind what does: DATA, or a block of trailers."""

    content: bytes | memoryview
    is_block: bool
    ends: bool


class Stream:
    """One open stream.

    Attributes:
        awaits: the part of the peer's message that has to come first now.
        content_left: so many bytes of DATA are missing to what ``content-length`` says; None if it says nothing.
        send_window: negative after the peer has lowered it.
        queue: what the windows do not let through.
        unsent: so many bytes of DATA are queued.
    """

    __slots__ = ("awaits", "content_left", "id", "queue", "send_window", "sent", "state", "unsent", "window")

    def __init__(self, number: int, state: StreamState, awaits: MessagePart, send_window: int, window: int) -> None:
        self.id = number
        self.state = state
        self.awaits = awaits
        self.content_left: int | None = None
        self.send_window = send_window
        self.window = ReceiveWindow(window)
        self.sent = Sent.NOTHING
        self.queue: deque[Queued] | None = None
        self.unsent = 0


class StreamTable:
    """All streams of a connection.

    Attributes:
        open: by number, in the order of their opening.
        next_own: the number of the next stream that we open, as a client.
        last_of_peer: the highest number of a stream that the peer has opened, as a client.
    """

    def __init__(self, role: Role, window: int) -> None:
        self.open: dict[int, Stream] = {}
        self.next_own = 1
        self.last_of_peer = 0
        self._role = role
        self._window = window
        self._awaits = MessagePart.REQUEST if role is Role.SERVER else MessagePart.RESPONSE
        self._ended = _Numbers()
        self._reset = _Numbers()

    def add(self, number: int, send_window: int) -> Stream:
        """A stream whose first HEADERS are just sent or received."""
        stream = self.open[number] = Stream(number, StreamState.OPEN, self._awaits, send_window, self._window)
        return stream

    def change(self, stream: Stream, happening: Happening) -> None:
        """Put ``stream`` into the state that follows ``happening``, which is allowed."""
        state = TRANSITIONS[stream.state][happening]
        assert isinstance(state, StreamState)
        stream.state = state
        if state >= StreamState.ENDED:
            self.close(stream.id, state)

    def close(self, number: int, state: StreamState) -> None:
        """Forget a stream but for the ``state`` in which it was closed; it may never have been open."""
        self.open.pop(number, None)
        (self._ended if state is StreamState.ENDED else self._reset).add(number, state)

    def state_of(self, number: int) -> StreamState:
        """The state of a stream that is not open.

        Streams of which nothing is remembered any more have ended, as nearly all do.
        """
        if self.is_idle(number):
            return StreamState.IDLE
        return self._reset.get(number) or StreamState.ENDED

    def is_idle(self, number: int) -> bool:
        """Whether a stream with this number was never opened, and no higher one by the same side."""
        if number & 1:
            return number >= self.next_own if self._role is Role.CLIENT else number > self.last_of_peer
        return True

    def was_open(self, number: int) -> bool:
        """Whether it is known that the stream was open once, or refused."""
        return (self._ended.get(number) or self._reset.get(number)) is not None


class _Numbers:
    """The streams closed last in one way: at least `_MOST_REMEMBERED` if there are so many, and at most twice as many.

    Those that were reset are apart from those that have ended, which are far more and would push them out.
    """

    def __init__(self) -> None:
        self._states: dict[int, StreamState] = {}
        self._older: dict[int, StreamState] = {}

    def add(self, number: int, state: StreamState) -> None:
        self._states[number] = state
        if len(self._states) >= _MOST_REMEMBERED:
            self._older, self._states = self._states, {}

    def get(self, number: int) -> StreamState | None:
        return self._states.get(number) or self._older.get(number)
