"""Namespaces. Pure.

Source: Kubernetes 1.36 ``pkg/registry/core/namespace/strategy.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api.field_selectors import NAMESPACE_FIELDS
from plugbay.node.api.resources import StoredKind
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


NAMESPACES: Final = row(
    "v1",
    "namespaces",
    "Namespace",
    stored=StoredKind(prepare=_namespace, ending=_terminating, name_rule=label_rule),
    is_namespaced=False,
    short_names=("ns",),
    columns=tables.NAMESPACES,
    fields=NAMESPACE_FIELDS,
    has_status=True,
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
)
