"""Penalties for a peer that breaks a rule, or does what is of no use.

Source: RFC 9113 sections 5.4 and 10.5.
"""

from __future__ import annotations

from plugbay.wire.http2 import frames
from plugbay.wire.http2.budgets import Budget
from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.events import Event, StreamReset
from plugbay.wire.http2.sending import Sender
from plugbay.wire.http2.settings import Role
from plugbay.wire.http2.stream_states import TRANSITIONS, Breach, Happening, StreamState, fault
from plugbay.wire.http2.streams import StreamTable
from plugbay.wire.http2.windows import ReceiveWindow


class Penalties:
    """Counts what a peer does, and resets its streams.

    Attributes:
        window: what the peer may send on all streams together.
        events: what was brought about since they were taken.

    Args:
        cheap: pays for frames that are of no use.
        resets: pays for streams that the peer resets, or makes us reset.
    """

    def __init__(
        self, role: Role, streams: StreamTable, sender: Sender, window: int, *, cheap: Budget, resets: Budget
    ) -> None:
        self.window = ReceiveWindow(window)
        self.events: list[Event] = []
        self._role = role
        self._streams = streams
        self._sender = sender
        self._cheap = cheap
        self._resets = resets

    def judge(self, state: StreamState, happening: Happening, number: int) -> None:
        """Let pass what a peer may send on a stream that is not open, and fault what it may not."""
        verdict = TRANSITIONS[state][happening]
        if isinstance(verdict, Breach) and (broken := fault(verdict, happening, number)):
            raise broken
        self.spend(f"{happening.name} on closed streams")

    def reset(self, number: int, code: ErrorCode) -> None:
        """Reset a stream on which the peer broke a rule, and tell so if it was open."""
        stream = self._streams.open.get(number)
        self.spend_reset()
        self._sender.answer(frames.rst_stream(number, code))
        if stream is None:
            self._streams.close(number, StreamState.RESET_BY_US)
            return
        self._sender.drop(stream)
        self._streams.change(stream, Happening.RESET_SENT)
        self.events.append(StreamReset(number, code, by_peer=False))

    def credit(self, count: int) -> None:
        """Give back the connection's window for what nothing reads."""
        if increment := self.window.consume(count):
            self._sender.answer(frames.window_update(0, increment))

    def spend(self, what: str) -> None:
        if not self._cheap.spend():
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many frames of no use, at last {what}")

    def spend_reset(self) -> None:
        """Resets of a client; a server can only reset what we have opened ourselves."""
        if self._role is Role.SERVER and not self._resets.spend():
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset or refused")
