"""Probes the containers of one pod.

Source: kubelet 1.36 ``pkg/kubelet/prober/worker.go``, ``prober_manager.go``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final

from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container
from plugbay.model.probes import ContainerProbe, ProbeKind
from plugbay.ops.tasks import background, first
from plugbay.pods.record import Running, Startup
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.probing.actions import ActionTarget, probe_once
from plugbay.pods.running.probing.results import ProbeOutcome, ProbeResult, Streak, event_of
from plugbay.pods.running.probing.ticks import Ticker
from plugbay.pods.status import address
from plugbay.runtimes.port import ContainerId, ContainerRuntime

_log = logging.getLogger(__name__)

_TRIES: Final = 3
"""So often a probe is made that cannot be made."""


class Prober:
    """The probes of one pod's containers, from the moment the pod is taken up."""

    def __init__(self, pod: PodAccount, runtime: ContainerRuntime) -> None:
        self._pod = pod
        self._runtime = runtime
        self._taken_up = pod.clock.monotonic()
        self._adopted = {state.id for state in pod.record.running().values()}
        """Instances that an earlier run of the node has started."""

    def round(self, kind: ProbeKind, container: Container, running: Running) -> ProbeRound | None:
        """The probes of one kind of a running instance; None if there are none of the kind."""
        probe = {
            ProbeKind.STARTUP: container.probes.startup,
            ProbeKind.LIVENESS: container.probes.liveness,
            ProbeKind.READINESS: container.probes.readiness,
        }[kind]
        if probe is None:
            return None
        now, seen = self._pod.clock.monotonic(), -1
        if running.id in self._adopted:  # else all pods of a restarted node were probed at once
            ticker = Ticker(now + random.random() * probe.period_s, probe.period_s)
        elif kind is ProbeKind.READINESS:  # a kubelet asks as soon as it sees the container run
            ticker = Ticker(now, probe.period_s)
        else:
            ticker = Ticker(self._taken_up, probe.period_s)
            seen = ticker.newest(now)
        return ProbeRound(kind, probe, container, running, self._pod, self._runtime, ticker, seen)

    def keeping_ready(self) -> AbstractAsyncContextManager[object]:
        """Keep the readiness of the containers up to date while the block runs, also while they are being stopped."""
        probed = [each for each in self._pod.record.pod.spec.all_containers if each.probes.readiness]
        return background(self._keep_ready(probed), name="readiness probes") if probed else nullcontext()

    async def _keep_ready(self, containers: list[Container]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in containers:
                tasks.create_task(self._keep_container_ready(each))

    async def _keep_container_ready(self, container: Container) -> None:
        while True:
            running = await self._until(container.name, lambda running: running is not None and running.has_started)
            assert running is not None
            await first(self._probe_readiness(container, running), self._until_ended(container.name, running.id))

    async def _probe_readiness(self, container: Container, running: Running) -> None:
        probes = self.round(ProbeKind.READINESS, container, running)
        assert probes is not None
        while True:
            step = Startup.DONE if await probes.verdict() else Startup.UNREADY
            record = self._pod.record.containers[container.name]
            if isinstance(record.state, Running) and record.state.id == running.id:
                state = record.state.at(step, now=self._pod.clock.now())
                self._pod.put_container(container.name, replace(record, state=state))

    async def _until_ended(self, name: ContainerName, instance: ContainerId) -> None:
        await self._until(name, lambda running: running is None or running.id != instance)

    async def _until(self, name: ContainerName, holds: Callable[[Running | None], bool]) -> Running | None:
        """Wait until the running instance of a container, None if there is none, is as wanted; and return it."""
        async for _ in self._pod.changes:
            running = self._pod.record.running().get(name)
            if holds(running):
                return running
        raise AssertionError("changes have no end")


class ProbeRound:
    """One probe of one instance of a container, repeated.

    Args:
        seen: the tick after which the first probe is due.
    """

    def __init__(
        self,
        kind: ProbeKind,
        probe: ContainerProbe,
        container: Container,
        running: Running,
        pod: PodAccount,
        runtime: ContainerRuntime,
        ticker: Ticker,
        seen: int,
    ) -> None:
        self._kind = kind
        self.probe = probe
        self._container = container
        self._running = running
        self._pod = pod
        self._runtime = runtime
        self._ticker = ticker
        self._streak = Streak()
        ran_s = max(0.0, (pod.clock.now() - running.started_at).total_seconds())
        self._earliest = pod.clock.monotonic() - ran_s + probe.initial_delay_s
        self._tick = seen

    async def verdict(self) -> bool:
        """Probe until so many results in a row are alike that they count; whether the container does well."""
        while True:
            await self._until_due()
            result = await self._result()
            self._report(result)
            self._streak = self._streak.after(result)
            self._tick = self._ticker.seen(self._tick, now=self._pod.clock.monotonic())
            if result.counts and (verdict := self._streak.verdict(self.probe)) is not None:
                return verdict

    async def _until_due(self) -> None:
        self._tick = self._ticker.following(self._tick, earliest=self._earliest)
        wait_s = self._ticker.moment(self._tick) - self._pod.clock.monotonic()
        if wait_s > 0:
            await self._pod.clock.sleep(wait_s)

    async def _result(self) -> ProbeResult:
        host = address(self._pod.record)
        target = ActionTarget(self._container, self._running.id, host, self._runtime)
        for _ in range(_TRIES):
            try:
                result = await probe_once(self.probe.action, target, timeout_s=self.probe.timeout_s)
            except Exception:  # as in a kubelet, whose worker survives the panic of a probe: the pod goes on
                told = "pod %s/%s: the %s probe of container %s met a fault of ours and counts neither way; report it"
                pod = self._pod.record.pod
                _log.exception(told, pod.namespace, pod.name, self._kind.value.lower(), self._container.name)
                result = ProbeResult(ProbeOutcome.UNKNOWN, "a fault of the node, which its log shows")
            if result.counts:
                break
        return result

    def _report(self, result: ProbeResult) -> None:
        if (event := event_of(self._kind, result)) is not None and self._pod.is_open:
            self._pod.warning(event.reason, event.message, container=self._container.name)
