"""Pod templates: the pods that are made of them, and their hashes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plugbay.documents import Json
from plugbay.kubelet.fnv import fnv1a
from plugbay.manifest.defaults import with_spec_defaults
from plugbay.manifest.owners import owners_to_v1
from plugbay.model.owners import OwnerReference
from plugbay.printers import v1

HASH_LABEL: Final = "pod-template-hash"
_PLAIN_FLAGS: Final = frozenset({"hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty"})
"""Flags of a pod whose absence means false; with others it means that something else decides."""
_PLAIN_NUMBERS: Final = frozenset({"hostPort", "initialDelaySeconds"})
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Json, collisions: int = 0) -> str:
    """A short text that changes with the template. It differs from the text that a cluster makes of it.

    Args:
        collisions: how often the name that it became part of was taken.

    Source: Kubernetes 1.36 ``controller_utils.go``, ``ComputeHash``; ``util/rand``, ``SafeEncodeString``.
    """
    text = json.dumps(normal_template(template), sort_keys=True, separators=(",", ":"))
    number = fnv1a(f"{text}{collisions or ''}".encode())
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def normal_template(template: Json) -> Json:
    """``template`` with all defaults, and without what means the same as nothing: some clients leave these out.

    So a template that went through ``kubectl rollout undo`` is the one that it was, and so is one that an earlier
    version stored with fewer defaults.
    """
    metadata = {name: each for name, each in v1.mapping(template, "metadata").items() if each}
    spec = _without_nothing(with_spec_defaults(v1.mapping(template, "spec")))
    return {"metadata": metadata, "spec": spec}


def _without_nothing(value: object) -> object:
    if isinstance(value, list):
        return [_without_nothing(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_nothing(each) for name, each in value.items()}
    return {name: each for name, each in kept.items() if not _means_nothing(name, each)}


def _means_nothing(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return not value and name in _PLAIN_FLAGS
    return value in (None, "", [], {}) or (value == 0 and name in _PLAIN_NUMBERS)


def without_hash(template: Json) -> Json:
    """``template`` as it was before a controller put the label with its hash there."""
    labels = {key: value for key, value in v1.mapping(template, "metadata", "labels").items() if key != HASH_LABEL}
    return {**template, "metadata": {**v1.mapping(template, "metadata"), "labels": labels}}


def with_labels(template: Json, labels: Mapping[str, str]) -> Json:
    metadata = v1.mapping(template, "metadata")
    return {**template, "metadata": {**metadata, "labels": {**v1.mapping(metadata, "labels"), **labels}}}


def controller_reference(api_version: str, kind: str, value: Json) -> OwnerReference:
    """The reference to ``value`` for what it controls."""
    return OwnerReference(api_version, kind, v1.name(value), v1.uid(value), is_controller=True, blocks_deletion=True)


def pod_of_template(template: Json, namespace: str, owner: OwnerReference, **more: object) -> Json:
    """The v1 Pod that ``template`` describes, without a name.

    Args:
        more: further fields of its metadata.
    """
    metadata = v1.mapping(template, "metadata")
    kept = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner.name}-",
            "namespace": namespace,
            **kept,
            "ownerReferences": owners_to_v1([owner]),
            **more,
        },
        "spec": v1.mapping(template, "spec"),
    }
