"""The containers that hold devices, as a kubelet tells them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.model.podresources import PodResources, held_devices
from plugbay.model.sharing import SEPARATOR
from plugbay.plugins.nvidia.devices.devices import DeviceMap
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that holds a device, or a replica of it.

    Attributes:
        replica: the number of the replica; empty for a device that is not shared.
    """

    namespace: str
    pod: str
    container: str
    replica: str = ""


def holders_of(pods: Iterable[PodResources], resources: DeviceMap) -> Mapping[str, tuple[Holder, ...]]:
    """The holders of each device that is held, by the device's own ID, sorted; a shared device has them all."""
    found: dict[str, set[Holder]] = {}
    by_name = {str(resource.name): resource for resource in resources.values()}
    for held in held_devices(pods):
        resource = by_name.get(held.resource)
        device = None if resource is None else resource.device(held.device_id)
        if device is not None:  # devices that are not ours are passed over
            replica = held.device_id.partition(SEPARATOR)[2]
            holder = Holder(held.namespace, held.pod, held.container, replica)
            found.setdefault(device.id, set()).add(holder)
    return {
        device: tuple(sorted(holders, key=lambda each: (each.namespace, each.pod, each.container, each.replica)))
        for device, holders in found.items()
    }
