"""The dynamic linker's cache of libraries, ``/etc/ld.so.cache``. Pure.

Source: nvidia-container-toolkit 1.20.0 ``internal/ldcache/ldcache.go``; glibc 2.41 ``sysdeps/generic/dl-cache.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_OLD_MAGIC: Final = b"ld.so-1.7.0"
_OLD_HEADER: Final = struct.Struct("<12sI")
_OLD_ENTRY_BYTES: Final = 12
_ALIGNED_TO: Final = 8
_MAGIC: Final = b"glibc-ld.so.cache1.1"
_HEADER: Final = struct.Struct("<20sII20x")
_ENTRY: Final = struct.Struct("<iIIIQ")
_ELF: Final = 0x0001
_ARCHITECTURE: Final = 0xFF00
_64_BIT: Final = frozenset({0x0300, 0x0500, 0x0A00})
"""x86_64, ppc64le, aarch64."""
_MOST_BYTES: Final = 4096
"""The longest path."""


def cached_libraries(content: bytes) -> list[str]:
    """The absolute paths of the libraries of 64 bits in a cache, in its order, each once; none in what is no cache."""
    return list(dict.fromkeys(_paths(content)))


def _paths(content: bytes) -> Iterator[str]:
    start = _start(content)
    if len(content) < start + _HEADER.size:
        return
    magic, count, _ = _HEADER.unpack_from(content, start)
    entries = content[start + _HEADER.size : start + _HEADER.size + count * _ENTRY.size]
    if magic != _MAGIC or len(entries) < count * _ENTRY.size:
        return
    for flags, _, value, _, _ in _ENTRY.iter_unpack(entries):
        text, end, _ = content[start + value : start + value + _MOST_BYTES].partition(b"\0")
        if flags & _ELF and flags & _ARCHITECTURE in _64_BIT and end and text.startswith(b"/"):
            yield text.decode("utf-8", "surrogateescape")


def _start(content: bytes) -> int:
    """The place of the table, which may stand behind one in the old format."""
    if not content.startswith(_OLD_MAGIC) or len(content) < _OLD_HEADER.size:
        return 0
    _, count = _OLD_HEADER.unpack_from(content)
    end: int = _OLD_HEADER.size + count * _OLD_ENTRY_BYTES
    return end + -end % _ALIGNED_TO
