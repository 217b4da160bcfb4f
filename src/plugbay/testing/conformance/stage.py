"""The stage of a scene: a root of its own, in which a kubelet listens and the plugin under test runs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.testing.conformance.probe.kubelet import ProbeKubelet, probe_kubelet
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.process import Subject, start_subject
from plugbay.testing.conformance.trace import Trace

_ROOT_PREFIX = "pb"


class Stage:
    """Used through `open_stage`.

    Attributes:
        root: the kubelet's root directory, as we see it.
        kubelet: the kubelet; it does not listen until `begin`, or until the scene says so.
        resource: the resource that is judged; empty while none is known.
        trace: what happened in the scene that is played.
    """

    def __init__(self, settings: ConformanceSettings, root: Path, resource: str) -> None:
        self.settings = settings
        self.root = root
        self.resource = resource
        self.trace = Trace(time.monotonic)
        self.subjects: list[Subject] = []
        self._processes = AsyncExitStack()
        self._kubelet: ProbeKubelet | None = None

    @property
    def kubelet(self) -> ProbeKubelet:
        assert self._kubelet is not None, "the stage is open"
        return self._kubelet

    @property
    def subject(self) -> Subject:
        """The plugin that was started last."""
        assert self.subjects, "the plugin was started"
        return self.subjects[-1]

    # --- what scenes do ---------------------------------------------------------------------------------------------

    async def start_plugin(self) -> Subject:
        """Start the plugin, another instance if it runs already; it is ended with the stage."""
        subject = await self._processes.enter_async_context(
            start_subject(self.settings.command, self.root, self.settings.environ)
        )
        self.subjects.append(subject)
        self.trace.note(f"plugin starts, process {subject.pid}")
        return subject

    async def begin(self) -> Meeting:
        """The plugin, registered and with a first list: at once if it is, else the kubelet listens and it is started.

        Raises:
            CannotJudge: it did not get so far in time.
        """
        if (meeting := self._current()) is not None:
            return meeting
        if not self.kubelet.is_listening:
            await self.kubelet.listen()
        if not self.subjects or not self.subject.is_running:
            await self.start_plugin()
        known = self.kubelet.meetings[-1] if self.kubelet.meetings else None
        return await self.meet(self.settings.ready_timeout_s, after=known)

    async def meet(self, timeout_s: float, *, after: Meeting | None = None) -> Meeting:
        """The next registration of the resource after ``after``, with a first list.

        Raises:
            CannotJudge: it did not come in time.
        """
        deadline = _now() + timeout_s
        meeting = await self.kubelet.meet(self.resource, timeout_s, after=after)
        if meeting is None:
            raise CannotJudge(f"the plugin did not register {self.resource} within {timeout_s:g} s{self.why_silent()}")
        if not await meeting.until_listed(deadline - _now()):
            raise CannotJudge(f"{self.resource} sent no list within {timeout_s:g} s{self.why_silent()}")
        return meeting

    async def begin_with_devices(self, count: int = 1) -> Meeting:
        """As `begin`, with at least ``count`` healthy devices.

        Raises:
            CannotJudge: it did not get so far in time.
            NotApplicable: it has fewer devices.
        """
        deadline = _now() + self.settings.ready_timeout_s
        meeting = await self.begin()
        timeout_s = deadline - _now() if count == 1 else 0.0
        await meeting.until(lambda: len(meeting.healthy) >= count, timeout_s)
        if meeting.ended.is_set() and not meeting.healthy:
            raise CannotJudge(f"the stream of {self.resource} ended before a device was listed")
        if len(meeting.healthy) < count:
            raise NotApplicable(f"{self.resource} has {len(meeting.healthy)} healthy devices, this takes {count}")
        return meeting

    async def until_met_or_ended(self, timeout_s: float, *, after: Meeting | None = None) -> bool:
        """Whether the resource is registered after ``after``, with a list, before the plugin ends and in time."""
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(self.subject.ended.wait())
            meeting = tasks.create_task(self._is_met(timeout_s, after))
            await asyncio.wait([ending, meeting], return_when=asyncio.FIRST_COMPLETED)
            has_met = meeting.done() and meeting.result()
            ending.cancel()
            meeting.cancel()
        return has_met

    async def _is_met(self, timeout_s: float, after: Meeting | None) -> bool:
        deadline = _now() + timeout_s
        meeting = await self.kubelet.meet(self.resource, timeout_s, after=after)
        return meeting is not None and await meeting.until_listed(deadline - _now())

    def host_path(self, path: str) -> Path:
        """A path of the host that the plugin names, as we see it: below the kubelet's usual place lies our root."""
        given = Path(path)
        if self.settings.command.is_enclosed and given.is_relative_to(STOCK_ROOT):
            return self.root / given.relative_to(STOCK_ROOT)
        return given

    def why_silent(self) -> str:
        """A clause on the plugin's process, for the end of a sentence: it has ended, or runs and says nothing."""
        if not self.subjects or self.subject.is_running:
            return ""
        code = self.subject.exit_code
        return f"; it ended with {f'signal {-code}' if code is not None and code < 0 else f'exit code {code}'}"

    def _current(self) -> Meeting | None:
        if not self.subjects or not self.subject.is_running:
            return None
        mine = [each for each in self.kubelet.meetings if each.resource == self.resource and not each.ended.is_set()]
        return mine[-1] if mine and mine[-1].lists else None

    # --- opening ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        async with probe_kubelet(self.root, self.trace) as self._kubelet, self._processes:
            yield

    def play_next(self, resource: str) -> None:
        """Begin the trace of another scene, on ``resource``."""
        self.resource = resource
        self.trace = self.kubelet.trace = Trace(time.monotonic)
        for meeting in self.kubelet.meetings:
            meeting.trace = self.trace


def _now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def open_stage(settings: ConformanceSettings, resource: str = "") -> AsyncIterator[Stage]:
    """A stage in a new directory; after the block the plugin has ended and the directory is gone."""
    directory = await asyncio.to_thread(tempfile.TemporaryDirectory, "", _ROOT_PREFIX, settings.places)
    try:
        stage = Stage(settings, Path(directory.name), resource)
        async with stage._opened():
            yield stage
    finally:
        await asyncio.to_thread(directory.cleanup)
