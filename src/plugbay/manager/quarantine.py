"""Devices whose Deallocate was given up, where they are to stay out of use until their plugin is believed again."""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.manager.state import ManagerState
from plugbay.model.health import HealthState
from plugbay.model.ids import DeviceId, ResourceName


class Quarantine:
    """Holds devices that `Resource.releasing` names; not kept: after a restart every plugin registers again."""

    def __init__(self, state: ManagerState) -> None:
        self._state = state
        self._was_unhealthy: dict[ResourceName, dict[DeviceId, bool]] = {}

    def begin(self, resource: ResourceName, devices: Iterable[DeviceId]) -> None:
        self._was_unhealthy.setdefault(resource, {}).update(dict.fromkeys(devices, False))
        self.look(resource)

    def end(self, resource: ResourceName) -> None:
        """The plugin registered again: all its devices come back."""
        self._state.resource(resource).end_releasing(self._was_unhealthy.pop(resource, ()))

    def look(self, name: ResourceName) -> None:
        """Let devices come back that the plugin has called unhealthy and then healthy."""
        held = self._was_unhealthy.get(name, {})
        resource = self._state.resource(name)
        healed = []
        for device_id, was_unhealthy in held.items():
            if resource.health(device_id) is HealthState.UNHEALTHY:
                held[device_id] = True
            elif was_unhealthy and device_id in resource.listed.ranks:
                healed.append(device_id)
        for device_id in healed:
            del held[device_id]
        resource.end_releasing(healed)
