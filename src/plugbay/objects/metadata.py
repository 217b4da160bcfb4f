"""The metadata of objects: what a client may say, what the server fills in, and what stays. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/api/validation/objectmeta.go``, ``apiserver/pkg/registry/rest/create.go``,
``update.go``, ``delete.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from plugbay.documents import Json
from plugbay.model import dns
from plugbay.objects.problems import FieldProblem, forbidden, invalid, required, too_long
from plugbay.printers import v1

MAX_GENERATED_BASE: Final = 58
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_OURS: Final = (
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Fields that only the server sets."""
_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "generateName", "namespace")
"""Fields that are left out when they are empty."""

NameRule = Callable[[str], str]
"""Says the problem with a name; empty when there is none."""


def subdomain_rule(name: str) -> str:
    return "" if dns.is_subdomain(name) else SUBDOMAIN_RULE


def label_rule(name: str) -> str:
    return "" if dns.is_label(name) else LABEL_RULE


def path_segment_rule(name: str) -> str:
    """Names that need only be one segment of a path, as those of roles."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{each}'" for each in "/%" if each in name), "")


# --- the life of an object -------------------------------------------------------------------------------------------


def born(value: Json, *, namespace: str, uid: str, now: str, suffix: str, has_generation: bool) -> Json:
    """A new object as it is stored, its resource version aside.

    Args:
        namespace: empty for a kind without namespaces.
        suffix: five random characters; they complete ``generateName`` when there is no name.
        now: the moment, as v1 writes it.
        has_generation: whether the kind counts the changes of its specification.
    """
    wanted = v1.mapping(value, "metadata")
    metadata = {name: each for name, each in wanted.items() if name not in _OURS}
    if not metadata.get("name") and (base := v1.text(wanted, "generateName")):
        metadata["name"] = base[:MAX_GENERATED_BASE] + suffix
    if namespace:
        metadata["namespace"] = namespace
    metadata |= {"uid": uid, "creationTimestamp": now}
    if has_generation:
        metadata["generation"] = 1
    return value | {"metadata": _without_empty(metadata)}


def succeeded(before: Json, wanted: Json, *, has_generation: bool) -> Json:
    """``wanted`` as the state after ``before``: the server's fields stay; the generation grows when more than metadata
    and status changed."""
    old = v1.mapping(before, "metadata")
    metadata = {name: each for name, each in v1.mapping(wanted, "metadata").items() if name not in _OURS}
    metadata |= {name: old[name] for name in ("name", "namespace", *_OURS) if name in old}
    if has_generation and _specified(before) != _specified(wanted):
        metadata["generation"] = v1.number(old, "generation") + 1
    return wanted | {"metadata": _without_empty(metadata)}


def deleting(value: Json, *, now: str, finalizers: tuple[str, ...] = (), has_generation: bool = False) -> Json:
    """``value`` on its way out: it stays until its finalizers are gone.

    Args:
        finalizers: more of them, such as ``foregroundDeletion``.
    """
    old = v1.mapping(value, "metadata")
    held = [*v1.texts(old, "finalizers")]
    metadata = old | {"finalizers": [*held, *(each for each in finalizers if each not in held)]}
    if "deletionTimestamp" not in old:
        metadata |= {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
        if has_generation:
            metadata["generation"] = v1.number(old, "generation") + 1
    return value | {"metadata": _without_empty(metadata)}


def is_deleting(value: Json) -> bool:
    return bool(v1.text(value, "metadata", "deletionTimestamp"))


def is_gone(value: Json) -> bool:
    """Whether a deleted object has nothing left to wait for; a namespace waits for what is in it, too."""
    waits_for = v1.texts(value, "metadata", "finalizers")
    if value.get("kind") == "Namespace":
        waits_for = waits_for + v1.texts(value, "spec", "finalizers")
    return is_deleting(value) and not waits_for


def with_version(value: Json, version: int) -> Json:
    return value | {"metadata": v1.mapping(value, "metadata") | {"resourceVersion": str(version)}}


def _specified(value: Json) -> Json:
    return {name: each for name, each in value.items() if name not in ("metadata", "status", "apiVersion")}


def _without_empty(metadata: Json) -> Json:
    return {name: each for name, each in metadata.items() if each or name not in _EMPTY}


# --- checks ----------------------------------------------------------------------------------------------------------


def metadata_problems(value: Json, name_rule: NameRule) -> Iterator[FieldProblem]:
    """Problems for which an API server refuses the metadata of any object."""
    name, base = v1.name(value), v1.text(value, "metadata", "generateName")
    if not name and not base:
        yield required("metadata.name", "name or generateName is required")
    if base and (problem := name_rule(base.rstrip("-") or "-")):
        yield invalid("metadata.generateName", base, problem)
    if name and (problem := name_rule(name)):
        yield invalid("metadata.name", name, problem)
    yield from label_problems(v1.mapping(value, "metadata", "labels"), "metadata.labels")
    annotations = v1.mapping(value, "metadata", "annotations")
    for key in annotations:
        if problem := _key_problem(key.lower()):
            yield invalid("metadata.annotations", key, problem)
    if sum(len(key.encode()) + len(str(each).encode()) for key, each in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        yield too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES)
    for finalizer in v1.texts(value, "metadata", "finalizers"):
        if problem := _key_problem(finalizer):
            yield invalid("metadata.finalizers", finalizer, problem)
    yield from _owner_problems(value)


def label_problems(labels: Mapping[str, object], field: str) -> Iterator[FieldProblem]:
    for key, each in labels.items():
        if problem := _key_problem(key):
            yield invalid(field, key, problem)
        if each and not dns.is_name(str(each)):
            yield invalid(field, each, _LABEL_VALUE_RULE)


def update_problems(before: Json, wanted: Json) -> Iterator[FieldProblem]:
    """Problems for which an API server refuses the metadata of a changed object, beyond `metadata_problems`."""
    added = set(v1.texts(wanted, "metadata", "finalizers")) - set(v1.texts(before, "metadata", "finalizers"))
    if is_deleting(before) and added:
        names = ", ".join(f'"{each}"' for each in sorted(added))
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        yield forbidden("metadata.finalizers", f"{why} []string{{{names}}}")


def _key_problem(key: str) -> str:
    domain, slash, name = key.rpartition("/")
    if slash and not dns.is_subdomain(domain):
        return f"prefix part {SUBDOMAIN_RULE}"
    return "" if dns.is_name(name) else _QUALIFIED_RULE


def _owner_problems(value: Json) -> Iterator[FieldProblem]:
    owners = v1.objects(value, "metadata", "ownerReferences")
    for index, owner in enumerate(owners):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not v1.text(owner, name):
                yield invalid(f"metadata.ownerReferences[{index}].{name}", "", f"{name} must not be empty")
    controllers = [v1.text(owner, "kind") for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        shown = " and ".join(controllers[:2])
        rule = f'Only one reference can have Controller set to true. Found "true" in references for {shown}'
        yield invalid("metadata.ownerReferences", owners, rule)
