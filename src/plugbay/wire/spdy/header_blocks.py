"""Headers of SPDY streams: packed with zlib and a dictionary, each block with the memory of those before. Pure.

Source: SPDY Protocol draft 3.1, section 2.6.10.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.wire.spdy.frames import SpdyFault

MAX_BLOCK_BYTES: Final = 64 * 1024
"""The size of the largest block, unpacked. Kubernetes has less than 200 bytes."""
_MAX_HEADERS: Final = 256
_WORD: Final = struct.Struct(">I")

_FIELDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_WORDS: Final = (
    *_FIELDS.split(),
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
)
_PLAIN_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    "iso-8859-1,utf-,*,enq=0."
)


def _counted(word: str) -> bytes:
    encoded = word.encode("utf-8", "surrogateescape")
    return _WORD.pack(len(encoded)) + encoded


DICTIONARY: Final = b"".join(map(_counted, _WORDS)) + _PLAIN_TEXT.encode()
"""The text that both sides begin with."""


class HeaderPacker:
    """Packs the headers that one side sends."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """The block of ``headers``; names in lower case."""
        words = (word for item in headers.items() for word in item)
        block = _WORD.pack(len(headers)) + b"".join(map(_counted, words))
        return self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """Unpacks the headers that the other side sends; every block has to pass through, wanted or not."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """The headers in a block, names in lower case.

        Raises:
            SpdyFault: it is not a block of headers, or too large.
        """
        try:
            plain = self._decompressor.decompress(block, MAX_BLOCK_BYTES)
        except zlib.error as error:
            raise SpdyFault(f"a block of headers cannot be unpacked: {error}") from None
        if self._decompressor.unconsumed_tail:
            raise SpdyFault(f"a block of headers is larger than {MAX_BLOCK_BYTES} bytes")
        return _headers(plain)


def _headers(plain: bytes) -> dict[str, str]:
    if len(plain) < _WORD.size:
        raise SpdyFault("a block of headers is cut short")
    (count,) = _WORD.unpack_from(plain)
    if count > _MAX_HEADERS:
        raise SpdyFault(f"{count} headers are too many, at most {_MAX_HEADERS} are read")
    words = list(_words(plain, 2 * count))
    return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}


def _words(plain: bytes, count: int) -> Iterator[str]:
    at = _WORD.size
    for _ in range(count):
        start = at + _WORD.size
        if start > len(plain):
            raise SpdyFault("a block of headers is cut short")
        at = start + _WORD.unpack_from(plain, start - _WORD.size)[0]
        if at > len(plain):
            raise SpdyFault("a block of headers is cut short")
        yield plain[start:at].decode("utf-8", "surrogateescape")
    if at != len(plain):
        raise SpdyFault("a block of headers is followed by something else")
