"""The things that a controller decides to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.model.owners import OwnerReference
from plugbay.node.controllers.seen_pods import Claim, SeenPod
from plugbay.values import dataclass

APPS: Final = "apps/v1"
BATCH: Final = "batch/v1"


@dataclass(frozen=True, slots=True)
class CreatePod:
    """``value`` is a v1 Pod with a base for its name."""

    value: Json


@dataclass(frozen=True, slots=True)
class RemovePod:
    pod: SeenPod


@dataclass(frozen=True, slots=True)
class EditPod:
    """Give ``pod`` these owners and finalizers."""

    pod: SeenPod
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Make a stored object; it is in the namespace that its metadata says."""

    plural: str
    value: Json


@dataclass(frozen=True, slots=True)
class ReplaceObject:
    """Replace a stored object, found by its name and namespace."""

    plural: str
    value: Json


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete a stored object; what it owns goes in the background, or in the foreground before it."""

    plural: str
    value: Json
    in_foreground: bool = False


@dataclass(frozen=True, slots=True)
class Tell:
    """Record an event about the object that is looked after."""

    reason: str
    message: str
    is_warning: bool = False


Action: TypeAlias = CreatePod | RemovePod | EditPod | CreateObject | ReplaceObject | DeleteObject | Tell


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """The next steps for one object.

    Attributes:
        again_s: look again after so many seconds, if nothing else makes one look; None for never.
    """

    actions: Sequence[Action] = ()
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class StatusOutcome:
    """The status of an object, and when time alone will change it.

    Attributes:
        events: recorded when the status is.
    """

    status: Json
    again_s: float | None = None
    events: Sequence[Tell] = ()


@dataclass(frozen=True, slots=True)
class Children:
    """Everything in the namespace of an object that may belong to it.

    Attributes:
        stored: stored objects by their plural.
        runs_here: whether a pod of a DaemonSet's template may start on the node.
        stays_here: whether such a pod may go on running there.
    """

    pods: Sequence[SeenPod] = ()
    stored: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    runs_here: bool = True
    stays_here: bool = True


def claimed(claim: Claim, pods: Sequence[SeenPod], owner: OwnerReference) -> list[Action]:
    """The adoptions and releases that make ``pods`` fit the claim."""
    adopted: list[Action] = [EditPod(each, (*each.owners, owner), each.finalizers) for each in claim.adoptable(pods)]
    return adopted + [
        EditPod(each, tuple(ref for ref in each.owners if ref.uid != claim.uid), each.finalizers)
        for each in claim.released(pods)
    ]


def soonest(*seconds: float | None) -> float | None:
    """The shortest of several waits; None when none of them ends."""
    return min((each for each in seconds if each is not None), default=None)
