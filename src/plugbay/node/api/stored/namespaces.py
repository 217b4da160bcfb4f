"""Namespaces. Pure.

Source: Kubernetes 1.36 ``pkg/registry/core/namespace/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.field_selectors import selectable
from plugbay.node.api.resources import StoredKind, Subresource
from plugbay.node.api.stored.rows import VERBS, row
from plugbay.objects.metadata import label_rule
from plugbay.printers import tables, v1

ALWAYS: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that every cluster has."""
IMMORTAL: Final = ("default", "kube-public", "kube-system")
"""Namespaces that cannot be deleted."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"


def _namespace(wanted: Json, before: Json | None) -> Json:
    labels = v1.mapping(wanted, "metadata", "labels") | {NAME_LABEL: v1.name(wanted)}
    metadata = v1.mapping(wanted, "metadata") | {"labels": labels}
    finalizers = ["kubernetes"] if before is None else v1.texts(before, "spec", "finalizers")
    status = {"phase": "Active"} | v1.mapping(wanted, "status")
    return wanted | {"metadata": metadata, "spec": {"finalizers": finalizers}, "status": status}


def _terminating(value: Json) -> Json:
    return value | {"status": v1.mapping(value, "status") | {"phase": "Terminating"}}


def content_conditions(namespace: Json, left: Mapping[str, int], finalizers: Mapping[str, int], now: str) -> list[Json]:
    """The conditions of a namespace that is being deleted.

    Args:
        left: the number of objects that are still in it, by kind.
        finalizers: the number of those that wait, by what they wait for.

    Source: Kubernetes 1.36 ``pkg/controller/namespace/deletion/status_condition_utils.go``.
    """
    kinds = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(left.items()))
    holds = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    told = [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            False,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            False,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            bool(left),
            "SomeResourcesRemain" if left else "ContentRemoved",
            f"Some resources are remaining: {kinds}" if left else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            bool(finalizers),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {holds}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
    before = {v1.text(each, "type"): each for each in v1.objects(namespace, "status", "conditions")}
    conditions: list[Json] = []
    for kind, holds_true, reason, message in told:
        status, known = str(holds_true), before.get(kind, {})
        since = v1.text(known, "lastTransitionTime") if v1.text(known, "status") == status else now
        conditions.append(
            {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
        )
    return conditions


NAMESPACES: Final = row(
    "v1",
    "namespaces",
    "Namespace",
    stored=StoredKind(prepare=_namespace, ending=_terminating, name_rule=label_rule),
    is_namespaced=False,
    short_names=("ns",),
    columns=tables.NAMESPACES,
    fields=selectable("status.phase"),
    subresources=(Subresource("finalize", "Namespace", ("update",)),),
    has_status=True,
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
)
