"""A node's pods over a fake runtime and a fake device manager, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import AdmissionError
from plugbay.manager.release.notices import ReleaseNotice, ReleaseNotices
from plugbay.manager.serving.snapshot import DevicesHealth, ResourceCount
from plugbay.model.edits import NO_EDITS, ContainerEdits
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.nodes import NodeInput
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes, Inbox
from plugbay.pods.devices import DeviceFailure
from plugbay.pods.engine import PodEngine, PriorityClasses, run_engine
from plugbay.pods.events import Event
from plugbay.pods.node import Machine, Node
from plugbay.pods.record import PodRecord
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes
from plugbay.pods.scheduling.defaults import BUILT_IN_CLASSES
from plugbay.pods.store.database import PodStore
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.mounts import MissingMount
from plugbay.runtimes.sandboxes import HostSandboxes, Sandboxes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_runtime import FakeRuntime
from plugbay.testing.fakes.configs import FakeConfigs

GOPHER: Final = ResourceName("example.com/gopher")
MACHINE: Final = Machine(
    {"cpu": 2000, "memory": 2**30, "ephemeral-storage": 2**30, "pods": 110}, "n1", "6", "amd64", "Linux"
)
DEADLINE_S: Final = 30
"""Limit for waits that depend on our own code only."""


class NappingClock(ManualClock):
    """A clock that records how long each sleep is."""

    def __init__(self, moved: Changes) -> None:
        super().__init__()
        self.naps: list[float] = []
        self._moved = moved

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self._moved.notify()
        await super().sleep(seconds)


class FakeDevices:
    """A device manager with one resource, `GOPHER`, that counts.

    Attributes:
        held: pod to the containers it was last admitted with as running.
        refusal: while it is set, every admission fails with it.
        answers: while it is not set, admissions wait.
        health: the answers of `health_of`; `set_health` changes them.
        told: news of containers and pods, as ``NAME INSTANCE ended``, ``NAME not started``, ``POD REASON``.
        deallocates: while it is not set, `until_deallocated` waits.
        notices: the source of `release_notices`.
    """

    def __init__(self, moved: Changes) -> None:
        self._moved = moved
        self.allocatable = 0
        self.held: dict[PodUid, frozenset[ContainerName]] = {}
        self.refusal: AdmissionError | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.pre_start_refusals: list[AdmissionError] = []
        self.health: dict[PodUid, DevicesHealth] = {}
        self.told: list[str] = []
        self.deallocates = asyncio.Event()
        self.deallocates.set()
        self.notices = ReleaseNotices()
        self._changes = Changes()
        self._notices = Inbox[PodUid]()

    def offer(self, count: int) -> None:
        self.allocatable = count
        self._changes.notify()

    def set_health(self, pod: PodUid, health: DevicesHealth) -> None:
        self.health[pod] = health
        self._notices.put([pod])

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        await self.answers.wait()
        if self.refusal is not None:
            raise self.refusal
        self.held[pod.uid] = frozenset(running)
        self._moved.notify()

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        if self.pre_start_refusals:
            raise self.pre_start_refusals.pop(0)
        return NO_EDITS

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None:
        self._tell(f"{container} {instance} ended")

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None:
        self._tell(f"{container} not started")

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        if pod in self.held:
            self._tell(f"{pod} {reason.value}")
        self.held.pop(pod, None)
        self.health.pop(pod, None)
        self._moved.notify()

    async def until_deallocated(self, pod: PodUid) -> None:
        await self.deallocates.wait()

    def release_notices(self) -> AsyncIterator[ReleaseNotice]:
        return aiter(self.notices)

    def _tell(self, what: str) -> None:
        """Record a piece of news; repeats are allowed, and not recorded."""
        if what not in self.told:
            self.told.append(what)
        self._moved.notify()

    def in_use(self) -> Mapping[ResourceName, int]:
        return {}

    def holds_devices(self, pod: PodUid) -> bool:
        return pod in self.held

    def resources(self) -> Mapping[ResourceName, ResourceCount]:
        return {GOPHER: ResourceCount(self.allocatable, self.allocatable)}

    def changes(self) -> AsyncIterator[None]:
        return aiter(self._changes)

    def health_of(self, pod: PodUid) -> DevicesHealth:
        return self.health.get(pod, {})

    def health_notices(self) -> AsyncIterator[tuple[PodUid, ...]]:
        return aiter(self._notices)

    def assigned_pods(self) -> frozenset[PodUid]:
        return frozenset(self.held)


class FakeStore(PodStore):
    """A store in memory; it survives the engine."""

    def __init__(self, moved: Changes) -> None:  # no disk, and so nothing of `PodStore`
        self.pods: dict[PodUid, PodRecord] = {}
        self.events: dict[str, Event] = {}
        self._moved = moved

    def save_pod(self, record: PodRecord) -> None:
        self.pods[record.uid] = record
        self._moved.notify()

    def delete_pod(self, uid: PodUid) -> None:
        self.pods.pop(uid, None)
        self._moved.notify()

    def save_node(self, settings: NodeInput) -> None:
        pass

    async def flush(self) -> None:
        pass

    def save_event(self, event: Event) -> None:
        self.events[event.name] = event
        self._moved.notify()

    def delete_event(self, name: str) -> None:
        self.events.pop(name, None)


class FakeNode:
    """Everything around the engine; `engine` may be run several times, one after the other, as a node is restarted."""

    def __init__(self, root: Path) -> None:
        self.moved = Changes()
        self.clock = NappingClock(self.moved)
        self.devices = FakeDevices(self.moved)
        self.runtime = FakeRuntime(self.clock, self.moved)
        self.kept = FakeStore(self.moved)
        self.configs = FakeConfigs(self.clock)
        self.volumes = Volumes(root / "pods", SubPathMeans.OPEN)
        self.pods = PodTable(self.kept)
        self.events = EventLog(self.kept, self.clock)
        self.node = Node("n1", MACHINE, self.kept, self.clock)
        self.on_device_failure = DeviceFailure.KEEP
        self.on_missing_mount = MissingMount.MAKE
        self.sandboxes: Sandboxes = HostSandboxes()

    @asynccontextmanager
    async def engine(self, *, priority_classes: PriorityClasses = lambda: BUILT_IN_CLASSES) -> AsyncIterator[PodEngine]:
        self.pods = PodTable(self.kept, stored=list(self.kept.pods.values()))
        async with asyncio.TaskGroup() as tasks:
            host = PodHost(
                self.runtime,
                self.volumes,
                self.configs,
                self.node.machine.capacity,
                tasks,
                self.sandboxes,
                self.on_missing_mount,
            )
            async with run_engine(
                self.node,
                self.pods,
                self.events,
                host,
                self.devices,
                clock=self.clock,
                on_device_failure=self.on_device_failure,
                priority_classes=priority_classes,
            ) as engine:
                yield engine

    def restart_events(self) -> None:
        """Read the events again, as a node does when it starts."""
        self.events = EventLog(
            self.kept, self.clock, stored=sorted(self.kept.events.values(), key=lambda event: event.name)
        )

    async def until(self, wanted: Callable[[PodRecord], object], name: str = "p") -> PodRecord:
        """Wait for the first state of the pod that is ``wanted``; its last state counts too."""
        subscription = self.pods.watch()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for _, record in await subscription.next():
                    if record.pod.name == name and wanted(record):
                        return record

    async def when(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds; it is evaluated again whenever something has happened."""
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.moved:
                if condition():
                    return

    def reasons(self) -> list[str]:
        """The reasons of all events, oldest first."""
        return [event.reason for event in self.events]
