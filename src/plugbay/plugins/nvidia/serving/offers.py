"""The offer of one resource at one moment, and the devices that a kubelet is told. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from plugbay.model.attributes import AttributeValue
from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, Health
from plugbay.model.sharing import EXCLUSIVE, Replicas
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, NodeFeatures
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice, ResourceDevices
from plugbay.plugins.nvidia.survey import GpuUuid, LinkMatrix
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """A resource with all that its answers depend on.

    Attributes:
        links: of the machine's GPUs; None when they are not known.
        health: by the devices' own IDs; healthy where it says nothing.
    """

    resource: ResourceDevices
    configuration: Configuration
    features: NodeFeatures = NO_FEATURES
    links: LinkMatrix | None = None
    health: Mapping[str, Health] = field(default_factory=dict)

    def devices(self) -> Iterator[Device]:
        """The devices as the sdk serves them."""
        for device in self.resource.devices.values():
            yield listed_device(device, self.health.get(device.id, HEALTHY))

    @property
    def is_aligned(self) -> bool:
        """Whether all devices are whole GPUs, which are chosen by their links."""
        return all(device.kind is DeviceKind.GPU for device in self.resource.devices.values())

    def without_those_gone(self, there: Collection[str]) -> ResourceOffer | None:
        """The offer with those of its devices only that are still ``there``, by ID; None if there are none."""
        left = {each: device for each, device in self.resource.devices.items() if each in there}
        if not left:
            return None
        links = None if self.links is None else covering(self.links, list(left))
        return replace(self, resource=replace(self.resource, devices=left), links=links)


def listed_device(device: NvidiaDevice, health: Health) -> Device:
    """A device, which stands for all of its replicas."""
    attributes: dict[str, AttributeValue] = {"index": device.index, "kind": device.kind.name.lower()}
    if device.gpu_uuid:
        attributes["gpu"] = device.gpu_uuid
    return Device(
        device.id,
        health=health,
        numa_nodes=() if device.numa_node is None else (device.numa_node,),
        attributes=attributes,
        capacity={"memory": device.memory_bytes} if device.memory_bytes else {},
        sharing=Replicas(device.replicas) if device.is_shared else EXCLUSIVE,
    )


def covering(links: LinkMatrix | None, uuids: Sequence[str]) -> LinkMatrix:
    """The links of these GPUs; what is not known is no link, so that one lost GPU spoils no choice among the others."""
    gpus = tuple(GpuUuid(uuid) for uuid in uuids)
    if links is None:
        links = LinkMatrix((), (), ())
    return LinkMatrix(
        gpus,
        tuple(tuple(None if one == other else links.level(one, other) for other in gpus) for one in gpus),
        tuple(tuple(0 if one == other else links.nvlink_count(one, other) for other in gpus) for one in gpus),
    )
