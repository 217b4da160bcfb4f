"""The changes that a pod which is there already allows. Pure.

An API server lets a few fields of the spec change as well, images among them; here that would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plugbay.documents import Json
from plugbay.errors import ImmutablePod
from plugbay.manifest import pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults
from plugbay.manifest.placement_update import updated_placement
from plugbay.model.field_path import FieldPath, field_text
from plugbay.model.pods import Pod

_ABSENT = object()


def updated(before: Pod, wanted: Pod) -> Pod:
    """``before`` with the metadata of ``wanted``, and with its placement as far as that may change.

    Raises:
        ImmutablePod: they differ in more than that; what was filled in when the pod was made does not count.
    """
    after, asked = updated_placement(before.spec.placement, wanted.spec.placement)
    filled = replace(
        wanted,
        uid=before.uid,
        generate_name=before.generate_name,
        labels=before.labels,
        annotations=before.annotations,
        owners=before.owners,
        finalizers=before.finalizers,
        spec=replace(
            wanted.spec,
            node_name=wanted.spec.node_name or before.spec.node_name,
            service_account=wanted.spec.service_account or before.spec.service_account,
            placement=asked,
        ),
    )
    moved = before if after is before.spec.placement else replace(before, spec=replace(before.spec, placement=after))
    if fields := [field_text(path) for path in _differences(_complete(moved), _complete(filled), ())]:
        raise ImmutablePod(before.name, fields)
    return replace(
        moved,
        labels=wanted.labels,
        annotations=wanted.annotations,
        owners=wanted.owners,
        finalizers=wanted.finalizers,
    )


def _complete(pod: Pod) -> Json:
    """A pod that names a default is the one that leaves it out."""
    return with_pod_defaults(pod_to_v1(pod))


def _differences(one: object, other: object, path: FieldPath) -> Iterator[FieldPath]:
    """The places where two JSON values differ; lists with different lengths differ as a whole."""
    match one, other:
        case dict(), dict():
            for key in dict.fromkeys([*one, *other]):
                yield from _differences(one.get(key, _ABSENT), other.get(key, _ABSENT), (*path, key))
        case list(), list() if len(one) == len(other):
            for index, (item, counterpart) in enumerate(zip(one, other, strict=True)):
                yield from _differences(item, counterpart, (*path, index))
        case _ if one != other:
            yield path
