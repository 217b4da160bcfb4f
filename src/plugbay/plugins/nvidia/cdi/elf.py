"""The SONAME of shared libraries."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Final

_MAGIC: Final = b"\x7fELF"
_HEADER: Final = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
_SECTION: Final = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
_ENTRY: Final = {1: "iI", 2: "qQ"}
_DYNAMIC: Final = 6
_DT_SONAME: Final = 14
_MOST_BYTES: Final = 1 << 20
"""Dynamic sections and their texts are far smaller; a broken file may claim anything."""


def soname_of(path: Path) -> str | None:
    """The name under which a shared library is looked for, or its file name if it has none; None if it is not ELF.

    Source: the System V ABI, chapter 5; sections, as Go's ``debug/elf`` reads them.
    """
    try:
        with path.open("rb") as file:
            found = _read(file)
    except (OSError, struct.error, IndexError, ValueError, KeyError, OverflowError):
        return None
    return path.name if found == "" else found


def _read(file: BinaryIO) -> str | None:
    ident = file.read(16)
    if ident[:4] != _MAGIC:
        return None
    wide, order = ident[4], "<" if ident[5] == 1 else ">"
    header = _unpack(file, order + _HEADER[wide])
    table, size, count = header[5], header[10], header[11]
    sections = []
    for index in range(count):
        file.seek(table + index * size)
        sections.append(_unpack(file, order + _SECTION[wide]))
    dynamic = next((section for section in sections if section[1] == _DYNAMIC), None)
    if dynamic is None:
        return ""
    texts = _content(file, sections[dynamic[6]])
    entry = struct.Struct(order + _ENTRY[wide])
    content = _content(file, dynamic)
    for tag, value in entry.iter_unpack(content[: len(content) // entry.size * entry.size]):
        if tag == 0:
            break
        if tag == _DT_SONAME:
            return texts[value : texts.index(b"\0", value)].decode()
    return ""


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    layout = struct.Struct(form)
    return layout.unpack(file.read(layout.size))


def _content(file: BinaryIO, section: tuple[int, ...]) -> bytes:
    file.seek(section[4])
    return file.read(min(section[5], _MOST_BYTES))
