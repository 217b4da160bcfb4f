"""Config maps and secrets. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go`` (ValidateConfigMap, ValidateSecret),
``pkg/registry/core/secret/strategy.go``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.field_selectors import selectable
from plugbay.node.api.refusals import unreadable
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.rows import row
from plugbay.objects.problems import FieldProblem, forbidden, invalid, required, too_long
from plugbay.printers import stored, v1

MAX_BYTES: Final = 1024 * 1024
"""The most that the values of a config map or a secret may have together."""
_MAX_KEY: Final = 253
_KEY: Final = re.compile("[-._a-zA-Z0-9]+")
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that a secret of a type must have."""
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_TOKEN: Final = "kubernetes.io/service-account-token"


def _config_map_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    texts, blobs = v1.mapping(value, "data"), v1.mapping(value, "binaryData")
    for key in texts:
        yield from _key_problems("data", key)
        if key in blobs:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in blobs:
        yield from _key_problems("binaryData", key)
    if sum(len(str(each).encode()) for each in texts.values()) + _decoded_size(blobs) > MAX_BYTES:
        yield too_long("", MAX_BYTES)
    yield from _immutable_problems(value, before, ("data", "binaryData"))


def _secret_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    held, kind = v1.mapping(value, "data"), v1.text(value, "type")
    for key in held:
        yield from _key_problems("data", key)
    if _decoded_size(held) > MAX_BYTES:
        yield too_long("data", MAX_BYTES)
    for key in _NEEDED.get(kind, ()):
        if key not in held:
            yield required(f"data[{key}]")
    if kind.startswith("kubernetes.io/dockerc") and (config := held.get(_NEEDED[kind][0])) is not None:
        try:
            json.loads(base64.b64decode(str(config)))
        except ValueError:
            yield invalid(f"data[{_NEEDED[kind][0]}]", "<secret contents redacted>", "must be JSON")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & held.keys():
        yield required("data[username]")
        yield required("data[password]")
    if kind == _TOKEN and not v1.text(value, "metadata", "annotations", _ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")
    if before is not None and v1.text(before, "type") != kind:
        yield invalid("type", kind, "field is immutable")
    yield from _immutable_problems(value, before, ("data",))


def _immutable_problems(value: Json, before: Json | None, names: tuple[str, ...]) -> Iterator[FieldProblem]:
    if before is None or before.get("immutable") is not True:
        return
    if value.get("immutable") is not True:
        yield forbidden("immutable", _IMMUTABLE)
    for name in names:
        if v1.mapping(value, name) != v1.mapping(before, name):
            yield forbidden(name, _IMMUTABLE)


def _key_problems(field: str, key: str) -> Iterator[FieldProblem]:
    where = f"{field}[{key}]"
    if len(key) > _MAX_KEY:
        yield invalid(where, key, f"must be no more than {_MAX_KEY} characters")
    if not _KEY.fullmatch(key):
        yield invalid(where, key, _KEY_RULE)
    elif key in (".", ".."):
        yield invalid(where, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid(where, key, "must not start with '..'")


def _decoded_size(blobs: Json) -> int:
    """The bytes that base64 texts stand for; they have been read before."""
    return sum(len(text) * 3 // 4 - text.count("=", -2) for text in map(str, blobs.values()))


def _config_map(wanted: Json, before: Json | None) -> Json:
    _check_base64(CONFIG_MAPS, "binaryData", wanted)
    return _without_empty(wanted, "data", "binaryData")


def _secret(wanted: Json, before: Json | None) -> Json:
    """``stringData`` goes into ``data``; it is only written, and never read."""
    _check_base64(SECRETS, "data", wanted)
    plain = {name: base64.b64encode(str(text).encode()).decode() for name, text in _plain(wanted).items()}
    secret = {name: each for name, each in wanted.items() if name != "stringData"}
    secret["data"] = v1.mapping(wanted, "data") | plain
    secret["type"] = v1.text(wanted, "type") or "Opaque"
    return _without_empty(secret, "data")


def _secret_remarks(value: Json) -> tuple[str, ...]:
    if v1.text(value, "type") != _TOKEN or "token" in v1.mapping(value, "data"):
        return ()
    return ("this node puts no token into a secret; a TokenRequest gives one (kubectl create token)",)


def _plain(wanted: Json) -> Json:
    return v1.mapping(wanted, "stringData")


def _check_base64(resource: ApiResource, field: str, value: Json) -> None:
    for text in v1.mapping(value, field).values():
        try:
            base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError):
            raise unreadable(resource, f"{field}: illegal base64 data") from None


def _without_empty(value: Json, *names: str) -> Json:
    return {name: each for name, each in value.items() if name not in names or each}


CONFIG_MAPS: Final = row(
    "v1",
    "configmaps",
    "ConfigMap",
    stored=StoredKind(prepare=_config_map, check=_config_map_problems),
    short_names=("cm",),
    columns=stored.CONFIG_MAPS,
)
SECRETS: Final = row(
    "v1",
    "secrets",
    "Secret",
    stored=StoredKind(prepare=_secret, check=_secret_problems, remarks=_secret_remarks),
    columns=stored.SECRETS,
    fields=selectable("type"),
)
