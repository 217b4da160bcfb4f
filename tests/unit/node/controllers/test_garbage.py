"""The collection of garbage."""

from __future__ import annotations

import pytest

from plugbay.model.owners import OwnerReference
from plugbay.node.controllers.garbage import (
    FOREGROUND,
    ORPHAN,
    Collection,
    Disowning,
    OwnedObject,
    OwnerState,
    Removal,
    collect,
)
from plugbay.objects.table import ObjectKey

KEY = ObjectKey("", "configmaps", "default", "c")


def reference(uid: str, *, blocks: bool = False) -> OwnerReference:
    return OwnerReference("v1", "ConfigMap", uid, uid, blocks_deletion=blocks)


def owned(*owners: str, uid: str = "c", finalizers: tuple[str, ...] = (), deleting: bool = False) -> OwnedObject:
    references = tuple(reference(each, blocks=True) for each in owners)
    return OwnedObject(KEY, uid, references, finalizers, deleting)


STATES = {"there": OwnerState.PRESENT, "gone": OwnerState.ABSENT, "waits": OwnerState.WAITING}


@pytest.mark.parametrize(
    ("item", "dependents", "steps"),
    [
        (owned("there"), [], []),
        (owned("gone"), [], [Removal(KEY, "c")]),
        (owned("gone", finalizers=(ORPHAN,)), [], [Removal(KEY, "c", ORPHAN)]),
        (owned("gone", "there"), [], [Disowning(KEY, "c", (reference("there", blocks=True),), ())]),
        (owned("waits"), [], [Removal(KEY, "c")]),
        (owned("waits"), [owned("c", uid="x")], [Removal(KEY, "c", FOREGROUND)]),
        (owned("waits", "there"), [], [Disowning(KEY, "c", (reference("there", blocks=True),), ())]),
        (owned(deleting=True, finalizers=(FOREGROUND,)), [owned("c", uid="x")], []),
        (owned(deleting=True, finalizers=(FOREGROUND, "a/b")), [], [Disowning(KEY, "c", (), ("a/b",))]),
        (
            owned(deleting=True, finalizers=(ORPHAN,)),
            [owned("c", "there", uid="x")],
            [Disowning(KEY, "x", (reference("there", blocks=True),), ()), Disowning(KEY, "c", (), ())],
        ),
        (owned(), [], []),
    ],
    ids=lambda value: "",
)
def test_the_next_steps(item: OwnedObject, dependents: list[OwnedObject], steps: list[Collection]) -> None:
    assert collect(item, dependents, lambda owner: STATES[owner.uid]) == steps


def test_a_dependent_that_blocks_nothing_is_not_waited_for() -> None:
    free = OwnedObject(KEY, "x", (reference("c"),))
    assert collect(owned(deleting=True, finalizers=(FOREGROUND,)), [free], lambda _: OwnerState.PRESENT) == [
        Disowning(KEY, "c", (), ())
    ]
