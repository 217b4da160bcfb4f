"""Quotation marks as Go sets them, in texts that are Go's."""

from __future__ import annotations


def quoted(value: bytes) -> str:
    """A header's value as Go's ``%q`` prints it, as far as headers go."""
    return '"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').decode("utf-8", "backslashreplace") + '"'
