"""A machine with a kubelet that never tells when a use of devices is over, and what is true on it.

The kubelet is our manager without its gate, whose checkpoints a `Disk` may spoil; the plugins are served by the SDK.
Everything is real, the sockets, the files and the calls, but for the time, which passes when a test says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

import pytest

from plugbay import ReleasePolicy
from plugbay.errors import AdmissionError, CorruptCheckpoint
from plugbay.kernel.files import write_durably
from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.podresources import serve_pod_resources
from plugbay.manager.rendering import Renderer
from plugbay.model.devices import Device
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.sdk.release import records
from plugbay.sdk.release.readings import holders
from plugbay.sdk.release.settings import DIRECTORY_NAME
from plugbay.sdk.release.uses import GRACE_S, SETTLE_S
from plugbay.sdk.waiting import wait_first
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_plugin import fake_plugin
from tests.contract.stock_plugin import DEVICES, INTERVAL_S, SLOWNESS_S, StockPlugin, Witness

OTHER: Final = ResourceName("example.com/other")
"""Another plugin's, of which ours know nothing."""
DEADLINE_S: Final = 30.0
STEP_S: Final = 20
CONTENT_OF_ANOTHER: Final = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'
"""A valid checkpoint that names no resource (spec 7.3)."""


class Loop(asyncio.SelectorEventLoop):
    """Its time can be moved on."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Fault(Enum):
    """What is wrong with the checkpoints that are written."""

    NONE = auto()
    LATE = auto()
    """They are not there in time."""
    MISSING = auto()
    """Somebody removes them."""
    CORRUPT = auto()
    ANOTHERS = auto()
    """They are another kubelet's."""


class Disk:
    """What becomes of a checkpoint on its way to its place.

    Attributes:
        is_asked: whether a list that was sent again brings about the next one.
        stale: another writer's, from before; it lands after the next one that was asked for (spec 7.1).
    """

    def __init__(self) -> None:
        self.fault = Fault.NONE
        self.is_asked = False
        self.stale: bytes | None = None

    def write(self, path: Path, content: bytes) -> None:
        """Stands for `write_durably`."""
        stale = None
        if self.is_asked:
            stale, self.stale, self.is_asked = self.stale, None, False
        match self.fault:
            case Fault.LATE:
                return
            case Fault.MISSING:
                path.unlink(missing_ok=True)
                return
            case Fault.CORRUPT:
                content = content.replace(b'"Checksum":', b'"Checksum":1')
            case Fault.ANOTHERS:
                content = CONTENT_OF_ANOTHER
        write_durably(path, content)
        if stale is not None:
            write_durably(path, stale)


@dataclass
class Pod:
    """
    Attributes:
        used: what its containers may use, from its admission until all of them have stopped.
        started: so many of its containers have been started.
        running: those that run, with their devices.
        refused_at: when a kubelet that had restarted refused it; it runs on for a while.
    """

    request: PodRequest
    used: set[str] = field(default_factory=set)
    started: int = 0
    running: dict[ContainerName, frozenset[str]] = field(default_factory=dict)
    refused_at: float | None = None

    @property
    def uid(self) -> PodUid:
        return self.request.uid


