"""Volumes of a cluster, claims of them, and their classes. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/v1/defaults.go``, ``pkg/apis/core/validation/validation.go``,
``pkg/apis/storage/v1/defaults.go``, ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.stored.inactive.rows import inactive
from plugbay.objects.problems import FieldProblem, forbidden, required
from plugbay.printers import v1
from plugbay.printers.cells import UNSET, access_modes, columns, text
from plugbay.printers.tables import Cell, Column

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _claim(wanted: Json, before: Json | None) -> Json:
    spec = {"volumeMode": "Filesystem"} | v1.mapping(wanted, "spec")
    return wanted | {"spec": spec, "status": v1.mapping(wanted, "status") or {"phase": "Pending"}}


def _claim_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    spec = v1.mapping(value, "spec")
    if not v1.texts(spec, "accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if not v1.at(spec, "resources", "requests", "storage"):
        yield required("spec.resources[storage]")
    if before is not None and _fixed(spec) != _fixed(v1.mapping(before, "spec")):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", why)


def _fixed(spec: Json) -> Json:
    """The part of a claim that may not change; a volume is given to it later."""
    return {
        name: each
        for name, each in spec.items()
        if name not in ("resources", "volumeName", "volumeAttributesClassName")
    }


def _volume(wanted: Json, before: Json | None) -> Json:
    spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"} | v1.mapping(wanted, "spec")
    return wanted | {"spec": spec, "status": v1.mapping(wanted, "status") or {"phase": "Pending"}}


def _volume_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if not v1.texts(value, "spec", "accessModes"):
        yield required("spec.accessModes")
    if not v1.mapping(value, "spec", "capacity"):
        yield required("spec.capacity")


def _class(wanted: Json, before: Json | None) -> Json:
    return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"} | wanted


def _class_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if not v1.text(value, "provisioner"):
        yield required("provisioner")
    if before is not None:
        for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
            if value.get(name) != before.get(name):
                yield forbidden(name, f"updates to {name} are forbidden.")


def _bound_claim(volume: Json) -> Cell:
    claim = v1.mapping(volume, "spec", "claimRef")
    return f"{v1.text(claim, 'namespace')}/{v1.text(claim, 'name')}" if claim else ""


def _provisioner(value: Json) -> Cell:
    is_default = v1.text(value, "metadata", "annotations", _DEFAULT_CLASS) == "true"
    return v1.text(value, "provisioner") + (" (default)" if is_default else "")


_VOLUME_MODE: Final = (
    Column("VolumeMode", "A file system or a block device", is_wide=True),
    text("spec", "volumeMode", missing=UNSET),
)
_CLASS: Final = (Column("StorageClass", "Its class"), text("spec", "storageClassName"))
_ATTRIBUTES: Final = (
    Column("VolumeAttributesClass", "The class of its attributes"),
    text("spec", "volumeAttributesClassName", missing=UNSET),
)

STORAGE: Final = (
    inactive(
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        columns=columns(
            (Column("Status", "Pending, Bound or Lost"), text("status", "phase")),
            (Column("Volume", "The volume that it has"), text("spec", "volumeName")),
            (Column("Capacity", "The size of that volume"), text("status", "capacity", "storage")),
            (Column("Access Modes", "How it may be mounted"), access_modes("status", "accessModes")),
            _CLASS,
            _ATTRIBUTES,
            _VOLUME_MODE,
        ),
        has_status=True,
        prepare=_claim,
        check=_claim_problems,
    ),
    inactive(
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        is_namespaced=False,
        short_names=("pv",),
        columns=columns(
            (Column("Capacity", "Its size"), text("spec", "capacity", "storage")),
            (Column("Access Modes", "How it may be mounted"), access_modes("spec", "accessModes")),
            (Column("Reclaim Policy", "Its fate when it is released"), text("spec", "persistentVolumeReclaimPolicy")),
            (Column("Status", "Available, Bound, Released or Failed"), text("status", "phase")),
            (Column("Claim", "The claim that has it"), _bound_claim),
            _CLASS,
            _ATTRIBUTES,
            (Column("Reason", "The reason of its state"), text("status", "reason")),
            _VOLUME_MODE,
        ),
        has_status=True,
        prepare=_volume,
        check=_volume_problems,
    ),
    inactive(
        "storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        is_namespaced=False,
        short_names=("sc",),
        columns=columns(
            (Column("Provisioner", "The program that makes volumes"), _provisioner),
            (Column("ReclaimPolicy", "The fate of released volumes"), text("reclaimPolicy")),
            (Column("VolumeBindingMode", "When claims are bound"), text("volumeBindingMode")),
            (Column("AllowVolumeExpansion", "Whether volumes can grow"), text("allowVolumeExpansion", missing="false")),
        ),
        prepare=_class,
        check=_class_problems,
    ),
)
