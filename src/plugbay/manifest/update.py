"""The changes that a pod which is there already allows. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``ValidatePodUpdate``. A negative grace period may
also become 1 there; no pod has one here.
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
from plugbay.model.images import default_pull_policy
from plugbay.model.pods import Container, Pod, PodSpec, without_empty

_ABSENT = object()


def updated(before: Pod, wanted: Pod, *, keeps_spec: bool = False) -> Pod:
    """``before`` with what may change of ``wanted``: metadata, images, and deadline and placement within limits.

    Args:
        keeps_spec: only metadata may change: the specification comes from elsewhere.

    Raises:
        ImmutablePod: they differ in more than that; what was filled in when the pod was made does not count.
    """
    moved, asked = _updated_spec(before.spec, wanted.spec)
    filled = replace(
        wanted,
        uid=before.uid,
        generate_name=before.generate_name,
        labels=before.labels,
        annotations=before.annotations,
        owners=before.owners,
        finalizers=before.finalizers,
        spec=asked,
    )
    after = before if keeps_spec or moved is before.spec else replace(before, spec=moved)
    if fields := [field_text(path) for path in _differences(_complete(after), _complete(filled), ())]:
        raise ImmutablePod(before.name, fields)
    return replace(
        after,
        labels=wanted.labels,
        annotations=wanted.annotations,
        owners=wanted.owners,
        finalizers=wanted.finalizers,
    )


def _updated_spec(before: PodSpec, wanted: PodSpec) -> tuple[PodSpec, PodSpec]:
    """The specification after a change, and ``wanted`` with what was filled in when the pod was made.

    They say the same if the change is allowed. Without one, the first is ``before`` itself.
    """
    placement, asked_placement = updated_placement(before.placement, wanted.placement)
    apps, asked_apps = _updated_images(before.containers, wanted.containers)
    inits, asked_inits = _updated_images(before.init_containers, wanted.init_containers)
    after = replace(
        before,
        containers=apps,
        init_containers=inits,
        active_deadline_s=_updated_deadline(before.active_deadline_s, wanted.active_deadline_s),
        placement=placement,
    )
    asked = replace(
        wanted,
        containers=asked_apps,
        init_containers=asked_inits,
        node_name=wanted.node_name or before.node_name,
        service_account=wanted.service_account or before.service_account,
        placement=asked_placement,
    )
    return before if after == before else after, asked


def _updated_images(
    before: tuple[Container, ...], wanted: tuple[Container, ...]
) -> tuple[tuple[Container, ...], tuple[Container, ...]]:
    """Containers with the images of others, and these others. How images are pulled stays as it is."""
    if len(before) != len(wanted):
        return before, wanted
    after, asked = [], []
    for old, new in zip(before, wanted, strict=True):
        policy = old.pull_policy or (default_pull_policy(old.image) if old.image else None)
        is_other = old.image and new.image and old.image != new.image
        after.append(replace(old, image=new.image, pull_policy=policy) if is_other else old)
        asked.append(replace(new, pull_policy=new.pull_policy or policy))
    return tuple(after), tuple(asked)


def _updated_deadline(before: int | None, wanted: int | None) -> int | None:
    """A deadline may be set, and come nearer."""
    return wanted if wanted is not None and (before is None or wanted <= before) else before


def _complete(pod: Pod) -> Json:
    """A pod that names a default is the one that leaves it out; so is one with empty mappings, which say nothing.

    An earlier version left out those that are shown now, and its pods are still updated with their manifests.
    """
    return with_pod_defaults(pod_to_v1(without_empty(pod)))


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
