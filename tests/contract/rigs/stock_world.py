"""A machine whose kubelet never tells when a use of devices is over, its pods, and what is true on it.

Everything is real, the sockets, the files and the calls, but for the time, which passes when a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from plugbay import ReleasePolicy
from plugbay.errors import AdmissionError
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.tasks import first
from plugbay.sdk.author.release_settings import DIRECTORY_NAME
from plugbay.sdk.release.ledger import lines as records
from plugbay.sdk.release.uses import GRACE_S, SETTLE_S, Use
from tests.contract.rigs.stock_kubelet import StockKubelet
from tests.contract.rigs.stock_plugin import DEVICES, INTERVAL_S, StockPlugin
from tests.contract.rigs.stock_witness import Witness

REFUSED_RUN_S: Final = 40.0
"""How long the containers of pods that a kubelet has refused run on."""
SLOWNESS_S: Final = 0.02
"""So long a held release goes on for an Allocate that should wait for it; nothing depends on it that must hold."""


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
        is_listing: whether the kubelet knows its pods yet, which it does not for a while after its start.
        kill_at_start: at which effect the next process of the plugin dies.
        deaths: how often it has died.
        may_doubt: whether a kubelet has restarted or a journal was lost, after which the end of a use that no reading
            has shown since cannot be proven.
    """

    def __init__(self, root: Path, policy: ReleasePolicy, has_directories: bool, patches: pytest.MonkeyPatch) -> None:
        self.policy = policy
        self.kubelet = StockKubelet(root, self, patches)
        self.pods: dict[str, Pod] = {}
        self.witness = Witness(policy, self.users)
        self.is_listing = True
        self.may_doubt = False
        self.kill_at_start: int | None = None
        self.deaths = 0
        self._has_directories = has_directories
        self._boot = 1
        self._names = 0
        patches.setattr("plugbay.sdk.release.sweep.CONFIRM_S", 0.0)
        patches.setattr("plugbay.sdk.serving.server.DRAIN_S", 0.1)  # who is killed waits for nobody

    def users(self, unit: str) -> list[str]:
        """The pods that may use ``unit`` now."""
        return [uid for uid, pod in self.pods.items() if unit in pod.used]

    def pass_time(self, seconds: float) -> None:
        self.kubelet.pass_time(seconds)
        now = asyncio.get_running_loop().time()
        for pod in list(self.pods.values()):
            if pod.refused_at is not None and now - pod.refused_at >= REFUSED_RUN_S:
                self._gone(pod)

    # --- the kubelet ------------------------------------------------------------------------------------------------

    def active_pods(self) -> Sequence[PodRequest]:
        """For PodResources: a pod without devices is always there, that of our plugins for instance."""
        plugin = PodRequest(PodUid("plugin"), "default", "plugin", ())
        active = [plugin, *(pod.request for pod in self.pods.values() if pod.refused_at is None)]
        return active if self.is_listing else []

    all_pods = active_pods

    async def restart_kubelet(
        self, *, is_lost: bool, refuses: bool, is_first: bool, knows_pods: bool, plugin_too: bool
    ) -> None:
        """
        Args:
            is_lost: it begins without a checkpoint.
            refuses: it drops the pods that ran and stops them a little later.
            is_first: none has written the checkpoint before our plugins come.
            knows_pods: its sources are ready at once.
        """
        self.may_doubt = True
        if plugin_too:
            await self.plugin.stop()
        is_away = self.plugin.has_ended
        await self.kubelet.stop()
        self.is_listing = knows_pods
        if is_lost:
            self.kubelet.lose_all()
        if not is_first:
            self.kubelet.rewrite()
        await self.kubelet.start()
        if refuses:
            for pod in self.pods.values():
                pod.refused_at = asyncio.get_running_loop().time()
                await self.kubelet.manager.release_pod(pod.uid)
        await (self.start_plugin() if is_away else self.until_offered())

    def _offered(self) -> Mapping[str, int]:
        counts = self.kubelet.manager.resources()
        return {name: counts[name].allocatable if name in counts else 0 for name in DEVICES}

    async def until_offered(self) -> None:
        """Wait until the kubelet has the lists of all our plugins, or their process has died."""
        wanted = {name: len(devices) for name, devices in DEVICES.items()}
        await first(self.kubelet.until(lambda: self._offered() == wanted), self.plugin.ended())

    # --- the plugins ------------------------------------------------------------------------------------------------

    async def start_plugin(self) -> None:
        self.witness.process_starts()
        self.plugin = StockPlugin(self.kubelet.paths, self.policy, self.witness, boot=f"boot {self._boot}")
        self.plugin.fate.left, self.kill_at_start = self.kill_at_start, None
        await self.until_offered()

    async def bury_plugin(self) -> None:
        """Wait until the kubelet, too, has seen that it is dead."""
        self.deaths += 1
        await self.plugin.ended()
        await self._until_missed()

    async def _until_missed(self) -> None:
        await self.kubelet.until(lambda: not any(self._offered().values()))

    async def restart_plugin(self, *, loses_journal: bool) -> None:
        """
        Args:
            loses_journal: if what the kubelet has written makes up for it.
        """
        await self.plugin.stop()
        await self._until_missed()
        if loses_journal:
            await self._start_plugin_without_journal()
        else:
            await self.start_plugin()

    async def _start_plugin_without_journal(self) -> None:
        """Lose the journal, if the checkpoint makes up for it, and start the plugin, which takes that over.

        The checkpoint does not change in between. The kubelet might write just then that a pod has ended whose devices
        only the journal knew of; then nothing on the machine would tell of them.
        """
        with self.kubelet.with_disk_still():
            if self.witness.dirty <= {unit for name in DEVICES for unit in self.kubelet.on_disk(name)}:
                for journal in self._journals():
                    journal.unlink()
                self.witness.started.clear()
                self.may_doubt = True
            await self.start_plugin()
            while self.plugin.has_ended:  # perhaps before it has taken all over
                await self.bury_plugin()
                await self.start_plugin()

    def _journals(self) -> list[Path]:
        return list((self.kubelet.paths.device_plugins / DIRECTORY_NAME).glob("*.journal"))

    # --- pods -------------------------------------------------------------------------------------------------------

    async def admit(self, *containers: ContainerRequest) -> None:
        """A new pod; the kubelet may refuse it."""
        self._names += 1
        uid = PodUid(f"p{self._names}")
        pod = Pod(PodRequest(uid, "default", uid, containers))
        try:
            await self.kubelet.manager.admit(pod.request)
        except AdmissionError:
            return
        finally:
            pod.used.update(self.witness.given)
            self.witness.given.clear()
        self.pods[uid] = pod
        if self._has_directories:
            self._directory(pod).mkdir(parents=True)

    async def look_while_admitting(self, *containers: ContainerRequest) -> None:
        """A release that has begun goes on as long as it takes for an Allocate to overtake it, if it could."""
        self.witness.let_go, self.witness.releasing = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self.plugin.look())
            begun = tasks.create_task(self.witness.releasing.wait())
            await asyncio.wait([looking, begun], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            admitting = tasks.create_task(self.admit(*containers))
            await asyncio.wait([admitting], timeout=SLOWNESS_S)
            self.witness.let_go.set()
        self.witness.let_go = None

    async def restart_kubelet_in_admission(self, *containers: ContainerRequest, **how: bool) -> None:
        """A new kubelet finds the Allocate of the one before still running, if it comes to one."""
        self.witness.may_answer, self.witness.allocating = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            admitting = tasks.create_task(self.admit(*containers))
            begun = tasks.create_task(self.witness.allocating.wait())
            await asyncio.wait([admitting, begun], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            await self.restart_kubelet(**how)
            self.witness.may_answer.set()
        self.witness.may_answer = None

    async def go_on(self, pod: Pod) -> None:
        """Its next container starts, or its last one anew."""
        if not self.kubelet.manager.holds_devices(pod.uid):
            return
        containers = pod.request.containers
        before = containers[pod.started - 1] if pod.started else None
        if before is not None and (before.kind is ContainerKind.INIT or pod.started == len(containers)):
            self._stopped(pod, before.name)
        following = containers[min(pod.started, len(containers) - 1)]
        with suppress(AdmissionError):  # it is tried again
            await self.kubelet.manager.prepare_container(pod.uid, following.name)
            pod.started = min(pod.started + 1, len(containers))
            pod.running[following.name] = self._units_of(pod, following.name)
            self.witness.starts(pod.running[following.name])

    def _units_of(self, pod: Pod, container: ContainerName) -> frozenset[str]:
        held = self.kubelet.manager.devices_of(pod.uid).get(container, {})
        return frozenset(unit for name in DEVICES for unit in held.get(name, ()))

    def _stopped(self, pod: Pod, container: ContainerName) -> None:
        self.witness.running.subtract(pod.running.pop(container, ()))

    async def end_pod(self, pod: Pod) -> None:
        self._gone(pod)
        await self.kubelet.manager.release_pod(pod.uid)

    def _gone(self, pod: Pod) -> None:
        """All its containers have stopped, and what the kubelet keeps of it is removed."""
        for container in list(pod.running):
            self._stopped(pod, container)
        del self.pods[pod.uid]
        if self._has_directories:
            self._directory(pod).rmdir()

    def _directory(self, pod: Pod) -> Path:
        return self.kubelet.paths.root / "pods" / pod.uid

    # --- in the end -------------------------------------------------------------------------------------------------

    async def reboot(self) -> None:
        """Nothing runs any more, and no pod comes back."""
        await self.plugin.stop()
        for pod in list(self.pods.values()):
            await self.end_pod(pod)
        await self.kubelet.stop()
        self.witness.started.clear()
        self._boot += 1
        await self.kubelet.start()
        await self.start_plugin()
        self.witness.failing = 0
        await self.plugin.look()
        assert not self.witness.dirty or self.plugin.has_ended

    async def settle(self) -> list[Use]:
        """Heal all, end all pods, look until all is released that can be; the uses of which that is not known."""
        self.kubelet.heal()
        self.is_listing = True
        self.witness.failing = 0
        self.plugin.fate.left = self.kill_at_start = None
        for pod in list(self.pods.values()):
            await self.end_pod(pod)
        self.pass_time(SETTLE_S + GRACE_S)
        for _ in range(3):
            self.pass_time(INTERVAL_S)
            await self.plugin.look()
        left = [use for release in self.plugin.releases for use in release.ledger.uses()]
        doubted = {key for release in self.plugin.releases for key in release.sweep.doubts}
        assert all(use.key in doubted for use in left)
        assert self.may_doubt or not left
        assert self.witness.dirty <= {unit for use in left for unit in use.units}
        return left

    async def finish(self) -> None:
        """Settle, and see that nothing is in use after a reboot at the latest."""
        if await self.settle():
            await self.reboot()
        assert not self.witness.dirty
        await self.plugin.stop()
        for journal in self._journals():
            assert records.read(journal.read_bytes()).uses == ()
        self.witness.check()


@asynccontextmanager
async def stock_world(root: Path, policy: ReleasePolicy, *, has_directories: bool) -> AsyncIterator[StockWorld]:
    with pytest.MonkeyPatch.context() as patches:
        world = StockWorld(root, policy, has_directories, patches)
        await world.kubelet.start()
        try:
            await world.start_plugin()
            try:
                yield world
            finally:
                await world.plugin.stop()
        finally:
            await world.kubelet.stop()
