"""The options of a deletion, from its address and its body. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/types.go`` (DeleteOptions),
``apiserver/pkg/registry/rest/delete.go``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeGuard

from plugbay.documents import Json
from plugbay.node.api.parameters import is_rehearsal, is_set, whole_number
from plugbay.node.api.refusals import conflict
from plugbay.node.api.resources import ApiResource
from plugbay.node.api.writing.bodies import body_of
from plugbay.ops.routing import HttpError, Request
from plugbay.printers import v1
from plugbay.values import dataclass

_KNOWN: Final = (
    "apiVersion",
    "kind",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "dryRun",
    "preconditions",
)


class Propagation(Enum):
    """The fate of the objects that a deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"

    @property
    def finalizers(self) -> tuple[str, ...]:
        """The finalizers of an object that is deleted so; whatever looks after its dependents takes them away."""
        return _FINALIZERS[self]


_FINALIZERS: Final[dict[Propagation, tuple[str, ...]]] = {
    Propagation.BACKGROUND: (),
    Propagation.FOREGROUND: ("foregroundDeletion",),
    Propagation.ORPHAN: ("orphan",),
}
PROPAGATION_FINALIZERS: Final = ("foregroundDeletion", "orphan")
"""All that a policy can stand for."""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The request of a client beside the name of the object.

    Attributes:
        grace_s: None for the object's own grace period.
        uid, version: those that the object must have; empty for any.
        propagation: None where the kind decides.
    """

    grace_s: int | None
    is_rehearsal: bool
    uid: str
    version: str
    propagation: Propagation | None

    def check(self, resource: ApiResource, value: Json) -> None:
        """Refuse the deletion of another object than the one that is meant.

        Raises:
            HttpError: 409.
        """
        for wanted, found, name, word in (
            (self.uid, v1.uid(value), "UID", "deleted and then recreated"),
            (self.version, v1.text(value, "metadata", "resourceVersion"), "ResourceVersion", "modified"),
        ):
            if wanted and wanted != found:
                why = f"the {name} in the precondition ({wanted}) does not match the {name} in record ({found})"
                raise conflict(resource, v1.name(value), f"{why}. The object might have been {word}")


AT_ONCE: Final = DeleteOptions(None, False, "", "", Propagation.BACKGROUND)
"""The deletion of an object, whichever it is, and then of what it owns."""


def delete_options(request: Request) -> DeleteOptions:
    """Read the address and the body of a deletion; the body counts.

    Raises:
        HttpError: 400, it asks for something that the node does not do.
    """
    options = body_of(request) if request.body else {}
    if not isinstance(options, dict):
        raise HttpError(400, "BadRequest", "the body must be DeleteOptions, or nothing")
    if refused := sorted(name for name, value in options.items() if name not in _KNOWN and value):
        raise HttpError(400, "BadRequest", f"{', '.join(refused)} in DeleteOptions is not supported")
    rehearsal = options.get("dryRun") or []
    if rehearsal not in ([], ["All"]):
        raise HttpError(400, "BadRequest", 'dryRun in DeleteOptions must be ["All"]')
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is None:
        grace_s = whole_number(request, "gracePeriodSeconds")
    elif not is_grace(grace_s):
        raise HttpError(400, "BadRequest", "gracePeriodSeconds in DeleteOptions must be a whole number")
    conditions = options.get("preconditions") or {}
    if not isinstance(conditions, dict) or not all(
        name in ("uid", "resourceVersion") and isinstance(value, str | None) for name, value in conditions.items()
    ):
        raise HttpError(400, "BadRequest", "preconditions in DeleteOptions may be uid and resourceVersion, as texts")
    return DeleteOptions(
        grace_s,
        bool(rehearsal) or is_rehearsal(request),
        conditions.get("uid") or "",
        conditions.get("resourceVersion") or "",
        _propagation(request, options),
    )


def is_grace(value: object) -> TypeGuard[int]:
    """Whether ``value`` can be a grace period, in seconds; a longer one has no date at its end."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _propagation(request: Request, options: Json) -> Propagation | None:
    policy = options.get("propagationPolicy") or request.query.get("propagationPolicy") or None
    orphan = options.get("orphanDependents")
    if orphan is None and "orphanDependents" in request.query:
        orphan = is_set(request, "orphanDependents")
    if policy is not None and orphan is not None:
        raise HttpError(400, "BadRequest", "propagationPolicy and orphanDependents cannot both be set")
    if orphan is not None:
        return Propagation.ORPHAN if orphan is True else Propagation.BACKGROUND
    try:
        return None if policy is None else Propagation(policy)
    except ValueError:
        problem = f"propagationPolicy in DeleteOptions must be Background, Foreground or Orphan, not {policy!r}"
        raise HttpError(400, "BadRequest", problem) from None
