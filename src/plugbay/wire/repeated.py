"""Encoded messages with one repeated field of messages, taken apart without being read."""

from __future__ import annotations

_TAG = 0x0A
"""Field 1, length-delimited."""


def elements(message: bytes) -> list[bytes] | None:
    """The encoded elements of field 1, in order; None if there is another field.

    Args:
        message: complete; what ends early is not noticed.
    """
    found: list[bytes] = []
    position, end = 0, len(message)
    while position < end:
        if message[position] != _TAG:
            return None
        size = message[position + 1]
        position += 2
        if size >= 0x80:
            size, position = _varint(message, position - 1)
        found.append(message[position : position + size])
        position += size
    return found


def element_ends(message: bytes, start: int, stop: int) -> list[int] | None:
    """The positions at which the elements of field 1 end, each with its tag and length, in order.

    Args:
        start: where the first one begins.
        stop: where the last one is to end.

    Returns:
        None if there is another field, or no element ends at ``stop``.
    """
    ends: list[int] = []
    try:
        while start < stop:
            if message[start] != _TAG:
                return None
            size = message[start + 1]
            start += 2
            if size >= 0x80:
                size, start = _varint(message, start - 1)
            start += size
            ends.append(start)
    except IndexError:  # it ends within a tag or a length
        return None
    return ends if start == stop else None


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
