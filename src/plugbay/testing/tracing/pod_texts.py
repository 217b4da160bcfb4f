"""Steps of pods in a recording as lines that people read."""

from __future__ import annotations

from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.pod_events import PodEvent, RecordedStep


class PodTexts:
    """Makes the lines of one recording, in order: only the first step of a pod has its name and what it asks for."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._resources: dict[str, set[str]] = {}

    def line(self, event: PodEvent) -> str:
        """The line for a step."""
        about = f" container {event.container}" if event.container else ""
        told = self._told(event)
        return f"{event.at_s:9.3f} s  pod {self._name(event)}{about}: {event.step.value}{f': {told}' if told else ''}"

    def is_selected(self, event: PodEvent, selection: Selection) -> bool:
        """Whether the step is shown: if no methods are chosen, and the pod asks for a chosen resource."""
        if event.containers:
            self._resources[event.uid] = {name for each in event.containers for name in each.limits}
        if selection.methods:
            return False
        return not selection.resources or bool(selection.resources & self._resources.get(event.uid, set()))

    def _name(self, event: PodEvent) -> str:
        if event.name:
            self._names[event.uid] = f"{event.namespace}/{event.name}"
        return self._names.get(event.uid, event.uid)

    def _told(self, event: PodEvent) -> str:
        if event.step is RecordedStep.ADMIT:
            wants = [f"{each.name} {name}={count}" for each in event.containers for name, count in each.limits.items()]
            return ", ".join(wants)
        devices = [
            f"{container} {name}={','.join(ids)}"
            for container, resources in event.devices.items()
            for name, ids in resources.items()
        ]
        return event.problem or ", ".join(devices)
