"""A kubelet's Device Manager as far as releases go by it: admissions, cleaning, and a real checkpoint file.

Source: spec 3.2, 4.1 to 4.12, 7.1, 7.5, 8.3.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

from plugbay.errors import CorruptCheckpoint
from plugbay.kubelet import checkpoint
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import ContainerDevices, ContainerResources, PodResources
from plugbay.wire.plugin_server import Caller
from tests.unit.sdk.release.machine_pods import Container, Kind, Pod, Truth

RESOURCE = ResourceName("example.com/gopher")
OTHER = ResourceName("example.org/other")
"""Another plugin's; its devices have the same names."""
NANOSECONDS = 10**9


class Refused(Exception):
    """The pod is not admitted."""


class Spoiled(Enum):
    """What may become of one write of the checkpoint."""

    NOT_WRITTEN = "the disk is full"
    CORRUPT = "bits flip"
    TORN = "its end is missing"
    REMOVED = "somebody removes it"
    STALLED = "the disk hangs"


class Plugin(Protocol):
    """What a kubelet calls."""

    @property
    def serves(self) -> bool: ...

    async def stream_opened(self, caller: Caller) -> None: ...

    async def allocate(self, pod: Pod, units: Sequence[str], arrived: Callable[[], object]) -> None:
        """
        Args:
            arrived: called as soon as the plugin knows of the call.

        Raises:
            Refused: or the plugin has died.
        """

    async def pre_start(self, units: Iterable[str]) -> bool: ...


Key = tuple[str, str, ResourceName]


