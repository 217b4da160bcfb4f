"""Keeps one container of a pod as its kind and the restart policy want it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from plugbay.errors import InstanceNotFound, InstanceUnreadable
from plugbay.model.pods import Container
from plugbay.ops.backoff import RESTARTS, STEADY_S, SYNCS, Backoff, go_duration
from plugbay.pods.devices import DeviceSource
from plugbay.pods.record import ContainerRecord, Running, Startup, Terminated, Waiting, lost, restarts, terminated
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.retries import Retries
from plugbay.pods.running.start import ContainerStarter
from plugbay.runtimes.port import ContainerRuntime


class ContainerWorker:
    """Runs one container from whatever state its record is in.

    Args:
        retries: the waits of the pod.

    Attributes:
        attempted: set once a first start was tried, well or not: then the next container's turn comes.
        started: set once the container runs and its post-start hook is done.
    """

    def __init__(
        self,
        container: Container,
        pod: PodAccount,
        runtime: ContainerRuntime,
        devices: DeviceSource,
        *,
        starter: ContainerStarter,
        retries: Retries,
    ) -> None:
        self._container = container
        self._pod = pod
        self._runtime = runtime
        self._devices = devices
        self._starter = starter
        self._retries = retries
        self._restart_backoff = Backoff(RESTARTS, steady_s=STEADY_S)
        self._start_backoff = Backoff(SYNCS)
        self.attempted = asyncio.Event()
        self.started = asyncio.Event()

    async def run(self) -> Terminated:
        """Return how the container ended for good; never if it is always restarted."""
        while True:
            match self._record.state:
                case Waiting():
                    await self._start()
                    if isinstance(self._record.state, Waiting):
                        self.attempted.set()
                        await self._retries.pause(self._start_backoff.next_delay_s())
                case Running(startup=Startup.POST_START) as running:
                    await self._starter.post_start(self._container, running)
                case Running() as running:
                    self.attempted.set()
                    self.started.set()
                    await self._wait(running)
                case Terminated() as end:
                    self._report_end(end)
                    self.attempted.set()
                    if not restarts(self._container.kind, self._pod.record.pod.spec.restart_policy, end):
                        return end
                    await self._remove_older()
                    await self._back_off(end)
                    await self._start()

    @property
    def _record(self) -> ContainerRecord:
        return self._pod.record.containers[self._container.name]

    def _put(self, record: ContainerRecord) -> None:
        self._pod.put_container(self._container.name, record)

    async def _start(self) -> None:
        if (end := self._record.newest_end()) is not None:
            self._report_end(end)
        await self._starter.start(self._container)

    def _report_end(self, end: Terminated) -> None:
        """Report each time that the end is seen: the node may have been killed between the end and the report."""
        if end.id is not None:
            self._devices.container_ended(self._pod.uid, self._container.name, end.id)

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
