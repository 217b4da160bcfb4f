"""The error codes of HTTP/2."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The reason why a stream or a connection ends; a code that a peer sends and that is not here stays an int.

    Source: RFC 9113 section 7.
    """

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    """The peer has done nothing with the stream: its request may be sent again."""
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    """The peer does too much of what is of no use, or sends more than is taken."""
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """The peer broke a rule, and the connection ends.

    Source: RFC 9113 section 5.4.1.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """The peer broke a rule on one stream, which is reset.

    Source: RFC 9113 section 5.4.2.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code
