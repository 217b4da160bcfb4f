"""The states of a stream, and what follows when something happens to it.

A closed stream has three states here, as what a peer may still send depends on how the stream was closed. There is no
reserved one, as nothing is pushed. PRIORITY is missing: it may come at any time and means nothing.

Source: RFC 9113 section 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from plugbay.wire.http2.codes import ConnectionFault, ErrorCode, StreamFault


class StreamState(IntEnum):
    """The state of a stream, seen from our side. It is a number because numbers are found quickest in a table."""

    IDLE = 0
    OPEN = 1
    HALF_CLOSED_LOCAL = 2
    """We have said that we send nothing more."""
    HALF_CLOSED_REMOTE = 3
    """The peer has said that it sends nothing more."""
    ENDED = 4
    """Both have."""
    RESET_BY_US = 5
    RESET_BY_PEER = 6


class Happening(IntEnum):
    """Something that happens to a stream; the end of one side is apart from the frame that brings it."""

    HEADERS_RECEIVED = 0
    DATA_RECEIVED = 1
    END_RECEIVED = 2
    WINDOW_UPDATE_RECEIVED = 3
    RESET_RECEIVED = 4
    END_SENT = 5
    RESET_SENT = 6


class Breach(IntEnum):
    """A happening that the rules do not allow, by what follows from it."""

    PROTOCOL_ERROR = 10
    """The connection ends, as such a stream cannot be known to the peer."""
    STREAM_CLOSED = 11
    """The connection ends, as the peer itself has ended the stream."""
    RESETS_STREAM = 12
    """The stream is reset with STREAM_CLOSED."""
    CROSSED = 13
    """The peer could not know yet that we have reset the stream, so nothing follows."""


_IDLE, _OPEN, _LOCAL, _REMOTE, _ENDED, _RESET, _RESET_BY_PEER = StreamState
_PROTOCOL, _CLOSED, _RESETS, _CROSSED = Breach

# The columns are the happenings that a peer causes: HEADERS, DATA, END_STREAM, WINDOW_UPDATE, RST_STREAM.
# The quotations are from section 5.1.
_RECEIVED: Final[Mapping[StreamState, tuple[StreamState | Breach, ...]]] = {
    # "any frame other than HEADERS or PRIORITY [...] MUST be treated as a connection error of type PROTOCOL_ERROR"
    _IDLE: (_OPEN, _PROTOCOL, _PROTOCOL, _PROTOCOL, _PROTOCOL),
    _OPEN: (_OPEN, _OPEN, _REMOTE, _OPEN, _RESET_BY_PEER),
    _LOCAL: (_LOCAL, _LOCAL, _ENDED, _LOCAL, _RESET_BY_PEER),
    # "it MUST respond with a stream error of type STREAM_CLOSED"
    _REMOTE: (_RESETS, _RESETS, _RESETS, _REMOTE, _RESET_BY_PEER),
    # "after receiving a frame with the END_STREAM flag set [...] connection error of type STREAM_CLOSED"; but
    # "WINDOW_UPDATE or RST_STREAM frames can be received in this state for a short period"
    _ENDED: (_CLOSED, _CLOSED, _CLOSED, _ENDED, _ENDED),
    # "An endpoint MUST ignore frames that it receives on closed streams after it has sent a RST_STREAM frame."
    _RESET: (_CROSSED, _CROSSED, _CROSSED, _CROSSED, _CROSSED),
    # "any frames other than PRIORITY after receiving a RST_STREAM [...] stream error of type STREAM_CLOSED"; of
    # WINDOW_UPDATE and RST_STREAM nothing would follow but an endless exchange of resets.
    _RESET_BY_PEER: (_RESETS, _RESETS, _RESETS, _RESET_BY_PEER, _RESET_BY_PEER),
}

# What we do ourselves: a missing entry is a defect of ours.
_SENT: Final[Mapping[StreamState, Mapping[Happening, StreamState]]] = {
    _OPEN: {Happening.END_SENT: _LOCAL, Happening.RESET_SENT: _RESET},
    _LOCAL: {Happening.RESET_SENT: _RESET},
    _REMOTE: {Happening.END_SENT: _ENDED, Happening.RESET_SENT: _RESET},
}

Following: TypeAlias = Mapping[StreamState, Mapping[Happening, StreamState | Breach]]

TRANSITIONS: Final[Following] = {
    state: {**dict(zip(Happening, row, strict=False)), **_SENT.get(state, {})} for state, row in _RECEIVED.items()
}
"""The state or the breach that follows, by state and happening."""


def fault(breach: Breach, happening: Happening, stream: int) -> ConnectionFault | StreamFault | None:
    """The fault that ``breach`` is; None if it is the peer's good right."""
    what = happening.name.replace("_", " ").lower()
    match breach:
        case Breach.PROTOCOL_ERROR:
            return ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on stream {stream}, which was never opened")
        case Breach.STREAM_CLOSED:
            return ConnectionFault(ErrorCode.STREAM_CLOSED, f"{what} on stream {stream}, which has ended")
        case Breach.RESETS_STREAM:
            return StreamFault(ErrorCode.STREAM_CLOSED)
        case Breach.CROSSED:
            return None
