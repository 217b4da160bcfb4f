"""``metadata.managedFields``, kept up to date by every write. Pure.

Source: apimachinery 1.36 ``pkg/util/managedfields/internal`` (fieldmanager, managedfieldsupdater, skipnonapplied,
stripmeta, lastappliedmanager, lastappliedupdater), apiserver 1.36 ``pkg/endpoints/handlers/fieldmanager/equality.go``.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from plugbay.documents import Json
from plugbay.node.api.applying.elements import field
from plugbay.node.api.applying.managers import ManagerId, Managers, Owned, UnreadableManagers, WriteOperation
from plugbay.node.api.applying.sets import EMPTY, FieldSet
from plugbay.node.api.applying.typed.comparing import compare, fields_of
from plugbay.node.api.applying.typed.types import VersionedType
from plugbay.node.api.applying.typed.validation import check_type
from plugbay.node.api.applying.typed.walking import MistypedValue
from plugbay.node.api.applying.updating import ApplyConflicts, OwnedByManager, apply, update
from plugbay.printers import v1

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps what a user applied without the server."""
_KUBECTL: Final = "kubectl"
"""The manager whose applied configurations are also written to the annotation, while there is one."""
_MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_NOBODY: Final = "unknown"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_NEVER_OWNED: Final = FieldSet.of(
    (
        (field("apiVersion"),),
        (field("kind"),),
        (field("metadata"),),
        *(
            (field("metadata"), field(name))
            for name in (
                "clusterName",
                "creationTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            )
        ),
    )
)


class FieldWriter(NamedTuple):
    """The client that writes.

    Attributes:
        manager: the name that it goes by; see `plugbay.node.api.applying.options.manager_of`.
        subresource: the one that it writes to, such as ``status``.
    """

    manager: str
    subresource: str = ""


def tracked(before: Json | None, after: Json, writer: FieldWriter, kind: VersionedType, *, now: str) -> Json:
    """``after`` with its managers: the writer owns what it changed.

    Args:
        before: None for an object that is created.
        after: as it will be stored, with defaults. Managers that it names count instead of those of ``before``; an
            empty list or an empty entry forgets them all, and from then on nothing is tracked until something is
            applied.
        now: as v1 writes it.
    """
    try:
        managers = _managers_to_change(before, after, writer)
        if not managers.owned and before is not None:
            return _with_managers(after, managers)
        return _with_managers(after, _updated(before, after, managers, writer, kind, now=now))
    except (MistypedValue, UnreadableManagers):
        return _with_entries(after, v1.at(before, "metadata", "managedFields"))


def applied(
    live: Json | None, config: Json, writer: FieldWriter, kind: VersionedType, *, is_forced: bool, now: str
) -> Json:
    """The object that a configuration makes of ``live``, with its managers, before defaults.

    Args:
        live: None for an object that the configuration creates.

    Raises:
        ApplyConflicts: it would change what others own, and is not forced.
        MistypedValue: the configuration cannot be merged.
    """
    check_type(config, kind.type)
    managers = _managers_of(live)
    if not managers.owned and live is not None:
        managers = _updated(None, live, managers, FieldWriter(_BEFORE_FIRST_APPLY, writer.subresource), kind, now=now)
    who = ManagerId(writer.manager, WriteOperation.APPLY, "", writer.subresource)
    old = None if live is None else _bare(live)
    try:
        new, owned = apply(old, config, managers.owned, who, kind, is_forced=is_forced)
    except ApplyConflicts as error:
        if old is None or writer.manager != _KUBECTL or (last := _last_applied(old, kind)) is None:
            raise
        if others := [each for each in error.conflicts if each.path not in last]:
            raise ApplyConflicts(others) from None
        new, owned = apply(old, config, managers.owned, who, kind, is_forced=True)
    owned = _stripped(owned, who)
    times = managers.times if new is old else {**managers.times, who: now}
    if writer.manager == _KUBECTL and v1.text(new, "metadata", "annotations", LAST_APPLIED):
        new = _with_last_applied(new, config)
    return _with_managers(_without_emptied(new, config), Managers(owned, times))


def settled(before: Json, after: Json) -> Json:
    """``before`` itself if ``after`` differs in nothing but the moments at which managers wrote."""
    if before == after or (_bare(before) == _bare(after) and _timeless(before) == _timeless(after)):
        return before
    return after


def _managers_to_change(before: Json | None, after: Json, writer: FieldWriter) -> Managers:
    entries = v1.at(after, "metadata", "managedFields")
    if writer.subresource or entries is None:
        return _managers_of(before)
    if entries in ([], [{}]):
        return Managers()
    try:
        managers = Managers.of(entries)
    except UnreadableManagers:
        return _managers_of(before)
    return managers if managers.owned else _managers_of(before)


def _managers_of(value: Json | None) -> Managers:
    try:
        return Managers.of(v1.at(value, "metadata", "managedFields"))
    except UnreadableManagers:
        return Managers()


def _updated(
    before: Json | None, after: Json, managers: Managers, writer: FieldWriter, kind: VersionedType, *, now: str
) -> Managers:
    """The managers after a write; the moment of the writer's entry changes only if it changed a field."""
    this = ManagerId("current-operation", WriteOperation.UPDATE)
    old = kind.before if before is None else _bare(before)
    left = _stripped(update(old, _bare(after), managers.owned, this, kind), this)
    owned = {who: each for who, each in left.items() if who != this}
    if (changed := left.get(this)) is None:
        return Managers(owned, managers.times).capped()
    who = ManagerId(writer.manager or _NOBODY, WriteOperation.UPDATE, kind.version, writer.subresource)
    earlier = owned[who].fields if who in owned else EMPTY
    owned[who] = Owned(earlier | changed.fields, kind.version)
    return Managers(owned, {**managers.times, who: now}).capped()


def _stripped(owned: OwnedByManager, who: ManagerId) -> OwnedByManager:
    """Without the fields of metadata that are the server's, or tell which object it is."""
    if who not in owned:
        return owned
    fields = owned[who].fields - _NEVER_OWNED
    others = {other: each for other, each in owned.items() if other != who}
    return {**others, who: Owned(fields, owned[who].api_version)} if fields else others


def _last_applied(live: Json, kind: VersionedType) -> FieldSet | None:
    """The fields that kubectl applied without the server and that are the same still; None if it left no note."""
    try:
        last = json.loads(v1.text(live, "metadata", "annotations", LAST_APPLIED))
        if not isinstance(last, dict) or last.get("apiVersion") != kind.version:
            return None
        check_type(last, kind.type)
        comparison = compare(last, live, kind.type)
    except (ValueError, RecursionError):
        return None
    return fields_of(last, kind.type) - comparison.modified - comparison.added - comparison.removed


def _with_last_applied(value: Json, config: Json) -> Json:
    metadata = v1.mapping(config, "metadata")
    if "annotations" in metadata:
        kept = {name: each for name, each in v1.mapping(metadata, "annotations").items() if name != LAST_APPLIED}
        config = config | {"metadata": metadata | {"annotations": kept}}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    annotations = v1.mapping(value, "metadata", "annotations") | {LAST_APPLIED: text}
    if sum(len(name.encode()) + len(str(each).encode()) for name, each in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
    return value | {"metadata": v1.mapping(value, "metadata") | {"annotations": annotations}}


def _without_emptied(value: Any, config: object) -> Any:
    """``value`` without the nulls that stand where everything has been taken away; those of the client stay."""
    if isinstance(value, list):
        return [_without_emptied(each, None) for each in value]
    if not isinstance(value, dict):
        return value
    wanted = config if isinstance(config, dict) else {}
    return {
        name: _without_emptied(each, wanted.get(name))
        for name, each in value.items()
        if each is not None or (name in wanted and wanted[name] is None)
    }


def _bare(value: Json) -> Json:
    metadata = {name: each for name, each in v1.mapping(value, "metadata").items() if name != "managedFields"}
    return value | {"metadata": metadata}


def _timeless(value: Json) -> list[Json]:
    entries = v1.objects(value, "metadata", "managedFields")
    return [{name: each for name, each in entry.items() if name != "time"} for entry in entries]


def _with_managers(value: Json, managers: Managers) -> Json:
    return _with_entries(value, managers.to_v1())


def _with_entries(value: Json, entries: object) -> Json:
    bare = _bare(value)
    return bare | {"metadata": v1.mapping(bare, "metadata") | ({"managedFields": entries} if entries else {})}
