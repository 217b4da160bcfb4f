"""The managers of pods, which are not stored as objects. Pure."""

from __future__ import annotations

from plugbay.documents import Json
from plugbay.manifest import pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults
from plugbay.model.pods import Pod
from plugbay.node.api.applying.field_manager import FieldWriter, settled, tracked
from plugbay.node.api.applying.typed.builtin_types import builtin_type
from plugbay.pods.record import PodRecord
from plugbay.printers import v1


def managed_pod(record: PodRecord) -> Json:
    """The part of a v1 Pod that clients write, and its managers."""
    return _with_managers(record.pod, list(record.managed))


def pod_managers(
    before: PodRecord | None, after: Pod, entries: object, writer: FieldWriter, *, now: str
) -> tuple[Json, ...]:
    """The managers of a pod that a client creates or changes.

    Args:
        entries: the managers that the client names; None if it names none.
        now: as v1 writes it.
    """
    old = None if before is None else managed_pod(before)
    new = _with_managers(after, entries)
    value = tracked(old, new, writer, builtin_type("", "v1", "Pod"), now=now)
    return managers_in(value if old is None else settled(old, value))


def settled_managers(before: PodRecord, after: Pod, applied: Json) -> tuple[Json, ...]:
    """The managers of a pod to which a configuration was applied; the same ones if it says nothing new."""
    new = _with_managers(after, v1.at(applied, "metadata", "managedFields"))
    return managers_in(settled(managed_pod(before), new))


def managers_in(value: object) -> tuple[Json, ...]:
    return tuple(v1.objects(value, "metadata", "managedFields"))


def _with_managers(pod: Pod, entries: object) -> Json:
    value = with_pod_defaults(pod_to_v1(pod))
    managers: Json = {} if entries is None else {"managedFields": entries}
    return value | {"metadata": v1.mapping(value, "metadata") | managers}
