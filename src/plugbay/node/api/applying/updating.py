"""An object and its managers after a client has written it. Pure.

Source: structured-merge-diff v6 ``merge/update.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from plugbay.node.api.applying.elements import Path
from plugbay.node.api.applying.managers import ManagerId, Owned
from plugbay.node.api.applying.sets import EMPTY, FieldSet
from plugbay.node.api.applying.typed.comparing import compare, fields_of
from plugbay.node.api.applying.typed.merging import merged
from plugbay.node.api.applying.typed.reconciling import reconciled
from plugbay.node.api.applying.typed.removing import removed, with_parents
from plugbay.node.api.applying.typed.types import VersionedType
from plugbay.node.api.applying.typed.walking import is_same

OwnedByManager = Mapping[ManagerId, Owned]


class FieldConflict(NamedTuple):
    """A field that a client wants to change and another one owns."""

    manager: ManagerId
    path: Path


class ApplyConflicts(Exception):
    """Fields that a configuration would take from others."""

    def __init__(self, conflicts: list[FieldConflict]) -> None:
        super().__init__(conflicts)
        self.conflicts = conflicts


def update(before: object, after: object, owned: OwnedByManager, who: ManagerId, kind: VersionedType) -> OwnedByManager:
    """The managers after ``who`` has changed the object: it takes what it changed, others lose that and what has gone.

    Args:
        before: of a new object, what is there before anybody wrote it.

    Raises:
        MistypedValue: an object is not of the type.
    """
    known = _known(owned, kind)
    comparison = compare(before, after, kind.type)
    left = _taken(before, after, known, who, kind, is_forced=True)
    mine = left[who].fields if who in left else EMPTY
    mine = (mine - comparison.removed) | comparison.modified | comparison.added
    return _with(left, who, Owned(mine, kind.version))


def apply(
    live: object, config: object, owned: OwnedByManager, who: ManagerId, kind: VersionedType, *, is_forced: bool
) -> tuple[Any, OwnedByManager]:
    """The object with a configuration applied to it, and its managers then.

    What ``who`` applied before and does not any more goes, unless others own it.

    Returns:
        The object is ``live`` itself when nothing in it changes.

    Raises:
        ApplyConflicts: it would change what others own, and is not forced.
        MistypedValue: an object is not of the type.
    """
    known = _known(owned, kind)
    new = merged(live, config, kind.type)
    last = known.get(who)
    fields = fields_of(config, kind.type)
    known = {**known, who: Owned(fields, kind.version)}
    if last is not None and last.fields and last.api_version in kind.types:
        new = _without_abandoned(new, last, known, kind)
    known = _taken(live, new, known, who, kind, is_forced=is_forced)
    return live if is_same(live, new) else new, known


def _known(owned: OwnedByManager, kind: VersionedType) -> dict[ManagerId, Owned]:
    """Managers of versions that are served no more own nothing."""
    return {
        who: Owned(reconciled(each.fields, kind.types[each.api_version]), each.api_version)
        for who, each in owned.items()
        if each.api_version in kind.types
    }


def _taken(
    before: object,
    after: object,
    owned: OwnedByManager,
    who: ManagerId,
    kind: VersionedType,
    *,
    is_forced: bool,
) -> dict[ManagerId, Owned]:
    """The managers without what has been changed by ``who``, and without what has gone."""
    versions = {kind.version, *(each.api_version for each in owned.values())}
    comparisons = {version: compare(before, after, kind.types[version]) for version in versions}
    lost: dict[ManagerId, FieldSet] = {}
    for other, each in owned.items():
        if other != who:
            found = comparisons[each.api_version]
            lost[other] = each.fields & (found.modified | found.added)
    if not is_forced and any(lost.values()):
        raise ApplyConflicts(
            [FieldConflict(other, path) for other in sorted(lost, key=_order) for path in lost[other].paths()]
        )
    left = dict(owned)
    for other, fields in lost.items():
        kept = owned[other].fields - fields - comparisons[owned[other].api_version].removed
        left = _with(left, other, Owned(kept, owned[other].api_version))
    return {other: each for other, each in left.items() if each.fields}


def _order(who: ManagerId) -> tuple[str, ...]:
    return who.name, who.operation.value, who.api_version, who.subresource


def _with(owned: OwnedByManager, who: ManagerId, mine: Owned) -> dict[ManagerId, Owned]:
    others = {other: each for other, each in owned.items() if other != who}
    return {**others, who: mine} if mine.fields else others


def _without_abandoned(new: Any, last: Owned, owned: OwnedByManager, kind: VersionedType) -> Any:
    """``new`` without what the manager applied last time and does not apply now, if no other manager owns it."""
    version, kind_then = last.api_version, kind.types[last.api_version]
    pruned = removed(new, with_parents(last.fields, kind_then), kind_then)
    managed: dict[str, FieldSet] = {}
    for each in owned.values():
        managed[each.api_version] = managed.get(each.api_version, EMPTY) | each.fields
    # Conversions may need fields of the version itself, so these come back first.
    for each_version in sorted(managed, key=lambda one: one != version):
        kind_now = kind.types[each_version]
        keeping = with_parents(fields_of(pruned, kind_now), kind_now) | with_parents(managed[each_version], kind_now)
        pruned = removed(new, with_parents(fields_of(new, kind_now), kind_now) - keeping, kind_now)
    gone = with_parents(fields_of(new, kind_then), kind_then) - with_parents(fields_of(pruned, kind_then), kind_then)
    return removed(new, gone & with_parents(last.fields, kind_then), kind_then)
