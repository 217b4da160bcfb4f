"""The metadata of a call: what its maker added to the headers. Values under names that end in ``-bin`` are bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.wire.http2.events import Fields

Metadata = Mapping[str, str | bytes]
NO_METADATA: Final[Metadata] = {}
_BINARY: Final = "-bin"
_OURS: Final = frozenset({"content-type", "te", "user-agent"})


def encode_metadata(metadata: Metadata) -> list[tuple[bytes, bytes]]:
    """Header fields for ``metadata``; the names are lower case.

    Raises:
        ValueError: a name belongs to gRPC, or a text has other than printable ASCII characters.
    """
    return [_field(name, value) for name, value in metadata.items()]


def _field(name: str, value: str | bytes) -> tuple[bytes, bytes]:
    if name in _OURS or name.startswith((":", "grpc-")):
        raise ValueError(f"metadata {name!r}: the name is reserved for gRPC")
    if isinstance(value, bytes) != name.endswith(_BINARY):
        raise ValueError(f"metadata {name!r}: bytes belong under names that end in {_BINARY}, and texts under others")
    if isinstance(value, bytes):
        return name.encode("ascii"), base64.b64encode(value).rstrip(b"=")
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"metadata {name!r}: {value!r} has other than printable ASCII characters")
    return name.encode("ascii"), value.encode("ascii")


def decode_metadata(fields: Fields) -> dict[str, str | bytes]:
    """The metadata in the header fields of a call; of a name that comes twice, the last one.

    Binary values that cannot be decoded are left out.
    """
    return dict(_decoded(fields))


def _decoded(fields: Fields) -> Iterable[tuple[str, str | bytes]]:
    for encoded, value in fields:
        name = encoded.decode("latin-1")
        if name in _OURS or name.startswith((":", "grpc-")):
            continue
        if not name.endswith(_BINARY):
            yield name, value.decode("latin-1")
            continue
        for part in value.split(b","):
            try:
                yield name, base64.b64decode(part + b"=" * (-len(part) % 4), validate=True)
            except binascii.Error:
                continue
