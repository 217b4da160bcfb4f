"""The header ``grpc-timeout``: up to eight digits and a unit.

Source: grpc-go 1.81 ``internal/grpcutil/encode_duration.go``, ``internal/transport/http_util.go``.
"""

from __future__ import annotations

import math
import re
from typing import Final

from plugbay.wire.grpc.quoting import quoted

_MAX_VALUE: Final = 10**8 - 1
_UNITS: Final = {b"n": 1e-9, b"u": 1e-6, b"m": 1e-3, b"S": 1.0, b"M": 60.0, b"H": 3600.0}
"""Seconds, the finest unit first."""
_LEAST_BYTES: Final = 2
_MOST_BYTES: Final = 9
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([numSMH])")


def encode_timeout(seconds: float) -> bytes:
    """The header's value in the finest unit that holds it, rounded up; what has passed already is ``0n``."""
    for unit, size_s in _UNITS.items():
        value = max(0, math.ceil(min(seconds / size_s, _MAX_VALUE + 1)))
        if value <= _MAX_VALUE:
            return b"%d%s" % (value, unit)
    return b"%dH" % _MAX_VALUE


def decode_timeout(value: bytes) -> float:
    """Seconds.

    Raises:
        ValueError: not such a value; the text is that of Go's gRPC.
    """
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise ValueError(_what_is_wrong(value))
    return int(found[1]) * _UNITS[found[2]]


def _what_is_wrong(value: bytes) -> str:
    if len(value) < _LEAST_BYTES:
        return f"transport: timeout string is too short: {quoted(value)}"
    if len(value) > _MOST_BYTES:
        return f"transport: timeout string is too long: {quoted(value)}"
    if value[-1:] not in _UNITS:
        return f"transport: timeout unit is not recognized: {quoted(value)}"
    return f"strconv.ParseUint: parsing {quoted(value[:-1])}: invalid syntax"
