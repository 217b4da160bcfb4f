"""A kubelet's Device Manager as far as releases go by it, without sockets and files.

Source: spec 4.3, 4.7, 4.8, 4.12, 7.1, 7.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plugbay.errors import CheckpointUnread
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.podresources import ContainerDevices, ContainerResources, PodResources
from plugbay.sdk.release.uses import Life, Reading

RESOURCE = ResourceName("example.com/gopher")
Listed = Mapping[tuple[str, str], frozenset[str]]


@dataclass
class Pod:
    """Attributes:
    is_active: whether the kubelet counts it, see spec 4.12.
    runs: whether a container of it may run now, or is about to.
    """

    uid: str
    is_active: bool = True
    runs: bool = True
    used: set[str] = field(default_factory=set)


class KubeletModel:
    """
    Attributes:
        assigned: by pod and container.
        stale: what another writer of the checkpoint has in hand; it may land after the next write.
        stale_lands: whether it does.
        unreadable: so many of the next readings fail.
        has_written: whether this life has written the checkpoint.
    """

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.devices = devices
        self.pods: dict[str, Pod] = {}
        self.assigned: dict[tuple[str, str], frozenset[str]] = {}
        self.file: Listed = {}
        self.stale: Listed | None = None
        self.stale_lands = False
        self.unreadable = 0
        self.life = 1
        self.is_ready = True
        self.has_written = False
        self.has_continued = True

    @property
    def in_use(self) -> set[str]:
        """What a container may use now, whatever the kubelet knows of it."""
        return {device for pod in self.pods.values() if pod.runs for device in pod.used}

    def clean(self) -> None:
        if self.is_ready:
            gone = {uid for uid, _ in self.assigned if uid not in self.pods or not self.pods[uid].is_active}
            self.assigned = {key: held for key, held in self.assigned.items() if key[0] not in gone}

    def write(self) -> None:
        """A list message, or an allocation."""
        self.file = dict(self.assigned)
        self.has_written = True

    def pick(self, count: int, reusable: frozenset[str]) -> tuple[str, ...] | None:
        allocated = {device for held in self.assigned.values() for device in held}
        free = [*sorted(reusable), *(device for device in self.devices if device not in allocated)]
        return tuple(free[:count]) if len(free) >= count else None

    def restart(self, *, is_lost: bool) -> None:
        self.has_continued = not is_lost
        self.assigned = {} if is_lost else dict(self.file)
        if is_lost:
            self.file = {}
        self.life += 1
        self.is_ready = self.has_written = False
        self.stale = None

    # --- what a plugin sees -----------------------------------------------------------------------------------------

    def listed_pods(self) -> tuple[PodResources, ...]:
        """PodResources List."""
        self.clean()
        if not self.is_ready:
            return ()
        return tuple(
            PodResources("default", uid, tuple(self._containers(uid)))
            for uid, pod in self.pods.items()
            if pod.is_active
        )

    def _containers(self, uid: str) -> list[ContainerResources]:
        return [
            ContainerResources(
                ContainerName(container), (ContainerDevices(RESOURCE, tuple(map(DeviceId, sorted(held)))),)
            )
            for (pod, container), held in self.assigned.items()
            if pod == uid and container != "init"
        ]

    def read(self, life: Life, at: float, pods: frozenset[PodUid] = frozenset()) -> Reading:
        """What is read after a list was sent again."""
        if life.id != str(self.life):
            raise CheckpointUnread("another life")
        self.write()
        if self.stale is not None and self.stale_lands:
            self.file = self.stale
        self.stale = None  # no writer is that late
        if self.unreadable:
            self.unreadable -= 1
            raise CheckpointUnread("no file came")
        listed: dict[DeviceId, set[tuple[PodUid, ContainerName]]] = {}
        for (pod, container), held in self.file.items():
            for device in held:
                listed.setdefault(DeviceId(device), set()).add((PodUid(pod), ContainerName(container)))
        return Reading(at, life, {device: frozenset(by) for device, by in listed.items()})