class Kubelet:
    """
    Args:
        pace: how long the next thing takes.
        written: called when there is another checkpoint.
        has_store: whether it names what it has its assignments from, as our own manager does.

    Attributes:
        assigned: by pod, container and resource.
        allocated: what is not free; see spec 4.9.2 for how that loses what an Allocate is running for.
        spoiled: what becomes of the next writes.
        is_ready: whether all sources of pods have told.
        plugin: who is registered.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        paths: KubeletPaths,
        devices: Sequence[str],
        truth: Truth,
        *,
        pace: Callable[[], float],
        written: Callable[[], None],
        has_store: bool = False,
    ) -> None:
        self._has_store, self._losses = has_store, 0
        self._written = written
        self._loop = loop
        self.paths = paths
        self.assigned: dict[Key, frozenset[str]] = {}
        self.allocated: dict[ResourceName, set[str]] = {}
        self.spoiled: list[Spoiled] = []
        self.is_ready = False
        self.is_up = False
        self.plugin: Plugin | None = None
        self._devices = devices
        self._truth = truth
        self._pace = pace
        self._names: set[str] = set()
        self._on_the_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._started_ns = 0
        self._was_met = True
        self._unknown: set[str] = set()  # what was given before, if it began with nothing
        self._has_written = False
        self._newest: tuple[int, bytes] | None = None  # of this life's writes, and the number of what is there
        self._there = 0
        paths.device_plugins.mkdir(parents=True)
        (paths.root / "pods").mkdir()

    # --- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_up, self.is_ready, self._has_written = True, False, False
        self._on_the_way.clear()
        self._newest, self._there = None, 0
        self._admission, self._disk = asyncio.Lock(), asyncio.Lock()
        self._workers: dict[str, asyncio.Lock] = {}  # by pod
        self._streams: dict[object, asyncio.Lock] = {}  # by who sends
        before = self._truth.dirty | self._truth.lost
        self.assigned, names, is_lost = self._load()
        self._names = names
        self._losses += is_lost
        if not (self._was_met or self._has_store):
            self._truth.beyond_proof |= self._unknown
        self._was_met, self._unknown = False, before if is_lost else set()
        self._truth.unproven |= self._unknown
        self._count()
        for pod in self._truth.pods.values():
            for container in pod.containers:
                if not pod.has_begun:  # what was allocated for it in the life before it can lose
                    container.units = self.assigned.get((pod.uid, container.name, RESOURCE), frozenset())
        fresh = self.paths.device_plugins / "fresh"
        fresh.touch()
        fresh.rename(self.paths.registration_socket)  # another inode than that of the last one
        self._started_ns = self.paths.registration_socket.stat().st_ctime_ns
        self._date(self._started_ns - NANOSECONDS)

    def stop(self) -> None:
        """It is killed. That its last write was overtaken by an older one does not come on top of that."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._newest is not None and self._newest[0] != self._there:
            self._put(*self._newest)
        self.is_up, self.plugin = False, None
        self.paths.registration_socket.unlink()

    def lose_checkpoint(self) -> None:
        self.paths.checkpoint.unlink(missing_ok=True)

    def _load(self) -> tuple[dict[Key, frozenset[str]], set[str], bool]:
        try:
            content = self.paths.checkpoint.read_bytes()
            data = checkpoint.load(content, source="")
        except (FileNotFoundError, CorruptCheckpoint):
            return {}, set(), True
        held: dict[Key, frozenset[str]] = {}
        for entry in data.pod_device_entries or ():
            key = entry.pod_uid, entry.container_name, ResourceName(entry.resource_name)
            held[key] = frozenset(unit for units in (entry.device_ids or {}).values() for unit in units or ())
        return held, set(data.registered_devices or ()), False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- its plugin -------------------------------------------------------------------------------------------------

    async def connect(self, plugin: Plugin) -> None:
        """The plugin has registered."""
        await asyncio.sleep(self._pace())
        before = self._truth.dirty | self._truth.lost
        await plugin.stream_opened(Caller(store=f"store {self._losses}" if self._has_store else ""))
        self._was_met = True
        if self._has_written and not self._has_store:  # too late to see what it began with, or just then
            self._truth.unproven |= before
        if not plugin.serves:
            return
        self.plugin = plugin
        self._names.add(RESOURCE)
        await self.list_arrives(plugin)

    def disconnect(self, plugin: Plugin) -> None:
        if self.plugin is plugin:
            self.plugin = None

    async def list_arrives(self, sender: object) -> None:
        """Each plugin has a stream of its own, whose next message is read when what the last one told is written."""
        async with self._streams.setdefault(sender, asyncio.Lock()):
            await asyncio.sleep(self._pace())
            await self._write()

    # --- pods -------------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        if not self.is_ready:
            return
        pods = self._truth.pods
        gone = {uid for uid, _, _ in self.assigned if uid not in pods or not pods[uid].is_active}
        if gone:
            self.assigned = {key: units for key, units in self.assigned.items() if key[0] not in gone}
            self._count()

    def _count(self) -> None:
        """What an Allocate is running for drops out, and does not come back by itself.

        But not what it has only been sent for: a plugin cannot know of that, so nothing it does could prevent it.
        """
        self.allocated = {RESOURCE: set(self._on_the_way), OTHER: set()}
        for (_, _, resource), units in self.assigned.items():
            self.allocated[resource] |= units

    def units_of_others(self, pod: Pod) -> set[str]:
        held = [units for (uid, _, name), units in self.assigned.items() if uid != pod.uid and name == RESOURCE]
        return set().union(*held)

    async def admit(self, pod: Pod) -> None:
        async with self._admission:
            try:
                await self._admit(pod)
            except Refused:
                pod.is_active = False
            else:
                pod.is_active = pod.is_active and not pod.is_refused
                pod.runs = pod.has_begun = pod.is_active

    async def _admit(self, pod: Pod) -> None:
        reusable: dict[ResourceName, set[str]] = {RESOURCE: set(), OTHER: set()}
        for container in pod.containers:
            self.clean()
            fresh = False
            for resource, count in ((OTHER, container.other), (RESOURCE, container.wants)):
                fresh |= bool(count) and await self._allocate(pod, container, resource, count, reusable[resource])
            if fresh and not await self._write():
                raise Refused("failed to write checkpoint file")
            for resource, units in reusable.items():
                held = self.assigned.get((pod.uid, container.name, resource), frozenset())
                if container.kind is Kind.INIT:
                    units |= held
                else:
                    units -= held

    async def _allocate(
        self, pod: Pod, container: Container, resource: ResourceName, count: int, reusable: set[str]
    ) -> bool:
        """Whether there was an Allocate."""
        key = pod.uid, container.name, resource
        if resource == RESOURCE and self.plugin is None:
            raise Refused("no healthy devices")
        if key in self.assigned:
            container.units = self.assigned[key] if resource == RESOURCE else container.units
            return False
        picked = sorted(reusable)[:count]
        free = [unit for unit in self._devices if unit not in self.allocated[resource] and unit not in picked]
        picked += free[: count - len(picked)]
        if len(picked) < count:
            raise Refused("too few")
        self.allocated[resource].update(picked)
        try:
            if resource == RESOURCE and self.plugin is not None:
                self._on_the_way.update(picked)
                await self.plugin.allocate(pod, picked, self._on_the_way.clear)
            else:
                await asyncio.sleep(self._pace())
        except Refused:
            self._on_the_way.clear()
            self._count()
            raise
        if resource == RESOURCE:
            container.units = frozenset(picked)  # from here on it may count on them
        await asyncio.sleep(self._pace())
        self.assigned[key] = frozenset(picked)
        return True

    async def create_next_container(self, pod: Pod) -> None:
        """The next one, or an instance more of one that has just ended; one at a time, as in a pod's worker."""
        async with self._workers.setdefault(pod.uid, asyncio.Lock()):
            await self._create_next_container(pod)

    async def _create_next_container(self, pod: Pod) -> None:
        container = pod.next_to_start()
        if container is None:
            return
        for other in pod.containers:
            if other.kind is Kind.INIT and other.runs and other is not container:
                other.runs, other.has_ended = False, True
        container.runs = False
        if container.wants and (self.plugin is None or not await self.plugin.pre_start(container.units)):
            return
        if pod.runs:
            container.runs = True
            self._truth.started(pod, container.units)

    # --- the checkpoint ---------------------------------------------------------------------------------------------

    async def _write(self) -> bool:
        """A snapshot, which another writer may overtake before it is on the disk; whether it was written."""
        content, number = self._render(), next(self._numbers)
        await asyncio.sleep(self._pace())
        async with self._disk:
            spoiled = self.spoiled.pop(0) if self.spoiled else None
            if spoiled is Spoiled.STALLED:
                await asyncio.sleep(3)
            self._has_written = True
            if self._newest is None or number > self._newest[0]:
                self._newest = (number, content)
            match spoiled:
                case Spoiled.NOT_WRITTEN:
                    self._newest = None
                    return False
                case Spoiled.CORRUPT:
                    content = content.replace(b'"PodUID":"p', b'"PodUID":"q').replace(b'"Checksum":', b'"Checksum":1')
                case Spoiled.TORN:
                    content = content[:-9]
                case Spoiled.REMOVED:
                    self._newest = None
                    self.lose_checkpoint()
                    return True
            if spoiled in (Spoiled.CORRUPT, Spoiled.TORN):
                self._newest = None
            self._put(number, content)
            return True

    def _put(self, number: int, content: bytes) -> None:
        temporary = self.paths.device_plugins / f".{number}"
        temporary.write_bytes(content)
        temporary.rename(self.paths.checkpoint)
        self._there = number
        self._date(self._started_ns + number)
        self._written()

    def _date(self, written_ns: int) -> None:
        if self.paths.checkpoint.exists():
            os.utime(self.paths.checkpoint, ns=(written_ns, written_ns))

    def _render(self) -> bytes:
        entries = [
            PodDevicesEntry(uid, container, resource, {-1: sorted(units)}, b"")
            for (uid, container, resource), units in self.assigned.items()
        ]
        healthy = sorted(self._devices) if self.plugin is not None else []
        registered = dict.fromkeys(sorted({*self._names, OTHER}), healthy)
        return checkpoint.encode(CheckpointData(entries, registered))

    # --- PodResources -----------------------------------------------------------------------------------------------

    async def listed_pods(self) -> tuple[PodResources, ...]:
        self.clean()
        pods = self._listed() if self.is_ready else ()
        await asyncio.sleep(self._pace())
        return pods

    def _listed(self) -> tuple[PodResources, ...]:
        listed = [
            PodResources("default", uid, tuple(self._containers(pod)))
            for uid, pod in self._truth.pods.items()
            if pod.is_active
        ]
        return (*listed, PodResources("kube-system", "plugin"))

    def _containers(self, pod: Pod) -> Iterable[ContainerResources]:
        for container in pod.containers:
            if container.kind is not Kind.INIT:
                devices = [
                    ContainerDevices(resource, tuple(map(DeviceId, sorted(units))))
                    for (uid, name, resource), units in self.assigned.items()
                    if (uid, name) == (pod.uid, container.name)
                ]
                yield ContainerResources(ContainerName(container.name), tuple(devices))
