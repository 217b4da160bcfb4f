"""The parts of a fake node that take some turns of the event loop, and fail when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from plugbay.errors import (
    CheckpointNotWritten,
    ContainerStartError,
    InstanceUnreadable,
    InsufficientDevices,
    SandboxFailed,
    StoreUnusable,
    VolumeUnusable,
)
from plugbay.model.ids import ContainerName, DeviceId, PodUid
from plugbay.model.pods import Pod
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.pods.events import Event
from plugbay.pods.record import PodRecord
from plugbay.pods.running.projecting import VolumeFiles
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes
from plugbay.runtimes.port import ContainerId, ContainerSpec, ContainerState
from plugbay.runtimes.sandboxes import HostSandboxes, SandboxSpec
from plugbay.testing.fake_node import GOPHER, FakeDevices, FakeNode, FakeStore
from plugbay.testing.fake_runtime import FakeRuntime


class Trouble:
    """What is wrong with the machine now.

    Attributes:
        latency: turns of the event loop that each answer takes.
        is_full: the disk has no room.
        has_descriptors: files, pipes and processes can be opened.
        has_engine: the container runtime answers.
    """

    def __init__(self) -> None:
        self.latency = 0
        self.is_full = False
        self.has_descriptors = True
        self.has_engine = True

    @property
    def is_over(self) -> bool:
        return not self.is_full and self.has_descriptors and self.has_engine

    async def take_time(self) -> None:
        for _ in range(self.latency):
            await asyncio.sleep(0)


class ShakyRuntime(FakeRuntime):
    """Makes nothing without room and descriptors; says nothing without its engine."""

    def __init__(self, clock: Clock, moved: Changes, trouble: Trouble) -> None:
        super().__init__(clock, moved)
        self._trouble = trouble
        self.cannot_run: set[str] = set()

    async def start(self, spec: ContainerSpec) -> ContainerState:
        await self._trouble.take_time()
        if self._trouble.is_full or not self._trouble.has_descriptors:
            raise ContainerStartError("CreateContainerError", "no room, or too many open files")
        if spec.container.name in self.cannot_run:
            raise ContainerStartError("StartError", "exec: not found")
        state = await super().start(spec)
        await self._trouble.take_time()
        return state

    async def wait(self, container: ContainerId) -> ContainerState:
        await self._answer(container)
        state = await super().wait(container)
        await self._answer(container)
        return state

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        await self._answer(container)
        state = await super().stop(container, grace_s=grace_s)
        await self._answer(container)
        return state

    async def remove(self, container: ContainerId) -> None:
        await self._answer(container)
        await super().remove(container)

    async def _answer(self, container: ContainerId) -> None:
        await self._trouble.take_time()
        if not self._trouble.has_engine:
            raise InstanceUnreadable(container, "Input/output error")


class ShakySandboxes(HostSandboxes):
    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        await self._answer("make")
        return ()

    async def stop(self, pod: PodUid) -> None:
        await self._answer("stop")

    async def remove(self, pod: PodUid) -> None:
        await self._answer("remove")

    async def _answer(self, what: str) -> None:
        await self._trouble.take_time()
        if not self._trouble.has_engine:
            raise SandboxFailed(f"cannot {what} it: the engine does not answer")


class ShakyDevices(FakeDevices):
    """Gives devices by their IDs, durably or not at all, as the device manager does."""

    def __init__(self, moved: Changes, trouble: Trouble) -> None:
        super().__init__(moved)
        self._trouble = trouble
        self.owners: dict[DeviceId, PodUid] = {}

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        await self._trouble.take_time()
        wanted = sum(each.limits.get(GOPHER, 0) for each in pod.containers)
        if pod.uid not in self.held and wanted:
            free = [each for each in map(_gopher, range(self.allocatable)) if each not in self.owners]
            if len(free) < wanted:
                raise InsufficientDevices(GOPHER, wanted, len(free))
            if self._trouble.is_full:
                raise CheckpointNotWritten("no space left on device")
            self.owners.update(dict.fromkeys(free[:wanted], pod.uid))
        await super().admit(pod, running=running)
        await self._trouble.take_time()

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        await self._trouble.take_time()
        if pod in self.owners.values():
            if self._trouble.is_full:
                raise StoreUnusable("devices.db", "no space left on device")
            self.owners = {device: owner for device, owner in self.owners.items() if owner != pod}
        await super().release_pod(pod, reason=reason)
        self._changes.notify()
        await self._trouble.take_time()

    def devices_of(self, pod: PodUid) -> frozenset[DeviceId]:
        return frozenset(device for device, owner in self.owners.items() if owner == pod)


class ShakyStore(FakeStore):
    """Holds durably what was saved while there was room; a kill loses the rest."""

    def __init__(self, moved: Changes, trouble: Trouble) -> None:
        super().__init__(moved)
        self._trouble = trouble
        self._durable: dict[PodUid, PodRecord] = {}

    def save_pod(self, record: PodRecord) -> None:
        super().save_pod(record)
        self.write()

    def delete_pod(self, uid: PodUid) -> None:
        super().delete_pod(uid)
        self.write()

    def save_event(self, event: Event) -> None:
        pass

    async def flush(self) -> None:
        await self._trouble.take_time()
        self.write()
        if self._trouble.is_full:
            raise StoreUnusable("pods.db", "no space left on device")

    def write(self) -> None:
        """As the writer does when something changed, and from time to time while there is something unwritten."""
        if not self._trouble.is_full:
            self._durable = dict(self.pods)

    def lose_what_is_not_written(self) -> None:
        self.pods = dict(self._durable)


class ShakyVolumes(Volumes):
    def __init__(self, directory: Path, trouble: Trouble) -> None:
        super().__init__(directory, SubPathMeans.OPEN)
        self._trouble = trouble

    def prepare(self, pod: Pod, files: VolumeFiles | None = None) -> dict[str, Path]:
        if self._trouble.is_full or not self._trouble.has_descriptors:
            raise VolumeUnusable("v", "no room, or too many open files")
        return super().prepare(pod, files)


class ShakyNode(FakeNode):
    """A `FakeNode` of such parts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.trouble = Trouble()
        self._pods = root / "pods"
        self.shaky_runtime = self.runtime = ShakyRuntime(self.clock, self.moved, self.trouble)
        self.shaky_devices = self.devices = ShakyDevices(self.moved, self.trouble)
        self.shaky_store = self.kept = ShakyStore(self.moved, self.trouble)
        self.volumes = ShakyVolumes(root / "pods", self.trouble)
        self.sandboxes = ShakySandboxes(self.trouble)

    def volumes_left(self) -> Sequence[Path]:
        return [*self._pods.glob("*")]


def _gopher(number: int) -> DeviceId:
    return DeviceId(f"g{number}")
