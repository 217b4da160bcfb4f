"""How a call ended, in the trailers: a number and a percent-encoded text.

Source: "gRPC over HTTP2", Status-Message; grpc-go 1.81 ``internal/transport/http_util.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.quoting import quoted
from plugbay.wire.http2.header_blocks import encode

_CODES: Final = tuple(RpcCode)
"""In the order of their numbers."""
_NUMBERS: Final[Mapping[RpcCode, bytes]] = {code: b"%d" % number for number, code in enumerate(_CODES)}
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,20}")
_ESCAPED: Final = re.compile(rb"[^ -$&-~]")
_CUT: Final = " [cut]"
_ENTRY_BYTES: Final = 32
"""Bytes that HTTP/2 counts for a header besides its name and value (RFC 9113, 6.5.2)."""
OK_TRAILERS: Final = encode([(b"grpc-status", b"0")])


def encode_text(text: str) -> bytes:
    """``text`` in UTF-8 with everything but printable ASCII, and ``%``, percent-encoded."""
    return _ESCAPED.sub(lambda found: b"%%%02X" % found[0][0], text.encode("utf-8", "replace"))


def decode_text(value: bytes) -> str:
    """The text; what is not percent-encoding stands for itself, and what is not UTF-8 becomes U+FFFD."""
    return unquote_to_bytes(value).decode("utf-8", "replace")


def trailers(failure: RpcFailed, *, max_bytes: int | None = None) -> list[tuple[bytes, bytes]]:
    """The trailers that tell ``failure``.

    Args:
        max_bytes: the longest list of headers that the peer takes, if it has said so: a text that does not fit is cut,
            as the peer would break the call off instead.
    """
    fields = [(b"grpc-status", _NUMBERS[failure.code]), (b"grpc-message", encode_text(failure.detail))]
    if max_bytes is not None:
        room = max_bytes - sum(len(name) + len(value) + _ENTRY_BYTES for name, value in fields) + len(fields[1][1])
        if len(fields[1][1]) > room:
            fields[1] = (b"grpc-message", _cut(failure.detail, max(0, room)))
    return fields


def _cut(text: str, room: int) -> bytes:
    """As many characters of ``text`` as fit in ``room`` bytes, with a mark that there were more."""
    mark = encode_text(_CUT)
    taken = 0
    encoded = [encode_text(character) for character in text[:room]]
    for number, each in enumerate(encoded):
        taken += len(each)
        if taken + len(mark) > room:
            return (b"".join(encoded[:number]) + mark)[:room]
    return b"".join(encoded)


def read_status(fields: Mapping[bytes, bytes]) -> RpcFailed | None:
    """The failure that trailers tell; None for success.

    An unknown number counts as UNKNOWN, and so does a missing one.
    """
    value = fields.get(b"grpc-status")
    if value == b"0":
        return None
    text = decode_text(fields.get(b"grpc-message", b""))
    if value is None:
        return RpcFailed(RpcCode.UNKNOWN, text)
    if not _NUMBER.fullmatch(value):
        return _malformed(value, "invalid syntax")
    number = int(value)
    if not -(2**31) <= number < 2**31:
        return _malformed(value, "value out of range")
    if number == 0:
        return None
    return RpcFailed(_CODES[number] if 0 < number < len(_CODES) else RpcCode.UNKNOWN, text)


def _malformed(value: bytes, problem: str) -> RpcFailed:
    text = f"transport: malformed grpc-status: strconv.ParseInt: parsing {quoted(value)}: {problem}"
    return RpcFailed(RpcCode.UNKNOWN, text)
