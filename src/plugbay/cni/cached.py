"""One entry of the result cache, in libcni's format: pure.

Other programs read and write these files: what libcni 1.0 to 1.3 writes is read, and what we write it reads.

Source: libcni 1.3 ``api.go``, ``cachedInfo``.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Final

from plugbay.cni import documents, result
from plugbay.cni.chain import Attachment
from plugbay.cni.documents import Json, Object, member
from plugbay.cni.result import Result
from plugbay.cni.result_encoding import encode as encode_result
from plugbay.errors import InvalidAttachment, InvalidNetworkResult

_KIND: Final = "cniCacheV1"


@dataclass(frozen=True, slots=True)
class CachedResult:
    """What a network gave a container, and what it was asked.

    Attributes:
        config: the configuration list as bytes.
        result: None as long as the container is being attached, and when that was never finished.
    """

    network: str
    attachment: Attachment
    config: bytes
    result: Result | None


def encode(cached: CachedResult) -> bytes:
    """``cached`` as libcni writes it, to the byte."""
    attachment = cached.attachment
    document: Object = {
        "kind": _KIND,
        "containerId": attachment.container_id,
        "config": base64.b64encode(cached.config).decode(),
        "ifName": attachment.ifname,
        "networkName": cached.network,
    }
    if attachment.netns:
        document["netns"] = attachment.netns
    if attachment.args:
        document["cniArgs"] = [[name, value] for name, value in attachment.args]
    if attachment.capabilities:
        document["capabilityArgs"] = dict(attachment.capabilities)
    if cached.result is not None:
        document["result"] = encode_result(cached.result)
    return documents.encode_as_go(document)


def decode(content: bytes, *, network: str, attachment: Attachment) -> CachedResult:
    """Read the file of ``attachment`` to ``network``.

    A file of before there were entries holds a bare result.

    Raises:
        ValueError: it is none of ours, or damaged.
    """
    document = _object(content)
    try:
        if _is_entry(document):
            return replace(_decode_entry(document), result=_result(document))
        return CachedResult(network, attachment, b"", result.parse(document, version=""))
    except (InvalidNetworkResult, InvalidAttachment, binascii.Error) as error:
        raise ValueError(str(error)) from error


def decode_listed(content: bytes) -> CachedResult:
    """Read a file to see whose it is.

    Its result is None when it is damaged: to detach a container without it is better than never to detach it.

    Raises:
        ValueError: it does not say whose it is.
    """
    document = _object(content)
    if not _is_entry(document):
        raise ValueError("is not a cached result")
    try:
        entry = _decode_entry(document)
    except (InvalidAttachment, binascii.Error) as error:
        raise ValueError(str(error)) from error
    try:
        return replace(entry, result=_result(document))
    except InvalidNetworkResult:
        return entry


def _object(content: bytes) -> Object:
    document = documents.parse(content)
    if not isinstance(document, dict):
        raise ValueError("is not an object")
    return document


def _is_entry(document: Object) -> bool:
    return member(document, "kind") == _KIND


def _result(document: Object) -> Result | None:
    given = member(document, "result")
    return None if given is None else result.parse(given, version="")


def _decode_entry(document: Object) -> CachedResult:
    """The entry without its result."""
    capabilities = member(document, "capabilityArgs")
    attachment = Attachment(
        _text(document, "containerId"),
        _text(document, "netns"),
        _text(document, "ifName"),
        tuple(_pair(each) for each in _list(document, "cniArgs")),
        capabilities if isinstance(capabilities, dict) else {},
    )
    config = base64.b64decode(_text(document, "config"), validate=True)
    return CachedResult(_text(document, "networkName"), attachment, config, None)


def _text(document: Object, name: str) -> str:
    value = member(document, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value


def _list(document: Object, name: str) -> list[Json]:
    value = member(document, name)
    return value if isinstance(value, list) else []


def _pair(value: Json) -> tuple[str, str]:
    match value:
        case [str(name), str(text)]:
            return name, text
        case _:
            raise ValueError("an entry of cniArgs is not a pair of texts")
