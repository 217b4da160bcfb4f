"""The survey: the plugin's first start, from which a run learns its resources, and whether it can be judged at all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

from plugbay.testing.conformance.findings import PluginOutput
from plugbay.testing.conformance.probe.kubelet import Attempt, ProbeKubelet
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.probe.watcher import FoundSocket
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_SETTLE_S: Final = 0.7
"""The time without another resource after which a plugin has registered all that it registers at its start."""


@dataclass(frozen=True, slots=True)
class FirstMeeting:
    """The plugin's first start.

    Attributes:
        attempts: its Register calls.
        found: the sockets that it put below plugins_registry.
        meetings: the registrations that were accepted, by either route.
        wanted: the resources that it is said to have.
        resources: those that were accepted, sorted.
        exit_code: how it ended; None while it runs.
        ports: the TCP ports on which it listens.
        output: what it printed.
        waited_s: the time that it had.
        trouble: why it could not be started at all; empty if it was.
    """

    attempts: tuple[Attempt, ...]
    found: tuple[FoundSocket, ...]
    meetings: tuple[Meeting, ...]
    wanted: tuple[str, ...]
    resources: tuple[str, ...]
    exit_code: int | None
    ports: tuple[int, ...]
    output: PluginOutput
    waited_s: float
    trouble: str = ""


async def survey(stage: Stage) -> FirstMeeting:
    """Start the plugin before a kubelet that accepts all that a kubelet accepts, and wait for its resources."""
    settings = stage.settings
    await stage.kubelet.listen()
    try:
        subject = await stage.start_plugin()
    except CannotJudge as trouble:
        return FirstMeeting((), (), (), settings.resources, (), None, (), PluginOutput("", 0), 0.0, str(trouble))
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(subject.ended.wait())
        coming = tasks.create_task(_until_registered(stage, settings))
        await asyncio.wait([ending, coming], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        coming.cancel()
    waited_s = loop.time() - began
    if subject.is_running:
        await _until_decided(stage, settings)
    for resource in stage.kubelet.resources:
        if (meeting := await stage.kubelet.meet(resource, 0)) is not None:
            await meeting.until_listed(min(settings.ready_timeout_s, 5))
    return FirstMeeting(
        attempts=tuple(stage.kubelet.attempts),
        found=tuple(stage.kubelet.found),
        meetings=tuple(stage.kubelet.meetings),
        wanted=settings.resources,
        resources=stage.kubelet.resources,
        exit_code=subject.exit_code,
        ports=tuple(await subject.ports()) if subject.is_running else (),
        output=PluginOutput(subject.output.text, subject.output.size, "when it was first started"),
        waited_s=waited_s,
    )


async def _until_registered(stage: Stage, settings: ConformanceSettings) -> None:
    kubelet = stage.kubelet
    wanted = set(settings.resources)
    if not await kubelet.until(
        lambda: bool(kubelet.resources) and wanted <= set(kubelet.resources), settings.ready_timeout_s
    ):
        return
    known = -1
    while known != len(kubelet.resources):  # a plugin that registers one again and again is not waited for
        known = len(kubelet.resources)
        await kubelet.until(partial(_are_more, kubelet, known), _SETTLE_S)


async def _until_decided(stage: Stage, settings: ConformanceSettings) -> None:
    """Wait for the watcher: it dials a socket that nobody serves for longer than other registrations take."""
    with suppress(TimeoutError):
        async with asyncio.timeout(settings.ready_timeout_s):
            for found in stage.kubelet.found:
                await found.decided.wait()


def _are_more(kubelet: ProbeKubelet, known: int) -> bool:
    return len(kubelet.resources) > known
