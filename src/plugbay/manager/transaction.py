"""What one pod is given, until it is committed or taken back as a whole."""

from __future__ import annotations

from plugbay.manager.state import Assignment, ManagerState, Resource
from plugbay.model.ids import DeviceId


class PodTransaction:
    """The claims and assignments of one pod until they are committed."""

    def __init__(self, state: ManagerState) -> None:
        self._state = state
        self._claims: list[tuple[Resource, tuple[DeviceId, ...]]] = []
        self.assignments: list[Assignment] = []

    def claim(self, resource: Resource, devices: tuple[DeviceId, ...]) -> None:
        """Nobody else gets ``devices`` from now on."""
        resource.claim(devices)
        self._claims.append((resource, devices))

    def roll_back(self) -> None:
        """The pod gets nothing."""
        for resource, devices in self._claims:
            resource.unclaim(devices)
        self._claims.clear()

    def apply(self) -> None:
        """The claims become those of the assignments."""
        for assignment in self.assignments:
            self._state.assign(assignment)
