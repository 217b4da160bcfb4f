"""ControllerRevisions: the templates that a DaemonSet had, for ``kubectl rollout history`` and ``undo``. Pure.

Source: Kubernetes 1.36 ``pkg/controller/daemon/update.go`` (``constructHistory``), ``pkg/controller/history``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.owners import owners_to_v1
from plugbay.model.owners import OwnerReference
from plugbay.node.controllers.actions import APPS, Action, CreateObject, DeleteObject, ReplaceObject
from plugbay.node.controllers.seen_pods import SeenPod, annotations_of, owner_references
from plugbay.node.controllers.templates import normal_template, template_hash
from plugbay.printers import v1

REVISIONS: Final = "controllerrevisions"
_HASH_LABEL: Final = "controller-revision-hash"
_LIMIT: Final = 10
_LEFT_OUT: Final = ("kubectl.kubernetes.io/last-applied-configuration",)


def current_hash(value: Json, revisions: Iterable[Json]) -> str:
    """The hash of the template that ``value`` has now."""
    known = (each for each in _owned(value, revisions) if _same(each, value))
    made = template_hash(v1.mapping(value, "spec", "template"), v1.number(value, "status", "collisionCount"))
    return next((str(v1.mapping(each, "metadata", "labels").get(_HASH_LABEL)) for each in known), made)


def revision_actions(
    value: Json, revisions: Sequence[Json], pods: Iterable[SeenPod], owner: OwnerReference
) -> Iterator[Action]:
    """Keep the template of ``value`` as its newest revision, and forget the oldest that no pod has."""
    mine = sorted(_owned(value, revisions), key=_number)
    newest = max(map(_number, mine), default=0)
    current = next((each for each in mine if _same(each, value)), None)
    if current is None:
        yield CreateObject(REVISIONS, _revision(value, owner, newest + 1))
    elif _number(current) < newest:
        yield ReplaceObject(REVISIONS, {**current, "revision": newest + 1})
    live = {each.labels.get(_HASH_LABEL) for each in pods} | {current_hash(value, revisions)}
    old = [each for each in mine if v1.mapping(each, "metadata", "labels").get(_HASH_LABEL) not in live]
    limit = v1.at(value, "spec", "revisionHistoryLimit")
    for each in old[: max(0, len(old) - (limit if isinstance(limit, int) else _LIMIT))]:
        yield DeleteObject(REVISIONS, each)


def _revision(value: Json, owner: OwnerReference, number: int) -> Json:
    template = v1.mapping(value, "spec", "template")
    digest = template_hash(template, v1.number(value, "status", "collisionCount"))
    annotations = {key: text for key, text in annotations_of(value).items() if key not in _LEFT_OUT}
    metadata: Json = {
        "name": f"{v1.name(value)}-{digest}",
        "namespace": v1.namespace(value),
        "labels": {**v1.mapping(template, "metadata", "labels"), _HASH_LABEL: digest},
        "annotations": annotations,
        "ownerReferences": owners_to_v1([owner]),
    }
    return {
        "apiVersion": APPS,
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": _data(value),
        "revision": number,
    }


def _data(value: Json) -> Json:
    """The patch that brings the template back."""
    return {"spec": {"template": {**v1.mapping(value, "spec", "template"), "$patch": "replace"}}}


def _same(revision: Json, value: Json) -> bool:
    one, other = (v1.mapping(each, "spec", "template") for each in (v1.mapping(revision, "data"), value))
    return normal_template(one) == normal_template(other)


def _owned(value: Json, revisions: Iterable[Json]) -> list[Json]:
    uid = v1.uid(value)
    return [each for each in revisions if any(owner.uid == uid for owner in owner_references(each))]


def _number(revision: Json) -> int:
    return v1.number(revision, "revision")
