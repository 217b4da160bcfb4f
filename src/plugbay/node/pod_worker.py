"""Runs one bound pod: admission, volumes, containers in their order, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import SandboxFailed, VolumeUnusable
from plugbay.errors.wording import clipped
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container
from plugbay.model.releases import ReleaseReason
from plugbay.model.requests import ContainerKind
from plugbay.node.admission import AdmissionChain
from plugbay.node.backoff import Backoff
from plugbay.node.config import DeviceFailure
from plugbay.node.container_worker import ContainerWorker
from plugbay.node.device_failure import device_failure
from plugbay.node.events import EventType, pod_ref
from plugbay.node.lifecycle import Stage, Step
from plugbay.node.parts import NodeParts
from plugbay.node.records import Failure, PodRecord, Rejection
from plugbay.node.restart_policy import is_over
from plugbay.node.retries import Retries
from plugbay.node.sandbox_request import sandbox_spec
from plugbay.node.status import is_initialized
from plugbay.node.stopping import PodStopper
from plugbay.ops.tasks import run_until, uninterrupted

_MAX_MESSAGE: Final = 4096
"""As much as an API server takes of what a container says at its end."""
SANDBOX_RETRY_S: Final = 10.0
"""Kubelets try again with each sync of the pod, without growing delays."""
TOO_LONG: Final = Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
"""Source: kubelet 1.36 ``active_deadline.go``."""

_Result = TypeVar("_Result")


class PodWorker:
    """One pod from its binding to its end, or from its deletion to its disappearance.

    Args:
        admission: decides whether the pod may run, and gives it its devices.
    """

    def __init__(self, parts: NodeParts, uid: PodUid, *, admission: AdmissionChain) -> None:
        self._parts = parts
        self._uid = uid
        self._admission = admission
        self._stopper = PodStopper(parts, uid)
        self._retries = Retries(parts.clock)
        self._living: asyncio.Task[None] | None = None
        self._is_ending = False
        self._deleted = asyncio.Event()
        self._failed = asyncio.Event()
        self._forced = asyncio.Event()

    async def run(self) -> None:
        """Returns when the pod holds nothing any more: it has ended, or it is gone.

        May be called again after a fault, and goes on where the pod's record says.
        """
        if self._record.stage is not Stage.TERMINATING:
            async with asyncio.TaskGroup() as tasks:
                self._living = tasks.create_task(self._live())
        if self._record.stage is Stage.TERMINATING:
            self._is_ending = True
            await self._terminate()

    async def rest(self, seconds: float) -> None:
        """The wait after a fault, before `run` is called again. A deletion that comes meanwhile does not wait."""
        if self._is_ending:
            await self._parts.clock.sleep(seconds)
        else:
            await run_until(self._deleted, self._parts.clock.sleep(seconds))

    def terminate(self) -> None:
        """The pod's deletion was recorded: stop what it runs.

        Takes effect at once. Told through an event, the pod's life went on for some turns of the event loop, and met
        its own deletion with a step that a terminating pod cannot take.
        """
        self._deleted.set()
        if self._living is not None:
            self._living.cancel()

    async def kill_sooner(self, grace_s: int) -> None:
        """The grace period of a deletion under way became shorter."""
        if grace_s == 0:
            self._forced.set()
        if self._uid in self._parts.pods:
            await self._stopper.stop_now(grace_s=grace_s)

    def look_at_devices(self) -> None:
        """Take note of the health of what the pod holds; where the node wants it so, a bad device fails the pod.

        What waits to be tried again is tried now, as by a kubelet, which syncs the pod.
        """
        self._retries.wake()
        record = self._parts.pods.put(replace(self._record, health=self._parts.devices.health_of(self._uid)))
        if self._parts.on_device_failure is DeviceFailure.FAIL_POD and (failure := device_failure(record)):
            self._fail(failure, EventType.WARNING)

    def _fail(self, failure: Failure, kind: EventType) -> None:
        """Have a pod that runs end, and end badly."""
        record = self._record
        if record.stage is not Stage.ACTIVE or record.failure is not None:
            return
        self._parts.pods.put(replace(record, failure=failure))
        self._parts.events.record(pod_ref(record.pod), kind, failure.reason, failure.message)
        self._failed.set()

    @property
    def _record(self) -> PodRecord:
        return self._parts.pods[self._uid]

    # --- living -----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        record = self._record
        if record.stage is Stage.ACTIVE and (record.failure is not None or is_over(record)):
            await self._finish()  # it ended while no node was there, or was not kept in time
            return
        rejection = record.rejection or await self._admission.admit(record)
        if rejection is not None:
            await self._reject(rejection)
            return
        record = self._record
        self._parts.pods.put(
            replace(
                record.after(Step.ADMIT),
                started_at=record.started_at or self._parts.clock.now(),
                health=self._parts.devices.health_of(self._uid),
            )
        )
        self.look_at_devices()  # a pod from before a restart may hold one that has failed meanwhile
        async with asyncio.TaskGroup() as tasks:
            deadline = tasks.create_task(self._keep_deadline())
            await run_until(self._failed, self._run())
            deadline.cancel()
        await self._finish()

    async def _run(self) -> None:
        volumes = await self._prepare_volumes()
        await self._prepare_sandbox()
        await self._run_containers(volumes)

    async def _keep_deadline(self) -> None:
        """Fail a pod that is active for too long; a restart of the node does not start its time again."""
        record = self._record
        deadline_s = record.pod.spec.active_deadline_s
        if deadline_s is None or record.started_at is None:
            return
        # Both ends: the clock may have been set while no node was there.
        active_s = max(0.0, (self._parts.clock.now() - record.started_at).total_seconds())
        await self._parts.clock.sleep(max(0.0, deadline_s - active_s))
        self._fail(TOO_LONG, EventType.NORMAL)

    async def _reject(self, rejection: Rejection) -> None:
        record = self._record
        if record.rejection is None:  # else it was before a restart, which left the rest to be done
            self._parts.rejections.count(rejection.reason)
        rejection = replace(rejection, message=clipped(rejection.message, _MAX_MESSAGE))
        self._parts.pods.put(
            replace(record, rejection=rejection, started_at=record.started_at or self._parts.clock.now())
        )
        self._parts.events.warning(pod_ref(record.pod), rejection.reason, rejection.message)
        # Only a pod from before a restart of the node runs anything.
        await self._stopper.stop_all(grace_s=record.pod.spec.termination_grace_period_s)
        is_new = record.stage is Stage.BOUND
        await self._release(ReleaseReason.ADMISSION_FAILED if is_new else ReleaseReason.POD_ENDED)
        self._parts.pods.put(replace(self._record.after(Step.REJECT), health={}))

    async def _prepare_volumes(self) -> Mapping[str, Path]:
        backoff = Backoff()
        while True:
            try:
                return await self._in_thread(partial(self._parts.volumes.prepare, self._record.pod))
            except VolumeUnusable as error:
                self._parts.events.warning(pod_ref(self._record.pod), "FailedMount", str(error))
                await self._retries.pause(backoff.next_delay_s())

    async def _prepare_sandbox(self) -> None:
        """The recorded addresses are those of the sandbox that is there now."""
        spec = sandbox_spec(self._record.pod)
        backoff = Backoff(max_s=SANDBOX_RETRY_S)
        while True:
            try:
                # As one step: what a cancelled thread makes later nobody would remove.
                ips = await uninterrupted(self._parts.tasks, partial(self._parts.sandboxes.run, spec))
            except SandboxFailed as error:
                problem = f"Failed to create pod sandbox: {error}"
                self._parts.pods.put(replace(self._record, sandbox_since=None))
                self._parts.events.warning(pod_ref(self._record.pod), "FailedCreatePodSandBox", problem)
                await self._retries.pause(backoff.next_delay_s())
            else:
                since = self._record.sandbox_since or self._parts.clock.now()
                self._parts.pods.put(replace(self._record, ips=ips, sandbox_since=since))
                return

    async def _end_sandbox(self, end: Callable[[PodUid], Awaitable[None]]) -> None:
        """Stop or remove it, however often that has to be tried."""
        backoff = Backoff(max_s=SANDBOX_RETRY_S)
        while True:
            try:
                await uninterrupted(self._parts.tasks, partial(end, self._uid))
            except SandboxFailed as error:
                problem = f"error killing pod: failed to KillPodSandbox: {error}"
                self._parts.events.warning(pod_ref(self._record.pod), "FailedKillPod", problem)
                await self._parts.clock.sleep(backoff.next_delay_s())
            else:
                return

    async def _run_containers(self, volumes: Mapping[str, Path]) -> None:
        """Returns when every app container has ended for good, or an init container failed for good."""
        record = self._record
        is_past_init = is_initialized(record)
        async with asyncio.TaskGroup() as tasks:
            sidecars = []
            for container in record.pod.spec.init_containers:
                worker = self._container_worker(container, volumes)
                if container.kind is ContainerKind.SIDECAR:
                    sidecars.append(tasks.create_task(worker.run()))
                    if not is_past_init and not _is_behind(record, container.name):
                        await worker.started.wait()
                elif not is_past_init and (await worker.run()).exit_code != 0:
                    break
            else:
                await self._run_apps(volumes)
            for sidecar in sidecars:
                sidecar.cancel()

    async def _run_apps(self, volumes: Mapping[str, Path]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for container in self._record.pod.spec.containers:
                worker = self._container_worker(container, volumes)
                tasks.create_task(worker.run())
                await worker.attempted.wait()

    def _container_worker(self, container: Container, volumes: Mapping[str, Path]) -> ContainerWorker:
        return ContainerWorker(
            self._parts,
            self._uid,
            container,
            volumes=volumes,
            stopper=self._stopper,
            retries=self._retries,
            prepare_sandbox=self._prepare_sandbox,
        )

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Nothing of the pod is started any more; what is left are sidecars, or all of a pod that failed."""
        await self._stopper.stop_all(grace_s=self._record.pod.spec.termination_grace_period_s)
        await self._release()
        self._parts.pods.put(replace(self._record.after(Step.FINISH), health={}))

    async def _terminate(self) -> None:
        await self._stopper.stop_all(grace_s=self._grace_left_s())
        self._parts.pods.put(replace(self._record, has_stopped=True))
        await self._release()
        record = self._record
        for instance in {each for container in record.containers.values() for each in container.instances()}:
            await self._parts.runtime.remove(instance)
        await self._end_sandbox(self._parts.sandboxes.remove)
        self._parts.pods.remove(self._record.after(Step.DISPOSE))

    async def _release(self, reason: ReleaseReason = ReleaseReason.POD_ENDED) -> None:
        """Give back what the pod holds. Whoever wants the pod gone at once does not wait for its plugins."""
        for name, container in self._record.containers.items():
            if (end := container.newest_end()) is not None and end.id is not None:
                self._parts.devices.container_ended(self._uid, name, end.id)
        await self._end_sandbox(self._parts.sandboxes.stop)
        await self._in_thread(partial(self._parts.volumes.remove, self._uid))
        await self._parts.devices.release_pod(self._uid, reason=reason)
        await run_until(self._forced, self._parts.devices.until_deallocated(self._uid))

    def _grace_left_s(self) -> float:
        deletion = self._record.deletion
        assert deletion is not None, "a terminating pod was deleted"
        if deletion.grace_s == 0:
            self._forced.set()
        left_s = (deletion.deadline - self._parts.clock.now()).total_seconds()
        return min(max(0.0, left_s), deletion.grace_s)  # never more than was granted: the clock may have been set back

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        """As one step: what a thread makes after its pod has gone, nothing would remove."""
        return await uninterrupted(self._parts.tasks, partial(asyncio.to_thread, work))


def _is_behind(record: PodRecord, name: ContainerName) -> bool:
    """Whether a container after ``name`` was started before the node was: it is looked after whatever ``name`` does."""
    names = list(record.containers)
    return any(record.containers[later].attempt >= 0 for later in names[names.index(name) + 1 :])
