"""Lists of fields: the part of a message that each is, and whether it is well-formed.

Leading and trailing blanks of values are let through, against section 8.2.1: grpc-go sends ``grpc-message`` as its
author wrote it, and a status is worth more than a rule.

Source: RFC 9113 sections 8.1 to 8.5.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from plugbay.wire.http2.events import Fields

_IN_NAMES: Final = bytes(byte for byte in range(0x21, 0x7F) if not 0x41 <= byte <= 0x5A and byte != 0x3A)
"""The bytes that names may have: no control characters, no blanks, no capitals; the colon is apart."""
_STATUS: Final = re.compile(rb"(?!101)[1-9][0-9][0-9]")
"""HTTP/2 has no 101. Source: RFC 9113 section 8.6."""
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_OF_THE_CONNECTION: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
_OF_REQUESTS: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_WITHOUT_CONTENT: Final = frozenset({b"204", b"304"})


class MessagePart(Enum):
    """The part of a message that a list of fields is."""

    REQUEST = "request"
    INTERIM_RESPONSE = "interim response"
    RESPONSE = "response"
    TRAILERS = "trailers"
    MALFORMED = "malformed"


class FieldSection(NamedTuple):
    """A list of fields that was looked through.

    Attributes:
        content_length: what it says of the content that follows; None if nothing, or if that means nothing.
    """

    fields: Fields
    part: MessagePart
    content_length: int | None


def look_through(fields: Fields) -> FieldSection:
    """Say what ``fields`` are, with everything checked that is not about their place in a message."""
    if not fields:
        return FieldSection(fields, MessagePart.TRAILERS, None)
    named = dict(fields)
    names = b"\n".join([name for name, _ in fields]) + b"\n"
    values = b" ".join([value for _, value in fields])
    count = names.count(b":")
    if (
        # What is left of a line is its end, and before that the colon of a pseudo-header; those come first.
        names.translate(None, _IN_NAMES) != b":\n" * count + b"\n" * (len(fields) - count)
        or b"" in named
        or b"\n" in values
        or b"\r" in values
        or b"\0" in values
        or not _OF_THE_CONNECTION.isdisjoint(named)
        or (b"te" in named and {value.lower() for name, value in fields if name == b"te"} != {b"trailers"})
    ):
        return FieldSection(fields, MessagePart.MALFORMED, None)
    part = _part(named, count)
    if b"content-length" in named:
        return _with_length(fields, part)
    return FieldSection(fields, part, None)


def _part(named: dict[bytes, bytes], count: int) -> MessagePart:
    """The part that has these fields, with ``count`` pseudo-headers before the others: none may come twice."""
    if not count:
        return MessagePart.TRAILERS
    status = named.get(b":status")
    if status is not None:
        if count > 1 or not _STATUS.fullmatch(status):
            return MessagePart.MALFORMED
        return MessagePart.INTERIM_RESPONSE if status < b"200" else MessagePart.RESPONSE
    known = _OF_REQUESTS & named.keys()
    if len(known) != count:
        return MessagePart.MALFORMED
    if named.get(b":method") == b"CONNECT":  # section 8.5
        return MessagePart.REQUEST if known == {b":method", b":authority"} else MessagePart.MALFORMED
    if named.get(b":method") and named.get(b":scheme") and named.get(b":path"):
        return MessagePart.REQUEST
    return MessagePart.MALFORMED


def _with_length(fields: Fields, part: MessagePart) -> FieldSection:
    """Section 8.1.1: what is said of the content's length has to be a number, and true."""
    lengths = {value for name, value in fields if name == b"content-length"}
    length = lengths.pop()
    if lengths or not _LENGTH.fullmatch(length):
        return FieldSection(fields, MessagePart.MALFORMED, None)
    if part is MessagePart.TRAILERS or (part is MessagePart.RESPONSE and fields[0][1] in _WITHOUT_CONTENT):
        return FieldSection(fields, part, None)
    return FieldSection(fields, part, int(length))
