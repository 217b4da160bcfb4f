"""Runs one bound pod: admission, volumes, containers in their order, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.errors import AdmissionError, InstanceNotFound, VolumeUnusable
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import pod_request
from plugbay.model.requests import ContainerKind
from plugbay.node.adoption import lost, terminated
from plugbay.node.backoff import Backoff
from plugbay.node.container_worker import ContainerWorker
from plugbay.node.events import pod_ref
from plugbay.node.lifecycle import Stage, Step
from plugbay.node.parts import NodeParts, run_until
from plugbay.node.records import PodRecord, Rejection, Running, Terminated
from plugbay.node.restart_policy import is_over
from plugbay.node.status import is_initialized

ADMISSION_REASON: Final = "UnexpectedAdmissionError"


class PodWorker:
    """One pod from its binding to its end, or from its deletion to its disappearance.

    Args:
        misfit: why a pod that is about to be admitted for the first time does not fit on the node after all.
    """

    def __init__(self, parts: NodeParts, uid: PodUid, *, misfit: Callable[[PodUid], Rejection | None]) -> None:
        self._parts = parts
        self._uid = uid
        self._misfit = misfit
        self._deleted = asyncio.Event()

    async def run(self) -> None:
        """Returns when the pod holds nothing any more: it has ended, or it is gone."""
        if self._record.stage is Stage.TERMINATING:
            self._deleted.set()
        else:
            await run_until(self._deleted, self._live())
        if self._deleted.is_set():
            await self._terminate()

    def terminate(self) -> None:
        """The pod's deletion was recorded: stop what it runs."""
        self._deleted.set()

    async def kill_sooner(self, grace_s: int) -> None:
        """The grace period of a deletion under way became shorter."""
        await self._stop(self._record.running(), grace_s=grace_s)

    @property
    def _record(self) -> PodRecord:
        return self._parts.pods[self._uid]

    # --- living -----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        if self._record.stage is Stage.ACTIVE and is_over(self._record):
            await self._finish()  # it ended while no node was there, or was not kept in time
            return
        rejection = self._record.rejection or await self._admit()
        if rejection is not None:
            await self._reject(rejection)
            return
        pod = self._record
        self._parts.pods.put(replace(pod.after(Step.ADMIT), started_at=pod.started_at or self._parts.clock.now()))
        volumes = await self._prepare_volumes()
        await self._run_containers(volumes)
        await self._finish()

    async def _finish(self) -> None:
        await self._stop_sidecars(grace_s=self._record.pod.spec.termination_grace_period_s)
        await self._release()
        self._parts.pods.put(self._record.after(Step.FINISH))

    async def _admit(self) -> Rejection | None:
        record = self._record
        try:
            await self._parts.devices.admit(pod_request(record.pod), running=record.running().keys())
        except AdmissionError as error:
            return Rejection(ADMISSION_REASON, f"Allocate failed due to {error}, which is unexpected")
        return self._misfit(self._uid) if record.stage is Stage.BOUND else None

    async def _reject(self, rejection: Rejection) -> None:
        record = self._record
        self._parts.pods.put(
            replace(record, rejection=rejection, started_at=record.started_at or self._parts.clock.now())
        )
        self._parts.events.warning(pod_ref(record.pod), rejection.reason, rejection.message)
        # Only a pod from before a restart of the node runs anything.
        await self._stop_all(grace_s=record.pod.spec.termination_grace_period_s)
        await self._release()
        self._parts.pods.put(self._record.after(Step.REJECT))

    async def _prepare_volumes(self) -> Mapping[str, Path]:
        backoff = Backoff()
        while True:
            try:
                return await asyncio.to_thread(self._parts.volumes.prepare, self._record.pod)
            except VolumeUnusable as error:
                self._parts.events.warning(pod_ref(self._record.pod), "FailedMount", str(error))
                await self._parts.clock.sleep(backoff.next_delay_s())

    async def _run_containers(self, volumes: Mapping[str, Path]) -> None:
        """Returns when every app container has ended for good, or an init container failed for good."""
        record = self._record
        is_past_init = is_initialized(record)
        async with asyncio.TaskGroup() as tasks:
            sidecars = []
            for container in record.pod.spec.init_containers:
                worker = ContainerWorker(self._parts, self._uid, container, volumes)
                if container.kind is ContainerKind.SIDECAR:
                    sidecars.append(tasks.create_task(worker.run()))
                    if not is_past_init:
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
                worker = ContainerWorker(self._parts, self._uid, container, volumes)
                tasks.create_task(worker.run())
                await worker.attempted.wait()

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _terminate(self) -> None:
        await self._stop_all(grace_s=self._grace_left_s())
        await self._release()
        record = self._record
        for instance in {each for container in record.containers.values() for each in container.instances()}:
            await self._parts.runtime.remove(instance)
        self._parts.pods.remove(self._record.after(Step.DISPOSE))

    async def _stop_all(self, *, grace_s: float) -> None:
        """App containers together, then sidecars, last started first; all within one grace period.

        Source: kubelet 1.36 ``kuberuntime_container.go``, ``killContainersWithSyncResult``.
        """
        clock = self._parts.clock
        deadline = clock.monotonic() + grace_s
        await self._stop(self._running(ContainerKind.INIT, ContainerKind.APP), grace_s=grace_s)
        await self._stop_sidecars(grace_s=max(0.0, deadline - clock.monotonic()))

    async def _stop_sidecars(self, *, grace_s: float) -> None:
        deadline = self._parts.clock.monotonic() + grace_s
        for name, running in reversed(self._running(ContainerKind.SIDECAR).items()):
            await self._stop({name: running}, grace_s=max(0.0, deadline - self._parts.clock.monotonic()))

    def _running(self, *kinds: ContainerKind) -> dict[ContainerName, Running]:
        record = self._record
        return {name: state for name, state in record.running().items() if record.containers[name].kind in kinds}

    async def _stop(self, containers: Mapping[ContainerName, Running], *, grace_s: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, running in containers.items():
                self._parts.events.normal(pod_ref(self._record.pod, name), "Killing", f"Stopping container {name}")
                tasks.create_task(self._stop_one(name, running, grace_s=grace_s))

    async def _stop_one(self, name: ContainerName, running: Running, *, grace_s: float) -> None:
        try:
            end = terminated(await self._parts.runtime.stop(running.id, grace_s=grace_s), now=self._parts.clock.now())
        except InstanceNotFound:
            end = lost(running, now=self._parts.clock.now())
        self._record_end(name, end)

    def _record_end(self, name: ContainerName, end: Terminated) -> None:
        """A second stop of the same instance, or one that outlasts the pod, has nothing to add."""
        if self._uid not in self._parts.pods:
            return
        container = self._record.containers[name]
        if isinstance(container.state, Running) and container.state.id == end.id:
            self._parts.pods.put_container(self._uid, name, container.terminated(end, attempt=container.attempt))

    async def _release(self) -> None:
        await self._parts.devices.release_pod(self._uid)
        await asyncio.to_thread(self._parts.volumes.remove, self._uid)

    def _grace_left_s(self) -> float:
        deletion = self._record.deletion
        assert deletion is not None, "a terminating pod was deleted"
        return max(0.0, (deletion.deadline - self._parts.clock.now()).total_seconds())
