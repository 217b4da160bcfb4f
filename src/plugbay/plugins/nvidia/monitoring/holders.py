"""The containers that hold devices, as a kubelet tells them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from plugbay.model.ids import DeviceId
from plugbay.model.podresources import PodResources, distinct_devices
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
    for pod in pods:
        for container in pod.containers:
            for name, listed in distinct_devices(container.devices).items():
                for device, replica in _devices(resources, name, listed):
                    holder = Holder(pod.namespace, pod.name, container.name, replica)
                    found.setdefault(device, set()).add(holder)
    return {
        device: tuple(sorted(holders, key=lambda each: (each.namespace, each.pod, each.container, each.replica)))
        for device, holders in found.items()
    }


def _devices(resources: DeviceMap, name: str, listed: Iterable[DeviceId]) -> Iterator[tuple[str, str]]:
    """The own ID of each device, and the number of its replica; devices that are not ours are passed over."""
    resource = next((each for each in resources.values() if each.name == name), None)
    if resource is None:
        return
    for listed_id in listed:
        if (device := resource.device(listed_id)) is not None:
            yield device.id, listed_id.partition(SEPARATOR)[2]
