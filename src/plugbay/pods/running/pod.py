"""Runs one bound pod: admission, volumes, containers in their order, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import SandboxFailed
from plugbay.errors.wording import clipped
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import ContainerKind
from plugbay.ops.backoff import SYNCS, Backoff
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import first
from plugbay.pods.admission import AdmissionChain
from plugbay.pods.devices import DeviceFailure, DeviceSource, device_failure
from plugbay.pods.events import EventType
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.record import Failure, PodRecord, Rejection, is_over
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.container import ContainerWorker
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.probing.prober import Prober
from plugbay.pods.running.retries import Retries
from plugbay.pods.running.start import ContainerStarter
from plugbay.pods.running.stop import PodStopper
from plugbay.pods.running.volume_keeper import VolumeKeeper
from plugbay.pods.status import is_initialized
from plugbay.runtimes.sandboxes import SandboxSpec

_MAX_MESSAGE: Final = 4096
"""An API server takes a termination message up to this length."""
TOO_LONG: Final = Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
"""Source: kubelet 1.36 ``active_deadline.go``."""

_Result = TypeVar("_Result")


class PodWorker:
    """One pod from its binding to its end, or from its deletion to its disappearance.

    Args:
        admission: decides whether the pod may run, and gives it its devices.

    Attributes:
        pod: the account of the pod.
    """

    def __init__(
        self,
        pod: PodAccount,
        host: PodHost,
        devices: DeviceSource,
        *,
        admission: AdmissionChain,
        on_device_failure: DeviceFailure,
    ) -> None:
        self.pod = pod
        self._host = host
        self._devices = devices
        self._admission = admission
        self._on_device_failure = on_device_failure
        self._stopper = PodStopper(pod, host.runtime, devices)
        self._prober = Prober(pod, host.runtime)
        self._retries = Retries(pod.clock)
        self._keeper = VolumeKeeper(pod, host, self._retries)
        self._living: asyncio.Task[None] | None = None
        self._fields = Changes()
        self._is_ending = False
        self._deleted = asyncio.Event()
        self._failed = asyncio.Event()
        self._forced = asyncio.Event()

    async def run(self) -> None:
        """Return when the pod holds nothing any more: it has ended, or it is gone.

        After a fault this may be called again, and goes on where the pod's record says.
        """
        async with self._prober.keeping_ready():
            if self.pod.record.stage is not PodStage.TERMINATING:
                async with asyncio.TaskGroup() as tasks:
                    self._living = tasks.create_task(self._live())
            if self.pod.record.stage is PodStage.TERMINATING:
                self._is_ending = True
                await self._terminate()

    async def rest(self, seconds: float) -> None:
        """Wait after a fault, before `run` is called again. A deletion that comes meanwhile ends the wait."""
        if self._is_ending:
            await self.pod.clock.sleep(seconds)
        else:
            await first(self.pod.clock.sleep(seconds), self._deleted.wait())

    def terminate(self) -> None:
        """Stop what the pod runs, as its deletion was recorded.

        This takes effect at once. If the worker were told through an event, it would go on for some turns of the event
        loop, and meet its own deletion with a step that a terminating pod cannot take.
        """
        self._deleted.set()
        if self._living is not None:
            self._living.cancel()

    async def kill_sooner(self, grace_s: int) -> None:
        """Stop sooner, as the grace period of a deletion under way became shorter."""
        if grace_s == 0:
            self._forced.set()
        if self.pod.is_open:
            await self._stopper.stop_now(grace_s=grace_s)

    def look_at_devices(self) -> None:
        """Take note of the health of the pod's devices; if the node is set so, a device that failed fails the pod.

        Attempts that wait are made now, as by a kubelet, which syncs the pod.
        """
        self._retries.wake()
        record = self.pod.put(replace(self.pod.record, health=self._devices.health_of(self.pod.uid)))
        if self._on_device_failure is DeviceFailure.FAIL_POD and (failure := device_failure(record)):
            self._fail(failure, EventType.WARNING)

    def look_at_fields(self) -> None:
        """Have new labels, annotations, images and another deadline of the pod take effect."""
        self._keeper.look()
        self._retries.wake()
        self._fields.notify()

    def _fail(self, failure: Failure, kind: EventType) -> None:
        """Let a pod that runs end as failed."""
        record = self.pod.record
        if record.stage is not PodStage.ACTIVE or record.failure is not None:
            return
        self.pod.put(replace(record, failure=failure))
        self.pod.tell(kind, failure.reason, failure.message)
        self._failed.set()

    # --- living -----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        record = self.pod.record
        if record.stage is PodStage.ACTIVE and (record.failure is not None or is_over(record)):
            await self._finish()  # it ended while no node was there, or was not kept in time
            return
        rejection = record.rejection or await self._admission.admit(record)
        if rejection is not None:
            await self._reject(rejection)
            return
        record = self.pod.record
        self.pod.put(
            replace(
                record.after(PodStep.ADMIT),
                started_at=record.started_at or self.pod.clock.now(),
                health=self._devices.health_of(self.pod.uid),
            )
        )
        self.look_at_devices()  # a pod from before a restart may hold one that has failed meanwhile
        async with asyncio.TaskGroup() as tasks:
            deadline = tasks.create_task(self._keep_deadline())
            await first(self._run(), self._failed.wait())
            deadline.cancel()
        await self._finish()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._keeper.follow())
            volumes = await self._keeper.prepare()
            await self._prepare_sandbox()
            await self._run_containers(volumes)
            following.cancel()

    async def _keep_deadline(self) -> None:
        """Fail a pod that is active for too long; a restart of the node does not start its time again."""
        while not self._failed.is_set():
            deadline_s = self._deadline_s
            await first(self._fail_after(deadline_s), self._another_deadline(deadline_s))

    async def _fail_after(self, deadline_s: int | None) -> None:
        """Never return without a deadline."""
        began = self.pod.record.started_at
        if deadline_s is None or began is None:
            await asyncio.Event().wait()
        else:
            # Both ends: the clock may have been set while no node was there.
            active_s = max(0.0, (self.pod.clock.now() - began).total_seconds())
            await self.pod.clock.sleep(max(0.0, deadline_s - active_s))
            self._fail(TOO_LONG, EventType.NORMAL)

    async def _another_deadline(self, deadline_s: int | None) -> None:
        await self._fields.until(lambda: self._deadline_s != deadline_s)

    @property
    def _deadline_s(self) -> int | None:
        return self.pod.record.pod.spec.active_deadline_s

    async def _reject(self, rejection: Rejection) -> None:
        record = self.pod.record
        rejection = replace(rejection, message=clipped(rejection.message, _MAX_MESSAGE))
        self.pod.put(replace(record, rejection=rejection, started_at=record.started_at or self.pod.clock.now()))
        self.pod.warning(rejection.reason, rejection.message)
        # Only a pod from before a restart of the node runs anything.
        await self._stopper.stop_all(grace_s=record.pod.spec.termination_grace_period_s)
        is_new = record.stage is PodStage.BOUND
        await self._release(ReleaseReason.ADMISSION_FAILED if is_new else ReleaseReason.POD_ENDED)
        self.pod.put(replace(self.pod.record.after(PodStep.REJECT), health={}))

    async def _prepare_sandbox(self) -> None:
        """Return when the pod has a sandbox that is in order, and its addresses are recorded."""
        spec = SandboxSpec(self.pod.record.pod)
        backoff = Backoff(SYNCS)
        while True:
            try:
                # As one step: nothing would remove what a cancelled thread makes later.
                ips = await self._host.as_one_step(partial(self._host.sandboxes.run, spec))
            except SandboxFailed as error:
                problem = f"Failed to create pod sandbox: {error}"
                self.pod.put(replace(self.pod.record, sandbox_since=None))
                self.pod.warning("FailedCreatePodSandBox", problem)
                await self._retries.pause(backoff.next_delay_s())
            else:
                since = self.pod.record.sandbox_since or self.pod.clock.now()
                self.pod.put(replace(self.pod.record, ips=ips, sandbox_since=since))
                return

    async def _end_sandbox(self, end: Callable[[PodUid], Awaitable[None]]) -> None:
        """Stop or remove the sandbox, however often that has to be tried."""
        backoff = Backoff(SYNCS)
        while True:
            try:
                await self._host.as_one_step(partial(end, self.pod.uid))
            except SandboxFailed as error:
                problem = f"error killing pod: failed to KillPodSandbox: {error}"
                self.pod.warning("FailedKillPod", problem)
                await self.pod.clock.sleep(backoff.next_delay_s())
            else:
                return

    async def _run_containers(self, volumes: Mapping[str, Path]) -> None:
        """Return when every app container has ended for good, or an init container failed for good."""
        record = self.pod.record
        spec = self._keeper.pod.spec
        is_past_init = is_initialized(record)
        starter = ContainerStarter(
            self.pod,
            self._host,
            self._devices,
            self._stopper,
            keeper=self._keeper,
            volumes=volumes,
            prepare_sandbox=self._prepare_sandbox,
        )
        async with asyncio.TaskGroup() as tasks:
            sidecars = []
            for container in spec.init_containers:
                worker = self._container_worker(container, starter)
                if container.kind is ContainerKind.SIDECAR:
                    sidecars.append(tasks.create_task(worker.run()))
                    if not is_past_init and not _is_behind(record, container.name):
                        await worker.started.wait()
                elif not is_past_init and (await worker.run()).exit_code != 0:
                    break
            else:
                await self._run_apps(starter)
            for sidecar in sidecars:
                sidecar.cancel()

    async def _run_apps(self, starter: ContainerStarter) -> None:
        """Start one after the other; what was started before the node was is looked after at once."""
        known = {name for name, each in self.pod.record.containers.items() if each.attempt >= 0}
        workers: list[ContainerWorker] = []
        async with asyncio.TaskGroup() as tasks:
            for container in self._keeper.pod.spec.containers:
                if container.name not in known:
                    for earlier in workers:
                        await earlier.attempted.wait()
                workers.append(self._container_worker(container, starter))
                tasks.create_task(workers[-1].run())

    def _container_worker(self, container: Container, starter: ContainerStarter) -> ContainerWorker:
        return ContainerWorker(
            container,
            self.pod,
            self._host.runtime,
            self._devices,
            starter=starter,
            stopper=self._stopper,
            prober=self._prober,
            retries=self._retries,
            fields=self._fields,
        )

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Stop what is left: sidecars, or all containers of a pod that failed. Nothing is started any more."""
        await self._stopper.stop_all(grace_s=self.pod.record.pod.spec.termination_grace_period_s)
        await self._release()
        self.pod.put(replace(self.pod.record.after(PodStep.FINISH), health={}))

    async def _terminate(self) -> None:
        await self._stopper.stop_all(grace_s=self._grace_left_s())
        self.pod.put(replace(self.pod.record, has_stopped=True))
        await self._release()
        record = self.pod.record
        for instance in {each for container in record.containers.values() for each in container.instances()}:
            await self._host.runtime.remove(instance)
        await self._end_sandbox(self._host.sandboxes.remove)
        self.pod.close(self.pod.record.after(PodStep.DISPOSE))

    async def _release(self, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        """Give back what the pod holds. A forced deletion does not wait for the plugins."""
        for name, container in self.pod.record.containers.items():
            if (end := container.newest_end()) is not None and end.id is not None:
                self._devices.container_ended(self.pod.uid, name, end.id)
        await self._end_sandbox(self._host.sandboxes.stop)
        await self._in_thread(partial(self._host.volumes.remove, self.pod.uid))
        await self._devices.release_pod(self.pod.uid, reason=reason)
        await first(self._devices.until_deallocated(self.pod.uid), self._forced.wait())

    def _grace_left_s(self) -> float:
        deletion = self.pod.record.deletion
        assert deletion is not None, "a terminating pod was deleted"
        if deletion.grace_s == 0:
            self._forced.set()
        left_s = (deletion.deadline - self.pod.clock.now()).total_seconds()
        return min(max(0.0, left_s), deletion.grace_s)  # never more than was granted: the clock may have been set back

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        """Do ``work`` as one step: nothing would remove what a thread makes after its pod has gone."""
        return await self._host.as_one_step(partial(asyncio.to_thread, work))


def _is_behind(record: PodRecord, name: ContainerName) -> bool:
    """Whether a container after ``name`` was started before the node was: it is looked after whatever ``name`` does."""
    names = list(record.containers)
    return any(record.containers[later].attempt >= 0 for later in names[names.index(name) + 1 :])
