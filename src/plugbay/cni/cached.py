"""One entry of the result cache, in libcni's format. Pure.

Other programs read and write these files: we read the files of libcni 1.0 to 1.3, and libcni reads ours.

Source: libcni 1.3 ``api.go``, ``cachedInfo``.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import Final

from plugbay.cni import result
from plugbay.cni.chain import Attachment
from plugbay.cni.result import Result
from plugbay.cni.result_encoding import encode as encode_result
from plugbay.documents import JsonObject, JsonValue, go_json
from plugbay.documents.go_json import member
from plugbay.errors import InvalidAttachment, InvalidNetworkResult
from plugbay.values import dataclass

_KIND: Final = "cniCacheV1"


@dataclass(frozen=True, slots=True)
class CachedResult:
    """The result that a network gave a container, and the request for it.

    Attributes:
        config: the configuration list as bytes.
        result: None while the container is being attached, and if that was never finished.
    """

    network: str
    attachment: Attachment
    config: bytes
    result: Result | None


def encode(cached: CachedResult) -> bytes:
    """``cached`` as libcni writes it, to the byte."""
    attachment = cached.attachment
    document: JsonObject = {
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
    return go_json.structure(document).encode()


def decode(content: bytes, *, network: str, attachment: Attachment) -> CachedResult:
    """Read the file of ``attachment`` to ``network``.

    A file from before there were entries holds a bare result.

    Raises:
        ValueError: it is not a cached result, or damaged.
    """
    document = _object(content)
    try:
        if _is_entry(document):
            return replace(_decode_entry(document), result=_result(document))
        return CachedResult(network, attachment, b"", result.parse(document, version=""))
    except (InvalidNetworkResult, InvalidAttachment, binascii.Error) as error:
        raise ValueError(str(error)) from error


def decode_listed(content: bytes) -> CachedResult:
    """Read the container and network that a file belongs to.

    Its result is None when it is damaged: to detach a container without it is better than never to detach it.

    Raises:
        ValueError: the file does not name them.
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


def _object(content: bytes) -> JsonObject:
    document = go_json.parse_plain(content)
    if not isinstance(document, dict):
        raise ValueError("is not an object")
    return document


def _is_entry(document: JsonObject) -> bool:
    return member(document, "kind") == _KIND


def _result(document: JsonObject) -> Result | None:
    given = member(document, "result")
    return None if given is None else result.parse(given, version="")


def _decode_entry(document: JsonObject) -> CachedResult:
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


def _text(document: JsonObject, name: str) -> str:
    value = member(document, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value


def _list(document: JsonObject, name: str) -> list[JsonValue]:
    value = member(document, name)
    return value if isinstance(value, list) else []


def _pair(value: JsonValue) -> tuple[str, str]:
    match value:
        case [str(name), str(text)]:
            return name, text
        case _:
            raise ValueError("an entry of cniArgs is not a pair of texts")
