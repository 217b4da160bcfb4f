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


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
