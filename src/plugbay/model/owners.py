"""Owner references: the objects that another object belongs to, and is deleted with. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/types.go``, ``controller_ref.go``.
"""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """One owner, in the namespace of what it owns or in none.

    Attributes:
        is_controller: whether this owner manages the object; of one object at most one does.
        blocks_deletion: whether the owner, deleted in the foreground, has to wait for the object.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    is_controller: bool = False
    blocks_deletion: bool = False


def controller_of(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    """The owner that manages the object."""
    return next((each for each in owners if each.is_controller), None)
