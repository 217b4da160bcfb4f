"""Devices that pods had when this process began, and that no look has found: pulled out while no plugin ran. Pure.

A kubelet shows a device that is not in the list as if it were well, so they are listed as long as a pod has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from plugbay.errors import InvalidDevice, InvalidDeviceId
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.selecting.memory import HeldPaths
from plugbay.plugins.generic.serving.vanishing import HELD_AGAIN_S, Held, Units


class AbsentDevices:
    """The absent devices from one look to the next. Their rules are not known, and so neither are their units."""

    def __init__(self) -> None:
        self._devices: dict[ResourceName, dict[DeviceId, Device]] = {}
        self._due = 0.0

    def begin(self, held: HeldPaths, units: Units, *, moment: float, is_there: Callable[[str], bool]) -> None:
        """Take over the first look.

        Args:
            is_there: whether a path of the host exists. A device whose paths all do is well, and the rules are others.
        """
        for name, those in units.items():
            known = {unit.id for unit in those}
            for id, paths in held.get(name, {}).items():
                if id not in known and not (paths and all(map(is_there, paths))):
                    self._add(name, id)
        self._due = moment + HELD_AGAIN_S

    def _add(self, name: ResourceName, id: DeviceId) -> None:
        try:
            self._devices.setdefault(name, {})[id] = Device(id)
        except (InvalidDevice, InvalidDeviceId):
            return  # a kubelet may have kept what no plugin says

    def of(self, name: ResourceName) -> Mapping[DeviceId, Device]:
        """Those of a resource."""
        return self._devices.get(name, {})

    def find(self, units: Units) -> None:
        """Forget those that a look has found."""
        for name in [name for name in self._devices if name in units]:
            self._keep(name, self._devices[name].keys() - {unit.id for unit in units[name]})

    def is_due(self, moment: float) -> bool:
        """Whether it has to be asked which devices pods hold."""
        return bool(self._devices) and self._due <= moment

    def expire(self, moment: float, held: Held | None) -> None:
        """Forget those that no pod holds any more; ``held`` is None when that cannot be known."""
        if held is not None:
            for name in list(self._devices):
                self._keep(name, self._devices[name].keys() & set(held.get(name, ())))
        self._due = moment + HELD_AGAIN_S

    def next_due(self) -> float | None:
        """When it has to be asked again; None while there are none."""
        return self._due if self._devices else None

    def _keep(self, name: ResourceName, ids: Collection[DeviceId]) -> None:
        self._devices[name] = {id: device for id, device in self._devices[name].items() if id in ids}
        if not self._devices[name]:
            del self._devices[name]
