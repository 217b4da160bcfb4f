"""Trace a plugin: its program runs behind a relay, or beside a kubelet of our own, and what passes is recorded."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.errors import AdmissionError, PathUnusable, PluginProgramFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background, first, ungrouped
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.process import Subject
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.local.opening import local_kubelet, private_directory
from plugbay.testing.tracing.program import failure_of, how_ended, running
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.relay.forwarding import TrafficWatch
from plugbay.testing.traffic.relay.relay import relay
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import TrafficRecord
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

REGISTERS_S: Final = 20.0
"""The time after which a plugin that has not registered is told of."""
_KUBELET_S: Final = 5.0
_FOREVER_S: Final = 10.0**9
_REGISTRATIONS: Final = frozenset({"Register", "GetInfo"})


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The settings of a trace.

    Attributes:
        kubelet: the kubelet to stand before; None for one of our own, which has no pods but those of ``admit``.
        admit: pods for a kubelet of our own: each asks for so many devices of a resource, as soon as they are there.
        echo: called with what the plugin prints, as it comes.
    """

    command: PluginCommand
    environ: Mapping[str, str]
    kubelet: KubeletPaths | None = None
    admit: tuple[tuple[str, int], ...] = ()
    echo: Callable[[bytes], object] = field(default=lambda _: None)


class Tracing:
    """A trace that runs; made by `trace`.

    Attributes:
        subject: the plugin's program.
    """

    def __init__(self, settings: TraceSettings, subject: Subject) -> None:
        self._settings = settings
        self.subject = subject
        self._registered = asyncio.Event()

    def look(self, record: TrafficRecord) -> None:
        """Take note of a record."""
        if record.name in _REGISTRATIONS:
            self._registered.set()

    async def until_ended(self) -> None:
        """Wait until the program has ended.

        Raises:
            PluginProgramFailed: it did so before it registered.
        """
        if not await first(self._registered.wait(), self.subject.ended.wait(), timeout_s=REGISTERS_S):
            logger.warning("%s", self._failure(f"has not registered within {REGISTERS_S:g} s, and runs on"))
        await self.subject.ended.wait()
        if not self._registered.is_set():
            raise self._failure(f"{how_ended(self.subject)} before it registered")

    def _failure(self, problem: str) -> PluginProgramFailed:
        return failure_of(self._settings.command, self.subject, problem)


@asynccontextmanager
async def trace(
    settings: TraceSettings, listener: Callable[[TrafficRecord], object], *, clock: Clock
) -> AsyncIterator[Tracing]:
    """Run the plugin during the block; ``listener`` gets every record as it comes.

    Raises:
        PathUnusable: no kubelet is there, or its directory is closed to us.
        PluginProgramFailed: the program cannot be run.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(ungrouped())
        if settings.kubelet is None:
            kubelet = await stack.enter_async_context(local_kubelet())
            recorder, root = kubelet.traffic, kubelet.paths.root
            for resource, count in settings.admit:
                await stack.enter_async_context(background(_admit(kubelet, resource, count), name=f"pod of {resource}"))
        else:
            recorder = TrafficRecorder(clock)
            root = await _relayed(settings.kubelet, settings.command, recorder, stack)
        recorder.listeners.append(listener)
        subject = await stack.enter_async_context(running(settings.command, root, settings.environ))
        subject.output.listeners.append(settings.echo)
        tracing = Tracing(settings, subject)
        recorder.listeners.append(tracing.look)
        yield tracing


async def _relayed(
    kubelet: KubeletPaths, command: PluginCommand, recorder: TrafficRecorder, stack: AsyncExitStack
) -> Path:
    """The root of a relay before ``kubelet``, which shows a kubelet already."""
    await asyncio.to_thread(_check_kubelet, kubelet)
    served = KubeletPaths(stack.enter_context(private_directory()))
    watch = TrafficWatch(recorder, FaultSwitches())
    seen_root = STOCK_ROOT if command.is_enclosed else served.root
    await stack.enter_async_context(relay(kubelet, served, watch, seen_root=seen_root))
    async with watch_paths([served.registration_socket]) as changes, asyncio.timeout(_KUBELET_S):
        while not await asyncio.to_thread(served.registration_socket.exists):
            await anext(changes)
    return served.root


def _check_kubelet(kubelet: KubeletPaths) -> None:
    if not kubelet.registration_socket.is_socket():
        raise PathUnusable(str(kubelet.registration_socket), "no kubelet is here, so there is nothing to trace")
    if not os.access(kubelet.device_plugins, os.W_OK | os.X_OK):
        raise PathUnusable(str(kubelet.device_plugins), "cannot put a socket into this directory; it takes root")


async def _admit(kubelet: LocalKubelet, resource: str, count: int) -> None:
    """Admit a pod as soon as there are devices for it, and prepare its container."""
    try:
        await kubelet.wait_for(lambda: kubelet.allocatable.get(resource, 0) >= count, within_s=_FOREVER_S)
        await kubelet.start(await kubelet.admit({resource: count}))
    except AdmissionError as error:
        logger.warning("the pod for %d of %s was refused: %s", count, resource, error)
