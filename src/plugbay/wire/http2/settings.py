"""The settings that the two sides of a connection tell each other.

Source: RFC 9113 sections 6.5 and 6.5.2.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

from plugbay.values import dataclass
from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.frames import LARGEST_MAX_FRAME, SMALLEST_MAX_FRAME
from plugbay.wire.http2.windows import DEFAULT_WINDOW, MAX_WINDOW

_SETTING: Final = struct.Struct(">HI")


class Role(Enum):
    """The side of the connection that is ours."""

    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """The bounds within which we take something from a peer, and which it is told.

    Attributes:
        max_streams: that a client may have open at the same time.
        max_header_bytes: of one list of fields, each counted with 32 bytes for itself (RFC 9113 section 6.5.2).
        max_frame_bytes: of one frame, 16,384 to 16,777,215; large messages are read quicker in large frames.
        stream_window: so many bytes of a stream may be on their way that the reader has not consumed.
        connection_window: the same for all streams together; at least 65,535, which is where it starts.
    """

    max_streams: int = 100
    max_header_bytes: int = 16_384
    max_frame_bytes: int = SMALLEST_MAX_FRAME
    stream_window: int = DEFAULT_WINDOW
    connection_window: int = DEFAULT_WINDOW

    def __post_init__(self) -> None:
        if not SMALLEST_MAX_FRAME <= self.max_frame_bytes <= LARGEST_MAX_FRAME:
            raise ValueError(f"max_frame_bytes is {self.max_frame_bytes}, not {SMALLEST_MAX_FRAME}-{LARGEST_MAX_FRAME}")
        if not 0 < self.stream_window <= MAX_WINDOW:
            raise ValueError(f"stream_window is {self.stream_window}, not 1-{MAX_WINDOW}")
        if not DEFAULT_WINDOW <= self.connection_window <= MAX_WINDOW:
            raise ValueError(f"connection_window is {self.connection_window}, not {DEFAULT_WINDOW}-{MAX_WINDOW}")


class Setting(IntEnum):
    """The identifiers of settings; a peer's others mean nothing to us."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


@dataclass(slots=True)
class Settings:
    """The peer's settings; until it has sent any, those that RFC 9113 gives to every peer.

    Attributes:
        max_streams: that we may have open at the same time; without a word of the peer there is no limit.
        max_header_bytes: of one header block; None if there is no limit.
    """

    header_table_size: int = 4096
    enable_push: bool = True
    max_streams: int = 2**32 - 1
    initial_window: int = DEFAULT_WINDOW
    max_frame_bytes: int = SMALLEST_MAX_FRAME
    max_header_bytes: int | None = None

    def apply(self, payload: bytes, role: Role) -> None:
        """Change what ``payload``, of a SETTINGS frame to us as ``role``, names; of double ones the last counts.

        Raises:
            ConnectionFault: a value is not allowed.
        """
        for identifier, value in _SETTING.iter_unpack(payload):
            match identifier:
                case Setting.HEADER_TABLE_SIZE:
                    self.header_table_size = value
                case Setting.ENABLE_PUSH:
                    if value > (role is Role.SERVER):
                        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_ENABLE_PUSH is {value}")
                    self.enable_push = bool(value)
                case Setting.MAX_CONCURRENT_STREAMS:
                    self.max_streams = value
                case Setting.INITIAL_WINDOW_SIZE:
                    if value > MAX_WINDOW:
                        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"SETTINGS_INITIAL_WINDOW_SIZE is {value}")
                    self.initial_window = value
                case Setting.MAX_FRAME_SIZE:
                    if not SMALLEST_MAX_FRAME <= value <= LARGEST_MAX_FRAME:
                        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_MAX_FRAME_SIZE is {value}")
                    self.max_frame_bytes = value
                case Setting.MAX_HEADER_LIST_SIZE:
                    self.max_header_bytes = value


def announced(limits: Http2Limits, role: Role) -> Mapping[Setting, int]:
    """The settings that we send first; SETTINGS_HEADER_TABLE_SIZE stays what it is without a word."""
    ours = {
        Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
        Setting.MAX_FRAME_SIZE: limits.max_frame_bytes,
        Setting.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
    }
    if role is Role.CLIENT:
        return {Setting.ENABLE_PUSH: 0, **ours}
    return {Setting.MAX_CONCURRENT_STREAMS: limits.max_streams, **ours}


def encode(settings: Mapping[Setting, int]) -> bytes:
    """The payload of a SETTINGS frame."""
    return b"".join(_SETTING.pack(identifier, value) for identifier, value in settings.items())
