"""Decides about objects whose owners are deleted. Pure.

Source: Kubernetes 1.36 ``pkg/controller/garbagecollector/garbagecollector.go`` (``attemptToDeleteItem``,
``processDeletingDependentsItem``, ``orphanDependents``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final, TypeAlias

from plugbay.model.owners import OwnerReference
from plugbay.objects.table import ObjectKey
from plugbay.values import dataclass

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


class OwnerState(Enum):
    """The state of an owner that a reference names."""

    PRESENT = "present"
    WAITING = "waiting"
    """It is deleted in the foreground, and waits for what it owns."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """The part of any object that the collection of garbage decides by."""

    key: ObjectKey
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    is_deleting: bool = False

    @property
    def waits_for_dependents(self) -> bool:
        return self.is_deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.is_deleting and ORPHAN in self.finalizers


@dataclass(frozen=True, slots=True)
class Removal:
    """Delete the object; ``policy`` is a finalizer, or empty for the background."""

    key: ObjectKey
    uid: str
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Disowning:
    """Give the object these owners and finalizers."""

    key: ObjectKey
    uid: str
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]


Collection: TypeAlias = Removal | Disowning


def collect(
    item: OwnedObject,
    dependents: Sequence[OwnedObject],
    state_of: Callable[[OwnerReference], OwnerState],
) -> list[Collection]:
    """The next steps for ``item``, as an owner and as something that is owned.

    Args:
        dependents: the objects that name it as an owner.
        state_of: the state of an owner of ``item``.
    """
    if item.is_deleting:
        return [*_as_owner(item, dependents)]
    if not item.owners:
        return []
    states = {owner: state_of(owner) for owner in item.owners}
    kept = tuple(owner for owner, state in states.items() if state is OwnerState.PRESENT)
    if len(kept) == len(item.owners):
        return []
    if kept:
        return [Disowning(item.key, item.uid, kept, item.finalizers)]
    is_awaited = OwnerState.WAITING in states.values()
    if is_awaited and dependents:
        return [Removal(item.key, item.uid, FOREGROUND)]
    policy = next((each for each in (ORPHAN, FOREGROUND) if each in item.finalizers), "")
    return [Removal(item.key, item.uid, policy)]


def _as_owner(item: OwnedObject, dependents: Sequence[OwnedObject]) -> Iterable[Collection]:
    if item.orphans_dependents:
        for each in dependents:
            owners = tuple(owner for owner in each.owners if owner.uid != item.uid)
            yield Disowning(each.key, each.uid, owners, each.finalizers)
        yield _without(item, ORPHAN)
    elif item.waits_for_dependents and not any(_blocks(each, item) for each in dependents):
        yield _without(item, FOREGROUND)


def _blocks(dependent: OwnedObject, owner: OwnedObject) -> bool:
    return any(each.uid == owner.uid and each.blocks_deletion for each in dependent.owners)


def _without(item: OwnedObject, finalizer: str) -> Disowning:
    finalizers = tuple(each for each in item.finalizers if each != finalizer)
    return Disowning(item.key, item.uid, item.owners, finalizers)
