"""The IDs of units: the other plugin's for groups of paths, and readable ones for what has an identity. Pure.

Source: generic-device-plugin 0.1 ``deviceplugin/path.go``, ``deviceplugin/usb.go``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.selecting.drafts import Named

_REFUSED: Final = re.compile(r"[^A-Za-z0-9_.:-]+|::+")
"""An ID may be the name of a device in a CDI spec too, which begins and ends with a letter or a digit.

Two colons stand before the number of a copy, and nowhere else.
"""
_READABLE_AT_MOST: Final = 43
"""With the digest and the number of copy 99,999 behind it, an ID has 63 bytes, which is all it may have."""
_DIGEST_LENGTH: Final = 12


def id_of(copy: int, stands_for: Sequence[str], named: Named) -> DeviceId:
    """The ID of copy number ``copy``, from 0 on, of a unit, if no other unit of the resource has it."""
    match named:
        case Named.BY_PATHS:
            return id_of_paths(copy, stands_for)
        case Named.BY_IDENTITY:
            return id_of_identities(copy, stands_for)
        case Named.BY_NUMBER:
            return id_of_number(copy, stands_for[0])
        case _:
            assert_never(named)


def id_of_paths(copy: int, paths: Iterable[str]) -> DeviceId:
    """The ID that the other plugin gives to copy number ``copy``, from 0 on, of a unit with these host paths."""
    text = str(copy) + "".join(paths)
    return DeviceId(hashlib.sha1(_bytes_of(text), usedforsecurity=False).hexdigest())


def id_of_identities(copy: int, identities: Sequence[str]) -> DeviceId:
    """The ID of copy number ``copy`` of a unit made of these devices: their identities as far as one can read them."""
    whole = "\0".join(identities)
    first = identities[0] if identities else ""
    readable = _REFUSED.sub("-", first)[:_READABLE_AT_MOST].strip("_.:-")
    if readable != whole or not readable:
        digest = hashlib.sha256(_bytes_of(whole)).hexdigest()[:_DIGEST_LENGTH]
        readable = f"{readable}-{digest}" if readable else digest
    return DeviceId(readable if copy == 0 else f"{readable}::{copy}")


def id_of_number(copy: int, word: str) -> DeviceId:
    """The ID of copy number ``copy`` of something that has nothing but its number."""
    return DeviceId(f"{word}-{copy}")


def id_apart(copy: int, stands_for: Iterable[str]) -> DeviceId:
    """The ID of a unit whose own would be that of another: the parts of what it stands for are kept apart."""
    text = "\0".join((str(copy), *stands_for))
    return DeviceId(hashlib.sha256(_bytes_of(text)).hexdigest()[:40])


def _bytes_of(text: str) -> bytes:
    """File names need not be UTF-8, and are hashed as the host has them."""
    return text.encode("utf-8", "surrogateescape")
