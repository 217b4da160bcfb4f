"""What pods are run with, handed to every worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from plugbay.manager.health import DevicesHealth
from plugbay.manager.release_notices import ReleaseNotice
from plugbay.manager.snapshot import ResourceCount
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import PodRequest
from plugbay.node.config import DeviceFailure, MissingMount
from plugbay.node.cordon import Cordon
from plugbay.node.events import EventLog
from plugbay.node.pods import PodTable
from plugbay.node.runtime_health import RuntimeHealth
from plugbay.node.runtimes.port import ContainerRuntime
from plugbay.node.runtimes.sandboxes import HostSandboxes, Sandboxes
from plugbay.node.volumes import Volumes
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import LabelCounter


class DeviceSource(Protocol):
    """What running pods asks of a device manager; see `plugbay.manager.manager.DeviceManager`."""

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None: ...

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits: ...

    def container_ended(self, pod: PodUid, container: ContainerName, instance: str) -> None: ...

    def container_not_started(self, pod: PodUid, container: ContainerName) -> None: ...

    async def release_pod(self, pod: PodUid, *, reason: ReleaseReason = ...) -> None: ...

    async def until_deallocated(self, pod: PodUid) -> None: ...

    def release_notices(self) -> AsyncIterator[ReleaseNotice]: ...

    def resources(self) -> Mapping[ResourceName, ResourceCount]: ...

    def in_use(self) -> Mapping[ResourceName, int]: ...

    def holds_devices(self, pod: PodUid) -> bool: ...

    def changes(self) -> AsyncIterator[None]: ...

    def health_of(self, pod: PodUid) -> DevicesHealth: ...

    def health_notices(self) -> AsyncIterator[frozenset[PodUid]]: ...

    def assigned_pods(self) -> frozenset[PodUid]: ...


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What the workers of pods and containers share.

    Attributes:
        tasks: lives as long as the engine.
        rejections: pods that were not admitted, by reason.
        sandboxes: of the runtime.
        changes: of the node as a v1 object: its resources, its cordon, whether its runtime answers.
    """

    name: str
    devices: DeviceSource
    runtime: ContainerRuntime
    pods: PodTable
    events: EventLog
    volumes: Volumes
    clock: Clock
    cordon: Cordon
    on_device_failure: DeviceFailure
    tasks: asyncio.TaskGroup
    rejections: LabelCounter[str] = field(default_factory=partial(LabelCounter, "OutOfExtendedResources"))
    sandboxes: Sandboxes = field(default_factory=HostSandboxes)
    on_missing_mount: MissingMount = MissingMount.MAKE
    runtime_health: RuntimeHealth = field(default_factory=RuntimeHealth)
    changes: Changes = field(default_factory=Changes)
