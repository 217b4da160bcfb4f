"""What one pod is given, until it is committed or taken back as a whole."""

from __future__ import annotations

from plugbay.manager.intents import Intents
from plugbay.manager.state import Assignment, ManagerState, Resource
from plugbay.model.ids import DeviceId


class PodTransaction:
    """The claims and assignments of one pod until they are committed.

    Attributes:
        intents: of the Allocate calls made for it.
    """

    def __init__(self, state: ManagerState, intents: Intents) -> None:
        self._state = state
        self.intents = intents
        self._claims: list[tuple[Resource, tuple[DeviceId, ...]]] = []
        self.assignments: list[Assignment] = []
        state.granted.append(self.assignments)

    def claim(self, resource: Resource, devices: tuple[DeviceId, ...]) -> None:
        """Nobody else gets ``devices`` from now on."""
        resource.claim(devices)
        self._claims.append((resource, devices))

    def roll_back(self) -> None:
        """The pod gets nothing, and plugins that ask for it are told to take back what they gave."""
        self.intents.roll_back()  # first: what they clean must not be free in between
        for resource, devices in self._claims:
            resource.unclaim(devices)
        self._claims.clear()
        self._settled()

    def apply(self) -> None:
        """The claims become those of the assignments."""
        for assignment in self.assignments:
            self._state.assign(assignment)
        self._settled()

    def _settled(self) -> None:
        self._state.granted[:] = [each for each in self._state.granted if each is not self.assignments]
