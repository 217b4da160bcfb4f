"""CustomResourceDefinitions: what makes one, and which of their names can be served. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``,
``pkg/apis/apiextensions/v1/defaults.go``, ``pkg/controller/status/naming_controller.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.model import dns
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.custom.formats import unknown_formats
from plugbay.node.api.stored.custom.versions import column_remarks, version_problems
from plugbay.node.api.stored.rows import row
from plugbay.objects.metadata import LABEL_RULE, SUBDOMAIN_RULE
from plugbay.objects.problems import FieldProblem, invalid, not_supported, required
from plugbay.printers import v1
from plugbay.printers.cells import columns, created
from plugbay.printers.tables import Column

_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_HELP: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*://[^/?#]")
CLEAN_UP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a definition until the objects of its kind are gone."""


def _definition(wanted: Json, before: Json | None) -> Json:
    spec = v1.mapping(wanted, "spec")
    names = v1.mapping(spec, "names")
    kind = v1.text(names, "kind")
    names = {"singular": kind.lower(), "listKind": f"{kind}List"} | names
    metadata = v1.mapping(wanted, "metadata")
    if before is None:
        held = [each for each in v1.texts(metadata, "finalizers") if each != CLEAN_UP]
        metadata = metadata | {"finalizers": [*held, CLEAN_UP]}
    spec = spec | {"names": names, "conversion": v1.mapping(spec, "conversion") or {"strategy": "None"}}
    return wanted | {"metadata": metadata, "spec": spec}


def _definition_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    group, plural = v1.text(spec, "group"), v1.text(spec, "names", "plural")
    if (name := v1.name(value)) != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif not dns.is_subdomain(group) or "." not in group:
        yield invalid(
            "spec.group", group, "should be a domain with at least one dot" if "." not in group else SUBDOMAIN_RULE
        )
    if (scope := v1.text(spec, "scope")) not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ["Cluster", "Namespaced"])
    for field in ("plural", "kind"):
        found = v1.text(spec, "names", field)
        if not found:
            yield required(f"spec.names.{field}")
        elif not dns.is_label(found.lower()):
            yield invalid(f"spec.names.{field}", found, LABEL_RULE)
    if (strategy := v1.text(spec, "conversion", "strategy")) != "None":
        yield not_supported("spec.conversion.strategy", strategy, ["None"])
    if spec.get("preserveUnknownFields") is True:
        yield invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    yield from version_problems(spec)
    yield from _approval_problems(value, before)
    yield from _stored_version_problems(value)
    if before is not None:
        for path in (("scope",), ("group",), ("names", "plural"), ("names", "kind")):
            if v1.at(spec, *path) != v1.at(before, "spec", *path):
                yield invalid(f"spec.{'.'.join(path)}", v1.at(spec, *path), "field is immutable")


def _approval_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    """Problems of a definition in one of Kubernetes' own groups; one that is there already may stay as it is."""
    group = v1.text(value, "spec", "group")
    if group not in _PROTECTED and not group.endswith(tuple(f".{each}" for each in _PROTECTED)):
        return
    approval = v1.text(value, "metadata", "annotations", _APPROVAL)
    if before is not None and _is_approved(v1.text(before, "metadata", "annotations", _APPROVAL)) is _is_approved(
        approval
    ):
        return
    where, rule = f"metadata.annotations[{_APPROVAL}]", f'protected groups must have approval annotation "{_APPROVAL}"'
    if not approval:
        yield required(where, f"{rule}, {_APPROVAL_HELP}")
    elif not _is_approved(approval):
        why = f'{rule} with either a URL or a reason starting with "unapproved", {_APPROVAL_HELP}'
        yield invalid(where, approval, why)


def _is_approved(approval: str) -> bool:
    """Whether an approval is the URL of one, or a reason why there is none."""
    return approval.startswith("unapproved") or _URL.match(approval) is not None


def _stored_version_problems(value: Json) -> Iterator[FieldProblem]:
    """A version in which objects may be stored cannot go."""
    named = [v1.text(each, "name") for each in v1.objects(value, "spec", "versions")]
    for at, stored in enumerate(v1.texts(value, "status", "storedVersions")):
        if stored not in named:
            rule = (
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {stored} and removes "
                f"{stored} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{at}]", stored, rule)


def has_expressions(schema: object) -> bool:
    """Whether a schema has rules in CEL, which the node does not evaluate."""
    if isinstance(schema, list):
        return any(map(has_expressions, schema))
    return isinstance(schema, dict) and (
        "x-kubernetes-validations" in schema or any(map(has_expressions, schema.values()))
    )


def _remarks(value: Json) -> tuple[str, ...]:
    versions = v1.objects(value, "spec", "versions")
    schemas = [v1.mapping(each, "schema") for each in versions]
    remarks = [f'unrecognized format "{form}"' for form in sorted(set(unknown_formats(schemas)))]
    remarks += [remark for each in versions for remark in column_remarks(each)]
    if has_expressions(versions):
        remarks.append("x-kubernetes-validations are stored, and this node does not evaluate them")
    return tuple(remarks)


def name_conflict(definition: Json, others: Iterable[Json], built_in: Iterable[ApiResource]) -> str:
    """The problem with the names of a definition beside those that came before; empty when there is none."""
    group = v1.text(definition, "spec", "group")
    names = v1.mapping(definition, "spec", "names")
    taken = [(each.plural, each.kind) for each in built_in if each.group == group]
    for other in others:
        if v1.text(other, "spec", "group") == group and v1.name(other) != v1.name(definition):
            taken.append((v1.text(other, "spec", "names", "plural"), v1.text(other, "spec", "names", "kind")))
    for plural, kind in taken:
        if plural == v1.text(names, "plural"):
            return f'"{plural}" is already in use'
        if kind == v1.text(names, "kind"):
            return f'"{kind}" is already in use'
    return ""


def settled(definition: Json, problem: str, now: str) -> Json:
    """``definition`` with the status that tells whether it is served; ``problem`` is that of its names."""
    names = v1.mapping(definition, "spec", "names")
    [stored] = [
        v1.text(each, "name") for each in v1.objects(definition, "spec", "versions") if each.get("storage") is True
    ]
    accepted = ("False", "NameConflict", problem) if problem else ("True", "NoConflicts", "no conflicts found")
    established = (
        ("False", "NotAccepted", "not all names are accepted")
        if problem
        else ("True", "InitialNamesAccepted", "the initial names have been accepted")
    )
    before = {v1.text(each, "type"): each for each in v1.objects(definition, "status", "conditions")}
    conditions = [
        _condition(kind, *told, before.get(kind, {}), now)
        for kind, told in (("NamesAccepted", accepted), ("Established", established))
    ]
    versions = v1.texts(definition, "status", "storedVersions")
    status: Json = {
        "conditions": conditions,
        "acceptedNames": {} if problem else names,
        "storedVersions": [*versions, *([] if stored in versions else [stored])],
    }
    return definition | {"status": status}


def _condition(kind: str, status: str, reason: str, message: str, before: Json, now: str) -> Json:
    since = v1.text(before, "lastTransitionTime") if v1.text(before, "status") == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


DEFINITIONS: Final = row(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    stored=StoredKind(prepare=_definition, check=_definition_problems, has_generation=True, remarks=_remarks),
    is_namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    columns=columns((Column("Created At", "When it was made"), created), has_age=False),
    has_status=True,
)