class StockWorld:
    """Used through `stock_world`.

    Attributes:
        pods: those that may run.
        is_listing: whether the kubelet knows its pods yet, which it is not for a while after its start.
        has_directories: whether the kubelet's directories of its pods can be seen.
        kill_at_start: at which effect the next process of the plugin dies.
        may_doubt: whether a kubelet has restarted or a journal was lost, after which the end of a use that no reading has
            shown since cannot be proven.
    """

    def __init__(self, root: Path, policy: ReleasePolicy, has_directories: bool, patches: pytest.MonkeyPatch) -> None:
        self.config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db")
        self.policy = policy
        self.disk = Disk()
        self.has_directories = has_directories
        self.pods: dict[str, Pod] = {}
        self.witness = Witness(policy, self.users)
        self.is_listing = True
        self.may_doubt = False
        self.clock = ManualClock()
        self.boot = 1
        self._patches = patches
        self.kill_at_start: int | None = None
        self._names = 0
        self._kubelet = AsyncExitStack()
        self.spoil(Fault.NONE)
        patches.setattr("plugbay.manager.view.write_durably", self.disk.write)
        patches.setattr("plugbay.sdk.release.sweep.CONFIRM_S", 0.0)

    def users(self, unit: str) -> list[str]:
        """The pods that may use ``unit`` now."""
        return [uid for uid, pod in self.pods.items() if unit in pod.used]

    def pass_time(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead_s += seconds
        self.clock.advance(seconds)
        for pod in list(self.pods.values()):
            if pod.refused_at is not None and loop.time() - pod.refused_at >= SETTLE_S - STEP_S:
                self._gone(pod)

    def spoil(self, fault: Fault) -> None:
        self.disk.fault = fault
        comes = fault not in (Fault.LATE, Fault.MISSING)
        self._patches.setattr("plugbay.sdk.release.readings.DEADLINE_S", DEADLINE_S if comes else 0.02)

    def write_late(self) -> None:
        """Another writer of the checkpoint has what is true now in hand."""
        self.disk.stale = Renderer().render(self.manager.holdings()).content

    # --- the kubelet ------------------------------------------------------------------------------------------------

    async def start_kubelet(self) -> None:
        paths = self.config.paths
        self.manager: DeviceManager = await self._kubelet.enter_async_context(
            run_manager(self.config, clock=self.clock)
        )
        hurry = self.manager.endpoints.on_repeated_list

        def asked() -> None:
            self.disk.is_asked = True
            hurry()

        self.manager.endpoints.on_repeated_list = asked
        await self._kubelet.enter_async_context(
            serve_pod_resources(paths.pod_resources_socket, self.manager.pod_resources(), self, clock=self.clock)
        )
        other = await self._kubelet.enter_async_context(
            fake_plugin(OTHER, paths.device_plugins / "other.sock", [Device("o1"), Device("o2")])
        )
        await other.register(paths.registration_socket)

    async def stop_kubelet(self) -> None:
        self.spoil(Fault.NONE)  # or what it writes last would look like another program's
        self.disk.stale = None
        await self._kubelet.aclose()

    async def restart_kubelet(self, *, is_lost: bool, refuses: bool, is_first: bool, plugin_too: bool) -> None:
        """
        Args:
            is_lost: it begins without a checkpoint.
            refuses: it drops the pods that ran and stops them a little later.
            is_first: none has written the checkpoint before our plugins come.
        """
        self.may_doubt = True
        if plugin_too:
            await self.plugin.stop()
        is_away = self.plugin.has_ended
        await self.stop_kubelet()
        self.is_listing = False
        checkpoint = self.config.paths.checkpoint
        if is_lost:
            checkpoint.unlink()
            for path in self.config.store.parent.iterdir():
                path.unlink()
        elif not is_first:
            later = self.clock.now().timestamp() + 1e9
            os.utime(checkpoint, (later, later))
        await self.start_kubelet()
        if refuses:
            for pod in self.pods.values():
                pod.refused_at = asyncio.get_running_loop().time()
                await self.manager.release_pod(pod.uid)
        await (self.start_plugin() if is_away else self.until_offered())

    def active_pods(self) -> Sequence[PodRequest]:
        """For PodResources: a pod without devices is always there, that of our plugins for instance."""
        plugin = PodRequest(PodUid("plugin"), "default", "plugin", ())
        return [plugin, *(pod.request for pod in self.pods.values() if pod.refused_at is None)] if self.is_listing else []

    all_pods = active_pods

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.manager.changes():
                if condition():
                    return

    def _offered(self) -> Mapping[str, int]:
        counts = self.manager.resources()
        return {name: counts[name].allocatable if name in counts else 0 for name in DEVICES}

    async def until_offered(self) -> None:
        """Wait until the kubelet has the lists of all our plugins, or their process has died."""
        wanted = {name: len(devices) for name, devices in DEVICES.items()}
        await wait_first(lambda: self.until(lambda: self._offered() == wanted), self.plugin.ended)

    # --- the plugins ------------------------------------------------------------------------------------------------

    async def start_plugin(self) -> None:
        self.witness.process_starts()
        self.plugin = StockPlugin(self.config.paths, self.policy, self.witness, boot=f"boot {self.boot}")
        self.plugin.fate.left, self.kill_at_start = self.kill_at_start, None
        await self.until_offered()

    async def until_plugin_is_missed(self) -> None:
        await self.until(lambda: not any(self._offered().values()))

    async def restart_plugin(self) -> None:
        await self.plugin.stop()
        await self.until_plugin_is_missed()
        await self.start_plugin()

    async def lose_journal(self) -> None:
        """While the plugin is away, if what the kubelet has written makes up for it."""
        await self.plugin.stop()
        await self.until_plugin_is_missed()
        if self.witness.dirty <= self._units_on_disk():
            for journal in self._journals():
                journal.unlink()
            self.witness.started.clear()
            self.may_doubt = True
        await self.start_plugin()

    def _units_on_disk(self) -> set[str]:
        checkpoint = self.config.paths.checkpoint
        try:
            data = load(checkpoint.read_bytes(), source=str(checkpoint))
        except (OSError, CorruptCheckpoint):
            return set()
        return {unit for name in DEVICES for unit in holders(data, name)}

    def _journals(self) -> list[Path]:
        return list((self.config.paths.device_plugins / DIRECTORY_NAME).glob("*.journal"))

    # --- pods -------------------------------------------------------------------------------------------------------

    async def admit(self, *containers: ContainerRequest) -> None:
        """A new pod; the kubelet may refuse it."""
        self._names += 1
        uid = PodUid(f"p{self._names}")
        pod = Pod(PodRequest(uid, "default", uid, containers))
        try:
            await self.manager.admit(pod.request)
        except AdmissionError:
            return
        finally:
            pod.used.update(self.witness.given)
            self.witness.given.clear()
        self.pods[uid] = pod
        if self.has_directories:
            self._directory(pod).mkdir(parents=True)

    async def look_while_admitting(self, *containers: ContainerRequest) -> None:
        """A release that has begun goes on as long as it takes for an Allocate to overtake it, if it could."""
        self.witness.let_go, self.witness.releasing_begun = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self.plugin.look())
            begun = tasks.create_task(self.witness.releasing_begun.wait())
            await asyncio.wait([looking, begun], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            admitting = tasks.create_task(self.admit(*containers))
            await asyncio.wait([admitting], timeout=SLOWNESS_S)
            self.witness.let_go.set()
        self.witness.let_go = None

    async def go_on(self, pod: Pod) -> None:
        """Its next container starts, or its last one anew."""
        if not self.manager.holds_devices(pod.uid):
            return
        containers = pod.request.containers
        before = containers[pod.started - 1] if pod.started else None
        if before is not None and (before.kind is ContainerKind.INIT or pod.started == len(containers)):
            self._stopped(pod, before.name)
        following = containers[min(pod.started, len(containers) - 1)]
        with suppress(AdmissionError):  # it is tried again
            await self.manager.prepare_container(pod.uid, following.name)
            pod.started = min(pod.started + 1, len(containers))
            pod.running[following.name] = self._units_of(pod, following.name)
            self.witness.starts(pod.running[following.name])

    def _units_of(self, pod: Pod, container: ContainerName) -> frozenset[str]:
        held = self.manager.devices_of(pod.uid).get(container, {})
        return frozenset(unit for name in DEVICES for unit in held.get(name, ()))

    def _stopped(self, pod: Pod, container: ContainerName) -> None:
        self.witness.running.subtract(pod.running.pop(container, ()))

    async def end_pod(self, pod: Pod) -> None:
        self._gone(pod)
        await self.manager.release_pod(pod.uid)

    def _gone(self, pod: Pod) -> None:
        """All its containers have stopped, and what the kubelet keeps of it is removed."""
        for container in list(pod.running):
            self._stopped(pod, container)
        del self.pods[pod.uid]
        if self.has_directories:
            self._directory(pod).rmdir()

    def _directory(self, pod: Pod) -> Path:
        return self.config.paths.root / "pods" / pod.uid

    # --- in the end -------------------------------------------------------------------------------------------------

    async def reboot(self) -> None:
        """Nothing runs any more, and no pod comes back."""
        await self.plugin.stop()
        for pod in list(self.pods.values()):
            await self.end_pod(pod)
        await self.stop_kubelet()
        self.witness.started.clear()
        self.boot += 1
        await self.start_kubelet()
        await self.start_plugin()
        await self.plugin.look()

    async def finish(self) -> None:
        """End all pods, and see that all is released then that can be."""
        self.spoil(Fault.NONE)
        self.disk.stale = None
        self.is_listing = True
        self.witness.failing = 0
        for pod in list(self.pods.values()):
            await self.end_pod(pod)
        self.pass_time(SETTLE_S + GRACE_S)
        for _ in range(3):
            self.pass_time(INTERVAL_S)
            await self.plugin.look()
        left = [use for custody in self.plugin.custodies for use in custody.book.uses()]
        doubted = {key for custody in self.plugin.custodies for key in custody.doubts}
        assert all(use.key in doubted for use in left)
        assert self.may_doubt or not left
        assert self.witness.dirty <= {unit for use in left for unit in use.units}
        if left:
            await self.reboot()
        assert not self.witness.dirty
        await self.plugin.stop()
        for journal in self._journals():
            assert records.read(journal.read_bytes()).uses == ()


@asynccontextmanager
async def stock_world(root: Path, policy: ReleasePolicy, *, has_directories: bool) -> AsyncIterator[StockWorld]:
    with pytest.MonkeyPatch.context() as patches:
        world = StockWorld(root, policy, has_directories, patches)
        await world.start_kubelet()
        try:
            await world.start_plugin()
            try:
                yield world
            finally:
                await world.plugin.stop()
        finally:
            await world.stop_kubelet()
