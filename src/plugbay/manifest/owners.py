"""Owner references between their v1 shape and our values, and the API server's checks of them.

Source: Kubernetes 1.36 ``apimachinery/pkg/api/validation/objectmeta.go``, ``ValidateOwnerReferences``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypedDict

from plugbay.manifest.report import ManifestReport
from plugbay.model.field_path import FieldPath
from plugbay.model.owners import OwnerReference

_PATH: Final[FieldPath] = ("metadata", "ownerReferences")


class V1OwnerReference(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool
    blockOwnerDeletion: bool


def owners_of(v1: Iterable[V1OwnerReference]) -> tuple[OwnerReference, ...]:
    """``metadata.ownerReferences`` as values."""
    return tuple(
        OwnerReference(
            each.get("apiVersion", ""),
            each.get("kind", ""),
            each.get("name", ""),
            each.get("uid", ""),
            is_controller=each.get("controller", False),
            blocks_deletion=each.get("blockOwnerDeletion", False),
        )
        for each in v1
    )


def owners_to_v1(owners: Iterable[OwnerReference]) -> list[dict[str, object]]:
    """The list that `owners_of` reads."""
    return [_owner_to_v1(each) for each in owners]


def _owner_to_v1(owner: OwnerReference) -> dict[str, object]:
    v1: dict[str, object] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.is_controller:
        v1["controller"] = True
    if owner.blocks_deletion:
        v1["blockOwnerDeletion"] = True
    return v1


def check_owners(owners: Sequence[OwnerReference], report: ManifestReport) -> None:
    """Report references that lack a part, and a second controller."""
    for index, owner in enumerate(owners):
        for name, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                report.problem((*_PATH, index, name), "Required value: must not be empty")
    controllers = [each.name for each in owners if each.is_controller]
    if len(controllers) > 1:
        problem = 'Only one reference can have Controller set to true. Found "true" in references for '
        report.problem(_PATH, problem + f"{controllers[0]} and {controllers[1]}")
