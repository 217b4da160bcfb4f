"""The conditions of pods that clients set, by the subresource ``status``. Pure.

An API server takes any status of a client, and the kubelet writes over what it owns. Here a patch that wants to change
that is refused. A whole object counts for its conditions alone: clients write the rest of it in their own way.

Source: kubelet 1.36 ``pkg/kubelet/types/pod_status.go``; apiserver 1.36 ``pkg/registry/core/pod/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from plugbay.documents import Json
from plugbay.model import dns
from plugbay.node.api.resources import PODS
from plugbay.ops.routing import HttpError
from plugbay.pods.record import ClientCondition
from plugbay.printers import v1

_OF_NODE: Final = frozenset({"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"})
_STATUSES: Final = ("True", "False", "Unknown")
_TEXTS: Final = ("type", "status", "reason", "message")
_VERSIONING: Final = ("resourceVersion", "managedFields")
_MOMENTS: Final = ("lastProbeTime", "lastTransitionTime")


def conditions_in(pod: Json) -> tuple[ClientCondition, ...]:
    """The conditions in a pod's status that are a client's.

    Raises:
        HttpError: 422, one is not good.
    """
    conditions = _conditions(v1.mapping(pod, "status"))
    return tuple(_condition(v1.name(pod), each) for kind, each in conditions.items() if kind not in _OF_NODE)


def with_conditions_of_clients(pod: Json) -> Json:
    """A pod with nothing in its status but the conditions that clients set: what they can own of it."""
    conditions = [each for each in v1.objects(pod, "status", "conditions") if each.get("type") not in _OF_NODE]
    return pod | {"status": {"conditions": conditions}}


def check_only_conditions(shown: Json, wanted: Json) -> None:
    """Refuse a patch that changes more of a pod than the conditions that clients set.

    Raises:
        HttpError: 422.
    """
    before, after = v1.mapping(shown, "status"), v1.mapping(wanted, "status")
    changed = [f"status.{part}" for part in sorted(before.keys() | after.keys()) if before.get(part) != after.get(part)]
    changed = [part for part in changed if part != "status.conditions"]
    changed += [part for part in ("metadata", "spec") if _content(shown, part) != _content(wanted, part)]
    kept, ours = _conditions(before), _conditions(after)
    changed += [f"status.conditions[{kind}]" for kind in sorted(_OF_NODE) if kept.get(kind) != ours.get(kind)]
    if changed:
        problem = "Forbidden: only conditions that this node does not set itself may be changed"
        raise _invalid(v1.name(shown), changed[0], problem)


def _content(pod: Json, part: str) -> Json:
    return {name: each for name, each in v1.mapping(pod, part).items() if name not in _VERSIONING}


def _conditions(status: Mapping[str, Any]) -> dict[object, Any]:
    conditions = status.get("conditions") or []
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        return {None: conditions}
    return {each.get("type"): each for each in conditions}


def _condition(pod: str, value: Any) -> ClientCondition:
    if not isinstance(value, dict):
        raise _invalid(pod, "status.conditions", "wants a list of mappings")
    where = f"status.conditions[{value.get('type')}]"
    if unknown := sorted(value.keys() - {*_TEXTS, *_MOMENTS}):
        raise _invalid(pod, f"{where}.{unknown[0]}", "not supported by plugbay's node yet")
    if wrong := [name for name in _TEXTS if not isinstance(value.get(name, ""), str)]:
        raise _invalid(pod, f"{where}.{wrong[0]}", "wants a string")
    prefix, slash, name = value.get("type", "").rpartition("/")
    if not dns.is_name(name) or (slash and not dns.is_subdomain(prefix)):
        raise _invalid(pod, f"{where}.type", "must be a name, with an optional DNS prefix before a slash")
    if value.get("status") not in _STATUSES:
        supported = ", ".join(f'"{each}"' for each in _STATUSES)
        raise _invalid(pod, f"{where}.status", f"supported values: {supported}")
    moments = [_moment(pod, where, name, value.get(name)) for name in _MOMENTS]
    return ClientCondition(value["type"], value["status"], value.get("reason", ""), value.get("message", ""), *moments)


def _moment(pod: str, where: str, name: str, text: object) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _invalid(pod, f"{where}.{name}", "wants a time such as 2026-01-01T00:00:00Z")
    return moment


def _invalid(pod: str, field: str, problem: str) -> HttpError:
    details = {"name": pod, "kind": PODS.kind, "causes": [{"field": field, "message": problem}]}
    return HttpError(422, "Invalid", f'{PODS.kind} "{pod}" is invalid: {field}: {problem}', details=details)
