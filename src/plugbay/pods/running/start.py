"""Starts the containers of one pod."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import AdmissionError, ContainerStartError, VolumeUnusable
from plugbay.model.edits import NO_EDITS, ContainerEdits, Mount
from plugbay.model.limits import cgroup_limits
from plugbay.model.pods import Container
from plugbay.model.security import effective_security
from plugbay.pods.devices import DeviceSource
from plugbay.pods.events import EventType
from plugbay.pods.record import CANNOT_RUN, ContainerRecord, Running, Terminated, first_step, step_after_hook
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.hooks import run_hook
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.projecting import EnvGrounds, pull_access, with_values
from plugbay.pods.running.stop import PodStopper
from plugbay.pods.running.volume_keeper import VolumeKeeper
from plugbay.pods.status import HOST_IP
from plugbay.runtimes.mounts import REASON as MISSING_HOST_PATH
from plugbay.runtimes.mounts import settle_missing_mounts
from plugbay.runtimes.port import ContainerSpec, Notice

logger = logging.getLogger(__name__)

START_FAILED_EXIT_CODE: Final = 128
_OF_IMAGES: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
"""Reasons that an event of their own explains."""


class ContainerStarter:
    """Starts instances of one pod's containers, and runs their post-start hooks.

    Args:
        keeper: of the pod's volumes.
        volumes: the host paths of the pod's volumes, by name.
        prepare_sandbox: returns when the pod has a sandbox that is in order, and its addresses are recorded.
    """

    def __init__(
        self,
        pod: PodAccount,
        host: PodHost,
        devices: DeviceSource,
        stopper: PodStopper,
        *,
        keeper: VolumeKeeper,
        volumes: Mapping[str, Path],
        prepare_sandbox: Callable[[], Awaitable[None]],
    ) -> None:
        self._pod = pod
        self._host = host
        self._devices = devices
        self._stopper = stopper
        self._keeper = keeper
        self._volumes = volumes
        self._prepare_sandbox = prepare_sandbox

    async def start(self, container: Container) -> None:
        """Make one attempt; the container's record tells the outcome."""
        await self._prepare_sandbox()  # the pod's may have died with the container: then addresses are new
        try:
            await self._host.runtime.prepare(self._spec(container, NO_EDITS, mounts=()), partial(self._tell, container))
            resolved = await self._with_values(container)
            edits = await self._devices.prepare_container(self._pod.uid, container.name)
        except ContainerStartError as error:
            self._fail(container, error.reason, str(error), event=error.reason if error.reason in _OF_IMAGES else "")
            return
        except AdmissionError as error:
            self._fail(container, "CreateContainerConfigError", str(error))
            return
        await self._host.as_one_step(partial(self._start_instance, resolved, edits))

    async def post_start(self, container: Container, running: Running) -> None:
        """Run the hook; a container whose hook fails is stopped, and the restart policy decides what follows."""
        hook = container.post_start
        assert hook is not None, "only a container with a hook waits for it"
        problem = await run_hook(hook, container, running.id, pod=self._pod, runtime=self._host.runtime)
        if not problem:
            state = replace(running, startup=step_after_hook(container))
            self._put(container, replace(self._record(container), state=state))
            return
        logger.warning(
            "the post-start hook of container %s of pod %s failed, so the container is stopped: %s",
            container.name,
            self._pod.uid,
            problem,
        )
        self._pod.warning("FailedPostStartHook", "PostStartHook failed", container=container.name)
        grace_s = self._pod.record.pod.spec.termination_grace_period_s
        await self._stopper.stop_one(container.name, running, grace_s=grace_s, message="FailedPostStartHook")

    def _record(self, container: Container) -> ContainerRecord:
        return self._pod.record.containers[container.name]

    def _put(self, container: Container, record: ContainerRecord) -> None:
        self._pod.put_container(container.name, record)

    async def _with_values(self, container: Container) -> Container:
        """``container`` with its whole environment.

        Raises:
            ContainerStartError: a part of it cannot be found.
        """
        record, configs = self._pod.record, self._host.configs
        services = await configs.variables(shares_network=not record.ips or record.pod.spec.host_network)
        return with_values(
            container, record.pod, EnvGrounds(configs.get, self._host.capacity, HOST_IP, record.ips, services)
        )

    def _spec(self, container: Container, edits: ContainerEdits, *, mounts: tuple[Mount, ...]) -> ContainerSpec:
        record = self._pod.record
        security = effective_security(pod=record.pod.spec.security, container=container.security)
        return ContainerSpec(
            record.pod,
            replace(container, security=security),
            attempt=self._record(container).attempt + 1,
            limits=cgroup_limits(container.requests, container.limits),
            mounts=mounts,
            edits=edits,
            pull=pull_access(record.pod, self._keeper.access.pull_secrets, self._host.configs.get),
        )

    async def _start_instance(self, container: Container, edits: ContainerEdits) -> None:
        """Mount, start and record as one step: a mount or a process without a record would stay for ever.

        ``container`` has its whole environment.
        """
        pod = self._keeper.pod
        try:
            mounts = await asyncio.to_thread(self._host.volumes.mounts, pod, container, self._volumes)
        except VolumeUnusable as error:
            self._fail(container, "CreateContainerConfigError", str(error))
            return
        spec = self._spec(container, edits, mounts=mounts)
        for notice in self._host.runtime.shortcomings(spec):
            self._tell(container, notice)
        try:
            for made in await asyncio.to_thread(settle_missing_mounts, spec, self._host.on_missing_mount):
                self._pod.warning(MISSING_HOST_PATH, made, container=container.name)
            state = await self._host.runtime.start(spec)
        except ContainerStartError as error:
            self._start_failed(container, error, attempt=spec.attempt)
            return
        running = Running(state.id, state.started_at, first_step(container), state.image_id, image=container.image)
        self._put(container, self._record(container).running(running, attempt=spec.attempt))
        self._pod.normal("Created", "Container created", container=container.name)
        self._pod.normal("Started", "Container started", container=container.name)

    def _start_failed(self, container: Container, error: ContainerStartError, *, attempt: int) -> None:
        if error.reason not in CANNOT_RUN:
            self._fail(container, error.reason, str(error))
            return
        self._devices.container_not_started(self._pod.uid, container.name)
        # The container was made and could not run: that counts as a run, and the restart policy decides.
        now = self._pod.clock.now()
        end = Terminated(None, START_FAILED_EXIT_CODE, error.reason, now, message=str(error))
        self._put(container, self._record(container).terminated(end, attempt=attempt))
        self._pod.normal("Created", "Container created", container=container.name)
        self._pod.warning("Failed", f"Error: {error}", container=container.name)

    def _fail(self, container: Container, reason: str, message: str, *, event: str = "") -> None:
        """Record why the container waits; ``event`` is the text of the event, the message if empty."""
        self._devices.container_not_started(self._pod.uid, container.name)
        self._put(container, self._record(container).waiting(reason, message))
        self._pod.warning("Failed", f"Error: {event or message}", container=container.name)

    def _tell(self, container: Container, notice: Notice) -> None:
        self._pod.tell(EventType(notice.kind.value), notice.reason, notice.message, container=container.name)
