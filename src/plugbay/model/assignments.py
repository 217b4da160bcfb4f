"""Assignments: devices given to a user, as a plugin hears of them when they are given and when they come back.

An assignment begins with an Allocate call and ends with the release of its devices. The contract with hooks: each hook
is called at least once, repeats have the same key, and a hook acts once however often it is called.

Source: the device plugins' share of the model that Dynamic Resource Allocation has, spec ``dra.md`` 18.1.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NewType

from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.values import dataclass

AssignmentKey = NewType("AssignmentKey", str)
"""Names one assignment: the same in every repeat and after every restart, and never used for another one."""

_ANY_CONTAINER: Final = ContainerName("")
_UNKNOWN: Final = PodUid("")


class Origin(Enum):
    """The source of the news that a use of devices has ended."""

    KUBELET = "kubelet"
    """The manager called PostStopContainer or Deallocate, which today's kubelets never do."""
    SYNTHESISED = "synthesised"
    """We concluded it, from a kubelet's checkpoint or from a reboot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The pod and container that have the devices, as far as known; an unknown part is empty.

    Kubelets do not tell a plugin. PodResources tells namespace, pod and container, the checkpoint tells UID and
    container.

    Attributes:
        pod: the pod's name.
        container: the container in the pod; also empty when the devices belong to the whole pod.

    Raises:
        ValueError: neither name nor UID of a pod is given.
    """

    namespace: str = ""
    pod: str = ""
    container: ContainerName = _ANY_CONTAINER
    uid: PodUid = _UNKNOWN

    def __post_init__(self) -> None:
        if not (self.pod or self.uid):
            raise ValueError("an owner has at least the name or the UID of a pod")

    def __str__(self) -> str:
        pod = "/".join(part for part in (self.namespace, self.pod) if part) or self.uid
        return f"{pod}, container {self.container}" if self.container else pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Devices of one resource that were given together.

    Devices are given by ID, not as values: they may be gone by the time they are released.

    Attributes:
        device_ids: the plugin's IDs, each once; for replicas, the IDs of the physical devices.
        units: the kubelet's IDs: replicas one by one. By default the same as ``device_ids``.
        owners: empty while the owner is not known, as at Allocate; several when containers of a pod share the devices.
        origin: the source of the news that the use has ended; None before it has.

    Raises:
        ValueError: no key, no devices, or one of them twice.
    """

    key: AssignmentKey
    resource: ResourceName
    device_ids: tuple[DeviceId, ...]
    units: tuple[DeviceId, ...] = ()
    owners: tuple[Owner, ...] = ()
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", self.device_ids)
        if not self.key:
            raise ValueError("an assignment has a key")
        if not self.device_ids:
            raise ValueError(f"assignment {self.key} has no devices")
        for ids in (self.device_ids, self.units):
            if len(set(ids)) < len(ids):
                raise ValueError(f"assignment {self.key} has a device twice: {', '.join(ids)}")

    @property
    def owner(self) -> Owner | None:
        """The only owner; None when it is not known, or when there are several."""
        return self.owners[0] if len(self.owners) == 1 else None

    def __str__(self) -> str:
        held_by = "; ".join(map(str, self.owners))
        whose = f"given to {held_by}" if held_by else "given to a pod that is not known"
        return f"{', '.join(self.units)} of {self.resource}, {whose}"
