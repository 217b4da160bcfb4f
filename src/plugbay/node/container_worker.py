"""Keeps one container of a pod as its kind and the restart policy want it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import (
    AdmissionError,
    ContainerStartError,
    InstanceNotFound,
    InstanceUnreadable,
    VolumeUnusable,
)
from plugbay.kubelet.go_json import compact
from plugbay.model.downward import with_field_values
from plugbay.model.edits import NO_EDITS, ContainerEdits, Mount
from plugbay.model.expansion import container_argv, container_command, container_env
from plugbay.model.ids import PodUid
from plugbay.model.images import default_pull_policy
from plugbay.model.limits import cgroup_limits
from plugbay.model.pods import Container, EmptyDir, Pod
from plugbay.model.security import effective_security
from plugbay.model.termination import TerminationMessage
from plugbay.node.adoption import lost, terminated
from plugbay.node.backoff import Backoff, go_duration
from plugbay.node.events import EventType, ObjectRef, pod_ref
from plugbay.node.hooks import run_hook
from plugbay.node.manifest.v1 import hook_to_v1
from plugbay.node.missing_mounts import REASON as MISSING_HOST_PATH
from plugbay.node.missing_mounts import settle_missing_mounts
from plugbay.node.parts import NodeParts
from plugbay.node.records import CANNOT_RUN, ContainerRecord, PodRecord, Running, Startup, Terminated, Waiting
from plugbay.node.restart_policy import restarts
from plugbay.node.retries import Retries
from plugbay.node.runtimes.port import ContainerSpec, HasShortcomings, Notice
from plugbay.node.status import HOST_IP, qos_class
from plugbay.node.stopping import PodStopper
from plugbay.ops.tasks import uninterrupted

logger = logging.getLogger(__name__)

CONFIG_RETRY_S: Final = 10.0
"""Kubelets try again with each sync of the pod, some 12 s apart, without growing delays."""
START_FAILED_EXIT_CODE: Final = 128
_OF_IMAGES: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
"""Reasons that an event of their own explains."""


class ContainerWorker:
    """Runs one container from whatever state its record is in.

    Args:
        retries: of the pod.
        prepare_sandbox: returns when the pod has a sandbox that is in order, and its addresses are recorded.

    Attributes:
        attempted: set once a first start was tried, well or not: then the next container's turn comes.
        started: set once it runs and its post-start hook is done.
    """

    def __init__(
        self,
        parts: NodeParts,
        uid: PodUid,
        container: Container,
        *,
        volumes: Mapping[str, Path],
        stopper: PodStopper,
        retries: Retries,
        prepare_sandbox: Callable[[], Awaitable[None]],
    ) -> None:
        self._parts = parts
        self._uid = uid
        self._stopper = stopper
        self._container = container
        self._volumes = volumes
        self._retries = retries
        self._prepare_sandbox = prepare_sandbox
        self._restart_backoff = Backoff()
        self._start_backoff = Backoff(max_s=CONFIG_RETRY_S)
        self.attempted = asyncio.Event()
        self.started = asyncio.Event()

    async def run(self) -> Terminated:
        """How it ended for good; of a container that is always restarted, never."""
        while True:
            match self._record.state:
                case Waiting():
                    await self._start()
                    if isinstance(self._record.state, Waiting):
                        self.attempted.set()
                        await self._retries.pause(self._start_backoff.next_delay_s())
                case Running(startup=Startup.POST_START) as running:
                    await self._post_start(running)
                case Running() as running:
                    self.attempted.set()
                    self.started.set()
                    await self._wait(running)
                case Terminated() as end:
                    self._report_end(end)
                    self.attempted.set()
                    if not restarts(self._container.kind, self._pod_record.pod.spec.restart_policy, end):
                        return end
                    await self._remove_older()
                    await self._back_off(end)
                    await self._start()

    @property
    def _pod_record(self) -> PodRecord:
        return self._parts.pods[self._uid]

    @property
    def _record(self) -> ContainerRecord:
        return self._pod_record.containers[self._container.name]

    @property
    def _ref(self) -> ObjectRef:
        return pod_ref(self._pod_record.pod, self._container.name)

    def _put(self, record: ContainerRecord) -> None:
        self._parts.pods.put_container(self._uid, self._container.name, record)

    # --- starting ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """One attempt; the record tells what came of it."""
        if (end := self._record.newest_end()) is not None:
            self._report_end(end)
        await self._prepare_sandbox()  # the pod's may have died with the container: then addresses are new
        try:
            await self._parts.runtime.prepare(self._spec(self._pod_record, NO_EDITS, mounts=()), self._tell)
            edits = await self._parts.devices.prepare_container(self._uid, self._container.name)
        except ContainerStartError as error:
            self._fail(error.reason, str(error), event=error.reason if error.reason in _OF_IMAGES else "")
            return
        except AdmissionError as error:
            self._fail("CreateContainerConfigError", str(error))
            return
        await uninterrupted(self._parts.tasks, partial(self._start_instance, edits))

    def _spec(self, record: PodRecord, edits: ContainerEdits, *, mounts: tuple[Mount, ...]) -> ContainerSpec:
        pod = record.pod
        container = with_field_values(self._container, pod, host_ip=HOST_IP, pod_ips=record.ips)
        return ContainerSpec(
            pod_uid=record.uid,
            namespace=pod.namespace,
            pod=pod.name,
            name=container.name,
            attempt=record.containers[container.name].attempt + 1,
            image=container.image,
            argv=container_argv(container, device_env=edits.env),
            working_dir=container.working_dir,
            env=container_env(container),
            mounts=mounts,
            untrusted_paths=_empty_dirs(pod, container),
            edits=edits,
            hostname=pod.spec.hostname,
            security=effective_security(pod=pod.spec.security, container=container.security),
            limits=cgroup_limits(container.requests, container.limits),
            runtime_class=pod.spec.runtime_class,
            command=container_command(container, device_env=edits.env),
            pull_policy=container.pull_policy or default_pull_policy(container.image),
            qos=qos_class(pod),
            memory_request=container.requests["memory"].to_int_ceil() if "memory" in container.requests else 0,
            grace_period_s=pod.spec.termination_grace_period_s,
            message=TerminationMessage.of(container.message_path, container.message_policy),
            ports=container.ports,
            pre_stop=compact(hook_to_v1(container.pre_stop)) if container.pre_stop else "",
        )

    def _report_end(self, end: Terminated) -> None:
        """Each time it is looked at: the node may have been killed between the end and the report."""
        if end.id is not None:
            self._parts.devices.container_ended(self._uid, self._container.name, end.id)

    def _report_no_start(self) -> None:
        self._parts.devices.container_not_started(self._uid, self._container.name)

    async def _start_instance(self, edits: ContainerEdits) -> None:
        """Mount, start and record as one step: a mount or a process without a record would stay for ever."""
        record = self._pod_record
        try:
            mounts = await asyncio.to_thread(self._parts.volumes.mounts, record.pod, self._container, self._volumes)
        except VolumeUnusable as error:
            self._fail("CreateContainerConfigError", str(error))
            return
        spec = self._spec(record, edits, mounts=mounts)
        if isinstance(self._parts.runtime, HasShortcomings):
            for notice in self._parts.runtime.shortcomings(spec):
                self._tell(notice)
        try:
            on_missing = self._parts.on_missing_mount
            for made in await asyncio.to_thread(settle_missing_mounts, spec, on_missing):
                self._parts.events.warning(self._ref, MISSING_HOST_PATH, made)
            state = await self._parts.runtime.start(spec)
        except ContainerStartError as error:
            self._start_failed(error, attempt=spec.attempt)
            return
        startup = Startup.POST_START if self._container.post_start else Startup.DONE
        running = Running(state.id, state.started_at, startup, state.image_id)
        self._put(self._record.running(running, attempt=spec.attempt))
        self._parts.events.normal(self._ref, "Created", "Container created")
        self._parts.events.normal(self._ref, "Started", "Container started")

    async def _post_start(self, running: Running) -> None:
        """Run the hook; a container whose hook fails is stopped, and the restart policy decides what follows."""
        hook = self._container.post_start
        assert hook is not None, "only a container with a hook waits for it"
        problem = await run_hook(hook, running.id, runtime=self._parts.runtime, clock=self._parts.clock)
        if not problem:
            self._put(replace(self._record, state=replace(running, startup=Startup.DONE)))
            return
        logger.warning("post-start hook of container %s of pod %s: %s", self._container.name, self._uid, problem)
        self._parts.events.warning(self._ref, "FailedPostStartHook", "PostStartHook failed")
        grace_s = self._pod_record.pod.spec.termination_grace_period_s
        await self._stopper.stop_one(self._container.name, running, grace_s=grace_s, message="FailedPostStartHook")

    def _start_failed(self, error: ContainerStartError, *, attempt: int) -> None:
        if error.reason not in CANNOT_RUN:
            self._fail(error.reason, str(error))
            return
        self._report_no_start()
        # The container was made and could not run: that counts as a run, and the restart policy decides.
        now = self._parts.clock.now()
        end = Terminated(None, START_FAILED_EXIT_CODE, error.reason, now, message=str(error))
        self._put(self._record.terminated(end, attempt=attempt))
        self._parts.events.normal(self._ref, "Created", "Container created")
        self._parts.events.warning(self._ref, "Failed", f"Error: {error}")

    def _fail(self, reason: str, message: str, *, event: str = "") -> None:
        """``event``: what the event says, the message if empty."""
        self._report_no_start()
        self._put(self._record.waiting(reason, message))
        self._parts.events.warning(self._ref, "Failed", f"Error: {event or message}")

    def _tell(self, notice: Notice) -> None:
        self._parts.events.record(self._ref, EventType(notice.kind.value), notice.reason, notice.message)

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _wait(self, running: Running) -> None:
        attempt = self._record.attempt
        try:
            end = terminated(await self._parts.runtime.wait(running.id), now=self._parts.clock.now())
        except InstanceNotFound:
            end = lost(running, now=self._parts.clock.now())
        except InstanceUnreadable as error:
            self._parts.events.warning(self._ref, "FailedSync", f"Error syncing pod, skipping: {error}")
            await self._parts.clock.sleep(CONFIG_RETRY_S)
            return  # as far as the node knows it runs
        self._put(self._record.terminated(end, attempt=attempt))

    async def _back_off(self, end: Terminated) -> None:
        ran_for = end.finished_at - end.started_at if end.started_at else timedelta()
        delay_s = self._restart_backoff.next_delay_s(ran_s=ran_for.total_seconds())
        if delay_s == 0:
            return
        name, pod = self._container.name, self._pod_record.full_name
        message = f"back-off {go_duration(delay_s)} restarting failed container={name} pod={pod}"
        self._put(self._record.waiting("CrashLoopBackOff", message))
        self._parts.events.warning(self._ref, "BackOff", f"Back-off restarting failed container {name} in pod {pod}")
        await self._parts.clock.sleep(delay_s)

    async def _remove_older(self) -> None:
        """Of the instances that ended only the newest is kept, as by a kubelet; removed while the record names it."""
        older = self._record.last
        if older is not None and older.id is not None:
            await self._parts.runtime.remove(older.id)


def _empty_dirs(pod: Pod, container: Container) -> tuple[str, ...]:
    names = {each.name for each in pod.spec.volumes if isinstance(each.source, EmptyDir)}
    return tuple(each.mount_path for each in container.volume_mounts if each.name in names)
