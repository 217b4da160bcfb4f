"""Stops what runs of a pod: hooks, order and grace period.

Source: kubelet 1.36 ``kuberuntime_container.go`` (``killContainer``), ``kuberuntime_termination_order.go``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from plugbay.errors import InstanceNotFound, InstanceUnreadable
from plugbay.model.actions import Hook
from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container
from plugbay.model.requests import ContainerKind
from plugbay.ops.tasks import first
from plugbay.pods.devices import DeviceSource
from plugbay.pods.record import Running, Terminated, lost, terminated
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.hooks import run_hook, until_ended
from plugbay.runtimes.port import ContainerRuntime

logger = logging.getLogger(__name__)

MIN_GRACE_S: Final = 2.0
"""A container has at least so long, although its hook, or containers before it, took all the time."""
RETRY_S: Final = 10.0
"""The wait before a container that could not be stopped is stopped again."""


class PodStopper:
    """Stops the containers of one pod and records how they ended."""

    def __init__(self, pod: PodAccount, runtime: ContainerRuntime, devices: DeviceSource) -> None:
        self._pod = pod
        self._runtime = runtime
        self._devices = devices

    async def stop_all(self, *, grace_s: float) -> None:
        """All hooks at once; then app containers together, then sidecars, last started first.

        All share one grace period; 0 kills, without any hook.
        """
        running = self._pod.record.running()
        ended = {name: asyncio.Event() for name in running}
        deadline = self._pod.clock.monotonic() + grace_s
        async with asyncio.TaskGroup() as tasks:
            for name, state in running.items():
                self._report(name, f"Stopping container {name}")
                earlier = [ended[other] for other in self._ends_before(name, running)]
                tasks.create_task(self._stop(name, state, deadline=deadline, earlier=earlier, ended=ended[name]))

    async def stop_now(self, *, grace_s: float) -> None:
        """Stop everything at once, without hooks: the grace period of a stop under way became shorter."""
        async with asyncio.TaskGroup() as tasks:
            for name, state in self._pod.record.running().items():
                tasks.create_task(self._signal(name, state, grace_s=grace_s))

    async def stop_one(self, name: ContainerName, running: Running, *, grace_s: float, message: str) -> None:
        """Stop one container of a pod that goes on."""
        self._report(name, message)
        deadline = self._pod.clock.monotonic() + grace_s
        await self._stop(name, running, deadline=deadline, earlier=(), ended=asyncio.Event())

    def _report(self, name: ContainerName, message: str) -> None:
        self._pod.normal("Killing", message, container=name)

    def _ends_before(self, name: ContainerName, running: Mapping[ContainerName, Running]) -> list[ContainerName]:
        """The containers that must stop first: a sidecar waits for all main containers and later sidecars."""
        kinds = {other: self._pod.record.containers[other].kind for other in running}
        if kinds[name] is not ContainerKind.SIDECAR:
            return []
        names = list(running)
        later = names[names.index(name) + 1 :]
        return [other for other in names if kinds[other] is not ContainerKind.SIDECAR or other in later]

    async def _stop(
        self,
        name: ContainerName,
        running: Running,
        *,
        deadline: float,
        earlier: Sequence[asyncio.Event],
        ended: asyncio.Event,
    ) -> None:
        hook = self._container(name).pre_stop
        has_grace = self._left_s(deadline) > 0
        if has_grace and (hook or earlier):
            await first(
                self._prepare(name, running, hook, earlier),
                self._pod.clock.sleep(self._left_s(deadline)),
                until_ended(running.id, self._runtime),
            )
        left_s = max(self._left_s(deadline), MIN_GRACE_S) if has_grace else 0.0
        await self._signal(name, running, grace_s=left_s)
        ended.set()

    async def _prepare(
        self, name: ContainerName, running: Running, hook: Hook | None, earlier: Sequence[asyncio.Event]
    ) -> None:
        """Run the hook, and wait for the container's turn."""
        if hook is not None:
            problem = await run_hook(hook, self._container(name), running.id, pod=self._pod, runtime=self._runtime)
            if problem:
                logger.warning(
                    "the pre-stop hook of container %s of pod %s failed; the container is stopped without it: %s",
                    name,
                    self._pod.uid,
                    problem,
                )
                self._pod.warning("FailedPreStopHook", "PreStopHook failed", container=name)
        for each in earlier:
            await each.wait()

    async def _signal(self, name: ContainerName, running: Running, *, grace_s: float) -> None:
        """Returns when the instance has ended. As long as that is not known, the pod keeps what it holds."""
        while True:
            try:
                state = await self._runtime.stop(running.id, grace_s=grace_s)
            except InstanceNotFound:
                end = lost(running, now=self._pod.clock.now())
            except InstanceUnreadable as error:
                self._report_failure(name, error)
                await self._pod.clock.sleep(RETRY_S)
                continue
            else:
                end = terminated(state, now=self._pod.clock.now())
            self._record_end(name, end)
            return

    def _report_failure(self, name: ContainerName, error: InstanceUnreadable) -> None:
        if self._pod.is_open:
            problem = f'error killing pod: failed to "KillContainer" for "{name}" with KillContainerError: "{error}"'
            self._pod.warning("FailedKillPod", problem)

    def _record_end(self, name: ContainerName, end: Terminated) -> None:
        """A second stop of the same instance, or one that outlasts the pod, has nothing to add."""
        if not self._pod.is_open:
            return
        container = self._pod.record.containers[name]
        if isinstance(container.state, Running) and container.state.id == end.id:
            self._pod.put_container(name, container.terminated(end, attempt=container.attempt))
            if end.id is not None:
                self._devices.container_ended(self._pod.uid, name, end.id)

    def _left_s(self, deadline: float) -> float:
        return max(0.0, deadline - self._pod.clock.monotonic())

    def _container(self, name: ContainerName) -> Container:
        return next(each for each in self._pod.record.pod.spec.all_containers if each.name == name)
