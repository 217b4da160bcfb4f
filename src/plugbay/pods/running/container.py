"""Keeps one container of a pod as its kind and the restart policy want it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from plugbay.errors import InstanceNotFound, InstanceUnreadable
from plugbay.model.pods import Container, RestartPolicy
from plugbay.model.probes import ContainerProbe, ProbeKind
from plugbay.model.requests import ContainerKind
from plugbay.ops.backoff import RESTARTS, STEADY_S, SYNCS, Backoff, go_duration
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import first
from plugbay.pods.devices import DeviceSource
from plugbay.pods.record import (
    ContainerRecord,
    Running,
    Startup,
    Terminated,
    Waiting,
    lost,
    restarts,
    step_after_start,
    terminated,
)
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.probing.prober import Prober, ProbeRound
from plugbay.pods.running.retries import Retries
from plugbay.pods.running.start import ContainerStarter
from plugbay.pods.running.stop import PodStopper
from plugbay.runtimes.port import ContainerId, ContainerRuntime


class ContainerWorker:
    """Runs one container from whatever state its record is in.

    Args:
        retries: the waits of the pod.
        fields: moves with each change of the pod by a client.

    Attributes:
        attempted: set once a first start was tried, well or not: then the next container's turn comes.
        started: set once the container runs, its post-start hook is done and its startup probe has succeeded.
    """

    def __init__(
        self,
        container: Container,
        pod: PodAccount,
        runtime: ContainerRuntime,
        devices: DeviceSource,
        *,
        starter: ContainerStarter,
        stopper: PodStopper,
        prober: Prober,
        retries: Retries,
        fields: Changes,
    ) -> None:
        self._container = container
        self._pod = pod
        self._runtime = runtime
        self._devices = devices
        self._starter = starter
        self._stopper = stopper
        self._prober = prober
        self._retries = retries
        self._fields = fields
        self._condemned: ContainerId | None = None
        self._outdated: ContainerId | None = None
        self._restart_backoff = Backoff(RESTARTS, steady_s=STEADY_S)
        self._start_backoff = Backoff(SYNCS)
        self.attempted = asyncio.Event()
        self.started = asyncio.Event()

    async def run(self) -> Terminated:
        """Return how the container ended for good; never if it is always restarted."""
        while True:
            match self._record.state:
                case Waiting():
                    moment = self._retries.moment
                    await self._start()
                    if isinstance(self._record.state, Waiting):
                        self.attempted.set()
                        await self._retries.pause(self._start_backoff.next_delay_s(), since=moment)
                case Running() as running if self._is_outdated(running):
                    await self._replace(running)
                case Running(startup=Startup.POST_START) as running:
                    await self._starter.post_start(self._container, running)
                case Running() as running:
                    self.attempted.set()
                    if running.has_started:
                        self.started.set()
                    await self._watch(running)
                case Terminated() as end:
                    self._report_end(end)
                    self.attempted.set()
                    if not self._restarts(end):
                        return end
                    await self._remove_older()
                    if end.id is None or end.id != self._outdated:
                        await first(self._back_off(end), self._image_changed(self._wanted.image))
                    await self._start()

    def _is_outdated(self, running: Running) -> bool:
        return running.image not in (None, self._wanted.image)

    async def _replace(self, running: Running) -> None:
        """Source: kubelet 1.36 ``kuberuntime_manager.go``, ``computePodActions``."""
        name, is_init = self._container.name, self._container.kind is not ContainerKind.APP
        self._outdated = running.id
        message = f"{'Init container' if is_init else 'Container'} {name} definition changed, will be restarted"
        grace_s = self._pod.record.pod.spec.termination_grace_period_s
        await self._stopper.stop_one(name, running, grace_s=grace_s, message=message)

    async def _image_changed(self, image: str | None) -> None:
        """Return once the pod names another image than this for the container."""
        await self._fields.until(lambda: self._wanted.image != image)

    @property
    def _wanted(self) -> Container:
        """The container with the image that the pod names now."""
        names = (each for each in self._pod.record.pod.spec.all_containers if each.name == self._container.name)
        current = next(names, self._container)
        return replace(self._container, image=current.image, pull_policy=current.pull_policy)

    @property
    def _record(self) -> ContainerRecord:
        return self._pod.record.containers[self._container.name]

    def _put(self, record: ContainerRecord) -> None:
        self._pod.put_container(self._container.name, record)

    async def _start(self) -> None:
        if (end := self._record.newest_end()) is not None:
            self._report_end(end)
        await self._starter.start(self._wanted)

    def _report_end(self, end: Terminated) -> None:
        """Report each time that the end is seen: the node may have been killed between the end and the report."""
        if end.id is not None:
            self._devices.container_ended(self._pod.uid, self._container.name, end.id)

    def _restarts(self, end: Terminated) -> bool:
        """Whether the container is started again, which a probe that killed it, or a new image, wants in any case."""
        policy = self._pod.record.pod.spec.restart_policy
        was_killed = end.id is not None and end.id == self._condemned
        was_outdated = end.id is not None and end.id == self._outdated
        is_wanted = was_outdated or (was_killed and policy is not RestartPolicy.NEVER)
        return is_wanted or restarts(self._container.kind, policy, end)

    async def _watch(self, running: Running) -> None:
        """Wait for the end of the instance, for another image, or for what a probe finds: that it has started, or is
        to be killed.
        """
        image = self._wanted.image if running.image is None else running.image
        kind = ProbeKind.LIVENESS if running.has_started else ProbeKind.STARTUP
        probes = self._prober.round(kind, self._container, running)
        if probes is None:
            await first(self._wait(running), self._image_changed(image))
            return
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(self._wait(running))
            judging = tasks.create_task(_verdict(kind, probes))
            changing = tasks.create_task(self._image_changed(image))
            await asyncio.wait([waiting, judging, changing], return_when=asyncio.FIRST_COMPLETED)
            for task in (waiting, judging, changing):
                task.cancel()
        record = self._record
        if judging.cancelled() or not isinstance(record.state, Running) or record.state.id != running.id:
            return
        if judging.result():
            started = record.state.at(step_after_start(self._container), now=self._pod.clock.now())
            self._put(replace(record, state=started))
        else:
            await self._kill(probes.probe, kind, record.state)

    async def _kill(self, probe: ContainerProbe, kind: ProbeKind, running: Running) -> None:
        """Source: kubelet 1.36 ``kuberuntime_manager.go``, ``computePodActions``."""
        name, spec = self._container.name, self._pod.record.pod.spec
        if self._container.kind is ContainerKind.APP:
            message = f"Container {name} failed {kind.value.lower()} probe"
            message += "" if spec.restart_policy is RestartPolicy.NEVER else ", will be restarted"
        else:
            message = f"Init container {name} failed {kind.value.lower()} probe"
        grace_s = spec.termination_grace_period_s if probe.grace_s is None else probe.grace_s
        self._condemned = running.id
        await self._stopper.stop_one(name, running, grace_s=grace_s, message=message)

    async def _wait(self, running: Running) -> None:
        attempt = self._record.attempt
        try:
            end = terminated(await self._runtime.wait(running.id), now=self._pod.clock.now())
        except InstanceNotFound:
            end = lost(running, now=self._pod.clock.now())
        except InstanceUnreadable as error:
            self._pod.warning("FailedSync", f"Error syncing pod, skipping: {error}", container=self._container.name)
            await self._pod.clock.sleep(SYNCS.first_s)
            return  # as far as the node knows it runs
        self._put(self._record.terminated(end, attempt=attempt))

    async def _back_off(self, end: Terminated) -> None:
        ran_for = end.finished_at - end.started_at if end.started_at else timedelta()
        delay_s = self._restart_backoff.next_delay_s(ran_s=ran_for.total_seconds())
        if delay_s == 0:
            return
        name, pod = self._container.name, self._pod.record.full_name
        message = f"back-off {go_duration(delay_s)} restarting failed container={name} pod={pod}"
        self._put(self._record.waiting("CrashLoopBackOff", message))
        self._pod.warning("BackOff", f"Back-off restarting failed container {name} in pod {pod}", container=name)
        await self._pod.clock.sleep(delay_s)

    async def _remove_older(self) -> None:
        """Remove the instance before the newest while the record names it: a kubelet keeps only the newest too."""
        older = self._record.last
        if older is not None and older.id is not None:
            await self._runtime.remove(older.id)


async def _verdict(kind: ProbeKind, probes: ProbeRound) -> bool:
    """Whether a container has started, or that it is not alive: that is asked on and on."""
    while await probes.verdict():
        if kind is ProbeKind.STARTUP:
            return True
    return False
