"""The events that bytes of a peer bring about, in the order in which they happened.

They are named tuples, because these are the quickest to make.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from plugbay.wire.http2.codes import ErrorCode

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names and values as on the wire: names in lower case, pseudo-headers first."""


class HeadersReceived(NamedTuple):
    """A request, the final response, or trailers; interim responses are left out.

    Attributes:
        ends: whether the peer sends nothing more on the stream; always so with trailers.
    """

    stream: int
    fields: Fields
    ends: bool


class DataReceived(NamedTuple):
    """A piece of the content, without padding.

    `Http2Connection.consumed` has to be told ``len(data)`` once the reader has taken it.

    Attributes:
        data: empty only if the stream ends here.
        ends: whether the peer sends nothing more on the stream.
    """

    stream: int
    data: bytes
    ends: bool


class StreamReset(NamedTuple):
    """The stream is over before its time; nothing can be sent on it any more.

    Attributes:
        code: an `ErrorCode`, or any other number that the peer sends.
        by_peer: False where the peer broke a rule and the stream was reset from here.
    """

    stream: int
    code: int
    by_peer: bool


class StreamDrained(NamedTuple):
    """The peer's windows have let through all that was queued on the stream."""

    stream: int


class GoingAway(NamedTuple):
    """The peer takes no new streams; it may say so several times.

    The streams above ``last_stream`` were not looked at and can be retried; they stay open until they are reset.
    """

    last_stream: int
    code: int
    debug: bytes


class Pong(NamedTuple):
    """The answer to a PING of ours."""

    payload: bytes


class SettingsReceived(NamedTuple):
    """The peer's settings have come or changed; `Http2Connection.remote` has them."""


class ConnectionFailed(NamedTuple):
    """The peer broke a rule: GOAWAY is in the bytes to send, all streams are gone, and nothing more is read."""

    code: ErrorCode
    reason: str


Event: TypeAlias = (
    HeadersReceived
    | DataReceived
    | StreamReset
    | StreamDrained
    | GoingAway
    | Pong
    | SettingsReceived
    | ConnectionFailed
)
