"""Steps of pods as lines of a recording. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plugbay.model.requests import ContainerKind
from plugbay.traffic.pod_events import PodEvent, RecordedContainer, RecordedStep

POD: Final = "pod"
"""The ``event`` of such a line."""
_MOST: Final = 2**31


def pod_members(event: PodEvent) -> dict[str, Any]:
    """The members of the line; what says nothing is left out."""
    line: dict[str, Any] = {"at_s": round(event.at_s, 6), "event": POD, "step": event.step.value, "uid": event.uid}
    containers = [
        {"name": each.name, "kind": each.kind.value, "limits": dict(each.limits)} for each in event.containers
    ]
    devices = {
        container: {resource: list(ids) for resource, ids in resources.items()}
        for container, resources in event.devices.items()
    }
    for name, value in (
        ("namespace", event.namespace),
        ("name", event.name),
        ("containers", containers),
        ("running", list(event.running)),
        ("devices", devices),
        ("container", event.container),
        ("instance", event.instance),
        ("problem", event.problem),
    ):
        if value:
            line[name] = value
    return line


def pod_event(content: Mapping[str, Any]) -> PodEvent:
    """The step that a line tells.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is damaged.
    """
    return PodEvent(
        float(content["at_s"]),
        RecordedStep(content["step"]),
        str(content["uid"]),
        namespace=str(content.get("namespace", "")),
        name=str(content.get("name", "")),
        containers=tuple(map(_container, content.get("containers", ()))),
        running=tuple(map(str, content.get("running", ()))),
        devices={
            str(container): {str(resource): tuple(map(str, ids)) for resource, ids in resources.items()}
            for container, resources in content.get("devices", {}).items()
        },
        container=str(content.get("container", "")),
        instance=str(content.get("instance", "")),
        problem=str(content.get("problem", "")),
    )


def _container(content: Mapping[str, Any]) -> RecordedContainer:
    limits = {str(resource): int(count) for resource, count in content.get("limits", {}).items()}
    if any(not 0 <= count <= _MOST for count in limits.values()):
        raise ValueError(f"a container asks for {min(limits.values())} to {max(limits.values())} devices")
    return RecordedContainer(str(content["name"]), ContainerKind(content.get("kind", "app")), limits)
