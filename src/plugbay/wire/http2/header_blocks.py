"""Header blocks: fields as bytes (HPACK).

Ours are literals without indexing and without Huffman, so that they depend on no state: callers may keep them for ever.
Those of peers may use all that there is. The dynamic table and Huffman's code are those of the package ``hpack``; its
loop over a block is not, as this one is four times as quick, bounds the number of fields, and knows whether a block
would mean the same the next time.

Source: RFC 7541 sections 4 to 6 and appendix A.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.frames import SMALLEST_MAX_FRAME
from plugbay.wire.http2.messages import FieldSection, look_through

EMPTY_TABLE: Final = b"\x20"
"""Before the first block of a connection: our side uses no dynamic table, whatever size the peer allows."""
MAX_FIELDS: Final = 1000
FIELD_OVERHEAD: Final = 32
_MAX_TABLE: Final = 4096
_STATIC: Final = ((b"", b""), *HeaderTable.STATIC_TABLE)
"""By index, which begins with 1."""
_FIRST_DYNAMIC: Final = len(_STATIC)
_MOST_SIZES: Final = 2
"""The smallest size and the last one are told (RFC 7541 section 4.2)."""
_MAX_INTEGER_BYTES: Final = 5
_MOST_REMEMBERED: Final = 64
_LONGEST_REMEMBERED: Final = 1024


def encode(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A block with ``fields``, pseudo-headers first and names in lower case as the caller gives them."""
    block = bytearray()
    for name, value in fields:
        block.append(0)
        for text in (name, value):
            block += _encoded_length(len(text)) if len(text) >= 0x7F else bytes((len(text),))
            block += text
    return bytes(block)


def _encoded_length(length: int) -> bytes:
    encoded = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


class BlockDecoder:
    """Reads the blocks of one peer, in the order in which they come.

    Args:
        max_list_bytes: that the fields of a block may have together, each with 32 more.
    """

    def __init__(self, max_list_bytes: int) -> None:
        self._max_list_bytes = max_list_bytes
        self._table = HeaderTable()
        self._table.maxsize = _MAX_TABLE
        self._remembered: dict[bytes, FieldSection] = {}
        """Blocks that change nothing, with what they mean until another one changes the table."""

    def decode(self, block: bytes) -> FieldSection:
        """The fields of a whole block.

        Raises:
            ConnectionFault: the block is not HPACK, or is too much; the table is lost then.
        """
        remembered = self._remembered.get(block)
        if remembered is not None:
            return remembered
        try:
            fields, changes = self._fields(block)
        except (HPACKError, IndexError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"a header block cannot be read: {error}") from None
        section = look_through(fields)
        if changes:
            self._remembered.clear()
        elif len(block) <= _LONGEST_REMEMBERED:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[block] = section
        return section

    def _fields(self, block: bytes) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
        """The fields, and how often the table has changed.

        Source: RFC 7541 section 6, in which each branch is a subsection.
        """
        table, fields = self._table, list[tuple[bytes, bytes]]()
        changes, at, end, left = 0, 0, len(block), self._max_list_bytes
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = (first & 0x7F, at + 1) if first != 0xFF else _integer(block, at, 0x7F)
                field = _STATIC[index] if 0 < index < _FIRST_DYNAMIC else table.get_by_index(index)
            elif first & 0xE0 == 0x20:
                if fields or changes >= _MOST_SIZES:
                    raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "the table's size changes within a block")
                at = self._resize(block, at)
                changes += 1
                continue
            else:
                index, at = _integer(block, at, 0x3F if first & 0x40 else 0x0F) if first & 0x3F else (0, at + 1)
                name, at = (table.get_by_index(index)[0], at) if index else _text(block, at)
                value, at = _text(block, at)
                field = name, value
                if first & 0x40:
                    table.add(name, value)
                    changes += 1
            fields.append(field)
            left -= len(field[0]) + len(field[1]) + FIELD_OVERHEAD
            if left < 0 or len(fields) > MAX_FIELDS:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a list of fields is too large")
        if at > end:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a header block ends within a string")
        return tuple(fields), changes

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _integer(block, at, 0x1F)
        if size > _MAX_TABLE:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"the table's size is set to {size}")
        self._table.maxsize = size
        return at


class OpenBlock:
    """A header block of which the end has not come: nothing else may come before it.

    Args:
        most: so many bytes, and in proportion so many pieces, it may have.

    Source: RFC 9113 section 6.10; CVE-2024-27316.
    """

    __slots__ = ("_most", "_pieces", "_pieces_left", "ends", "stream")

    def __init__(self, stream: int, piece: bytes, *, ends: bool, most: int) -> None:
        self.stream = stream
        self.ends = ends
        self._pieces_left = 64 + most // SMALLEST_MAX_FRAME
        self._most = most
        self._pieces = bytearray()
        self.add(piece)

    def add(self, piece: bytes) -> None:
        """Take in the payload of HEADERS or CONTINUATION.

        Raises:
            ConnectionFault: the pieces are too many or too large.
        """
        self._pieces += piece
        self._pieces_left -= 1
        if len(self._pieces) > self._most or self._pieces_left < 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"the headers of stream {self.stream} do not end")

    def whole(self) -> bytes:
        """The block, after its last piece."""
        return bytes(self._pieces)


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number that begins in the bits ``mask`` of the byte at ``at``, and where it ends.

    Source: RFC 7541 section 5.1.
    """
    number = block[at] & mask
    if number < mask:
        return number, at + 1
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        at += 1
        byte = block[at]
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
    raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a number in a header block is too long")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """The string that begins at ``at``, and where it ends, or would end if ``block`` were long enough.

    Source: RFC 7541 section 5.2.
    """
    length = block[at]
    if length < 0x7F:
        end = at + 1 + length
        return block[at + 1 : end], end
    huffman = length & 0x80
    length, at = _integer(block, at, 0x7F)
    text = block[at : at + length]
    return decode_huffman(text) if huffman else text, at + length
