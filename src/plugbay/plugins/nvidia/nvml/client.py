"""The plugin's side of the worker: questions with deadlines, the driver's events, and the worker's restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.ops.backoff import Backoff, Delays
from plugbay.ops.spawned_worker import SpawnedWorker
from plugbay.ops.tasks import background
from plugbay.ops.worker_process import WorkerProcess
from plugbay.plugins.nvidia.nvml.connection import NvmlConnection
from plugbay.plugins.nvidia.nvml.reading import read_links, read_metrics, read_survey
from plugbay.plugins.nvidia.nvml.rounds import SURVEY, GpuRounds, Place, RoundProgress
from plugbay.plugins.nvidia.nvml.starting import spawn_nvml_worker
from plugbay.plugins.nvidia.nvml.troubles import crashed, hung, unusable
from plugbay.plugins.nvidia.nvml.values import DriverEvent, GpuEvent, GpuMetrics, Probe, Watching, WatchLost
from plugbay.plugins.nvidia.platform.library import find_library
from plugbay.plugins.nvidia.survey import LinkMatrix, Survey
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_RESTARTS: Final = Delays(0.1, 10.0, jitter=0.5)
"""Shorter than a survey may take, however many workers have died: a look waits for the next one, and GPUs that work
stay as they were."""
_WATCHES: Final = Delays(0.1, 30.0, jitter=0.5)
_STEADY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class NvmlSettings:
    """Where the driver is, and how long it may take.

    Attributes:
        driver_root: below which its library is looked for; ``/`` leaves that to the dynamic linker.
        sys_root: where sysfs is.
        environ: the worker's whole environment; None for ours.
        survey_s, links_s, probe_s, metrics_s, watch_s: the seconds that a question may take. The first one includes
            the driver's start: seconds, when no other program keeps the driver loaded.
        gpu_s: the seconds that one GPU may take instead, once a question that goes from GPU to GPU has come to it.
        gpu_rest_s: how long a GPU of which the driver dies is left out at first; each further time it is twice as long.
            Longer than from one scrape of metrics to the next, or each of them would find the driver hung.
        wait_s: how long the worker waits for events in one call of the driver. After three times that without a return
            the driver counts as hung.
        check_s: how often a worker that nobody asks anything is asked whether it still waits for events, and how soon
            GPUs that could not be watched are tried again.
        restarts: the delays between the starts of workers that hang or crash.
    """

    driver_root: Path = Path("/")
    sys_root: Path = Path("/sys")
    environ: Mapping[str, str] | None = None
    survey_s: float = 30.0
    links_s: float = 30.0
    probe_s: float = 10.0
    metrics_s: float = 10.0
    watch_s: float = 30.0
    gpu_s: float = 10.0
    gpu_rest_s: float = 30.0
    wait_s: float = 10.0
    check_s: float = 60.0
    restarts: Delays = field(default=_RESTARTS)


class Nvml:
    """The driver, asked through a worker process; open in ``async with``.

    The worker starts at once. One that hangs or crashes is killed and started anew, after a delay that grows from time
    to time; questions fail meanwhile. Questions are asked one at a time.

    Every question raises `DriverUnusable` when the driver is absent, closed to us, or does not answer in time, and
    `DriverCallFailed` when it answers with an error.

    Args:
        early: a first worker that has been started already, in the environment of the settings.

    Attributes:
        settings: a change counts from the next question on; the driver's root is changed by `move`.
        times_unusable: how often the driver could not be used, be it that it was absent, or that it was loaded anew.
        unusable_at: when that was last, on the event loop's clock.
    """

    def __init__(self, settings: NvmlSettings | None = None, early: SpawnedWorker | None = None) -> None:
        self.times_unusable = 0
        self.unusable_at = 0.0
        self.settings = settings or NvmlSettings()
        self._early = early
        self._stack = AsyncExitStack()
        self._connection: NvmlConnection | None = None
        self._moved = asyncio.Condition()
        self._trouble: DriverUnusable | None = None
        self._library = ""
        self._load: int | None = None  # the driver's, as the last worker found it
        self._surveyed: tuple[object, Survey] | None = None  # the last answer, and its meaning
        self._turn = asyncio.Lock()
        self._deadline: asyncio.Timeout | None = None  # of the question that the worker is at
        self._progress: RoundProgress | None = None  # of the same
        self._rounds = GpuRounds(self.settings.gpu_rest_s)
        self._is_wanted = asyncio.Event()  # set while a worker should run
        self._is_wanted.set()
        self._events: asyncio.Queue[DriverEvent] = asyncio.Queue()
        self._is_read = False  # whether `events` has a reader
        self._watch_due = asyncio.Event()
        self._watch_problem: str | None = None  # why events ceased to come, until that is told
        self._misses_gpus = False  # whether the last watch failed for some of them

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(background(self._keep_worker(), name="nvml worker"))
        await self._stack.enter_async_context(background(self._keep_watch(), name="nvml watch"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        if self._early is not None:
            await (await WorkerProcess.adopt(self._early)).kill()

    @property
    def pid(self) -> int | None:
        """The worker; None between two of them."""
        return self._connection.process.pid if self._connection is not None else None

    @property
    def rss_bytes(self) -> int:
        """The worker's resident memory; 0 without one."""
        return self._connection.process.rss_bytes if self._connection is not None else 0

    async def survey(self) -> Survey:
        """The driver and its GPUs: the same object again while nothing of them changes."""
        answer = await self._rounds.ask(SURVEY, self._ask_survey)
        if self._surveyed is None or self._surveyed[0] != answer:
            self._surveyed = (answer, read_survey(answer))
        return self._surveyed[1]

    async def links(self) -> LinkMatrix:
        """How the GPUs reach each other. It takes many calls of the driver: ask once for each survey."""
        return read_links(await self._ask("links", timeout_s=self.settings.links_s))

    async def probe(self, uuid: str) -> Probe:
        """Ask one GPU or MIG device whether it works."""
        return Probe(**await self._ask("probe", uuid, timeout_s=self.settings.probe_s))

    async def metrics(self) -> tuple[GpuMetrics, ...]:
        """Measurements of all GPUs that can be read."""
        return read_metrics(await self._rounds.ask("metrics", self._ask_metrics))

    async def events(self) -> AsyncGenerator[DriverEvent, None]:
        """The driver's events as they happen, for one reader. A `Watching` comes first, and after each gap."""
        self._is_read = True
        self.watch_anew()
        try:
            while True:
                yield await self._events.get()
        finally:
            self._is_read = False

    async def move(self, driver_root: Path) -> bool:
        """Ask the driver below this root from the next question on; False if that is where it is asked already."""
        if driver_root == self.settings.driver_root:
            return False
        async with self._turn:
            self.settings = replace(self.settings, driver_root=driver_root)
            if (connection := self._connection) is not None:
                await self._end(connection, f"the NVIDIA driver is asked below {driver_root} from now on")
        return True

    def try_again(self) -> None:
        """Ask about the GPUs of which the driver died, too, and watch all that there are."""
        self._rounds.forgive()
        self.watch_anew()

    def watch_anew(self) -> None:
        """Watch the GPUs that there are now; for GPUs that came or were lost since."""
        self._watch_due.set()

    async def _ask_survey(self, left_out: tuple[Place, ...], progress: RoundProgress) -> Any:
        return await self._ask(SURVEY, left_out, timeout_s=self.settings.survey_s, progress=progress)

    async def _ask_metrics(self, left_out: tuple[Place, ...], progress: RoundProgress) -> Any:
        return await self._ask("metrics", left_out, timeout_s=self.settings.metrics_s, progress=progress)

    async def _ask_watch(self, left_out: tuple[Place, ...], progress: RoundProgress) -> Any:
        wait_ms = int(self.settings.wait_s * 1000)
        return await self._ask("watch", wait_ms, left_out, timeout_s=self.settings.watch_s, progress=progress)

    async def _ask(
        self, question: str, *arguments: object, timeout_s: float, progress: RoundProgress | None = None
    ) -> Any:
        """The answer to a question.

        Args:
            progress: of a question that goes from GPU to GPU: kept up to date.
        """
        async with self._turn:
            self._is_wanted.set()
            connection = await self._connected(timeout_s)
            self._progress = progress
            try:
                async with asyncio.timeout(timeout_s) as self._deadline:
                    outcome = await connection.ask(question, arguments)
            except TimeoutError:
                place = progress.place if progress is not None else None
                trouble = hung(question, timeout_s) if place is None else hung(question, self.settings.gpu_s, place[0])
                await self._give_up(connection, trouble)
                raise trouble from None
            except ConnectionError:
                await self._forget(connection)  # the next question waits for the next worker
                how = await connection.process.how_it_ended()
                raise crashed(how, question) from None
            finally:
                self._deadline = None
        kind, *rest = outcome
        if kind == "returned":
            return rest[0]
        code, problem = rest
        if kind == "failed":
            raise DriverCallFailed(question, problem, code)
        await self._start_afresh(connection)
        raise unusable(code, problem, library=self._library, root=str(self.settings.driver_root))

    def _come_to(self, place: Place) -> None:
        """The worker has come to another GPU, which has a time of its own."""
        if self._progress is None or self._deadline is None:
            return
        self._progress.place = place
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time() + self.settings.gpu_s)

    async def _connected(self, timeout_s: float) -> NvmlConnection:
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self._connection is not None)
        except TimeoutError:
            trouble = self._trouble
            raise DriverUnusable(*trouble.args) if trouble else hung("its start", timeout_s) from None
        assert self._connection is not None
        return self._connection

    async def _give_up(self, connection: NvmlConnection, trouble: DriverUnusable) -> None:
        """Kill a worker that hangs, with a delay before the next one."""
        self._trouble = trouble
        await self._forget(connection)
        connection.end(trouble)

    async def _start_afresh(self, connection: NvmlConnection) -> None:
        """End a worker whose driver is unusable: the next question gets one that looks for the library anew."""
        self._note_unusable()
        await self._end(connection, "the NVIDIA driver cannot be used any more")

    def _note_unusable(self) -> None:
        self._rounds.forgive()
        self.times_unusable += 1
        self.unusable_at = asyncio.get_running_loop().time()

    async def _end(self, connection: NvmlConnection, problem: str) -> None:
        """End a worker; the next question gets a new one."""
        self._is_wanted.clear()
        self._lose_watch(problem)
        await self._forget(connection)
        connection.end(None)

    async def _forget(self, connection: NvmlConnection) -> None:
        async with self._moved:
            if self._connection is connection:
                self._connection = None
            self._moved.notify_all()

    async def _keep_worker(self) -> None:
        backoff = Backoff(self.settings.restarts, steady_s=_STEADY_S)
        clock = asyncio.get_running_loop().time
        while True:
            await self._is_wanted.wait()
            started = clock()
            trouble = await self._run_worker()
            if trouble is None:  # it was to end
                backoff.reset()
                continue
            self._trouble = trouble
            delay_s = backoff.next_delay_s(ran_s=clock() - started)
            logger.warning("%s in %.1f s; until then the health of GPUs is not watched", trouble, delay_s)
            await asyncio.sleep(delay_s)

    async def _run_worker(self) -> DriverUnusable | None:
        """Run one worker to its end; returns why it ended, or None if it was to."""
        try:
            self._library = (await asyncio.to_thread(find_library, self.settings.driver_root)).path
            early, self._early = self._early, None
            worker = early or spawn_nvml_worker(self.settings.environ)
            connection = await NvmlConnection.open(worker, library=self._library, sys_root=self.settings.sys_root)
        except OSError as error:
            return crashed(f"cannot be started ({error})", None)
        try:
            async with self._moved:
                self._connection = connection
                self._moved.notify_all()
            trouble = await connection.run(self._take_event)
            if trouble is not None:
                self._lose_watch(str(trouble))
            return trouble
        finally:
            self._connection = None
            while not await connection.process.kill():  # no second one beside a process that hangs in the kernel
                logger.warning("process %d hangs in the NVIDIA driver and cannot be killed", connection.process.pid)

    def _take_event(self, frame: tuple[Any, ...]) -> DriverUnusable | None:
        kind, *rest = frame
        if kind == "event":
            self._put(GpuEvent(*rest))
            return None
        if kind == "started":
            self._compare_loads(*rest)
            return None
        if kind == "reading":
            index, count = rest
            self._come_to((index, count))
            return None
        code, problem = rest
        self._lose_watch(f"the NVIDIA driver reports no events: {problem}")
        return None if code else crashed("waits for events in a call that does not return", None)

    def _compare_loads(self, load: int | None, is_again: bool) -> None:
        """Notice a driver that was loaded anew, be it while no worker was there to be told."""
        if is_again or (load is not None and self._load not in (None, load)):
            self._note_unusable()
        if load is not None:
            self._load = load

    def _put(self, event: DriverEvent) -> None:
        if self._is_read:
            self._events.put_nowait(event)

    def _lose_watch(self, problem: str) -> None:
        """Tell that no events come, and watch again after a while."""
        self._watch_problem = problem
        self._watch_due.set()

    async def _keep_watch(self) -> None:
        backoff = Backoff(_WATCHES, steady_s=_STEADY_S)
        clock = asyncio.get_running_loop().time
        since, is_told = clock(), False
        while True:
            if not await self._is_watch_due():
                continue
            if self._watch_problem is not None:
                if not is_told:
                    self._put(WatchLost(self._watch_problem))
                self._watch_problem, is_told = None, True
                await asyncio.sleep(backoff.next_delay_s(ran_s=clock() - since))
            if not self._is_read:
                continue
            try:
                unwatched, too_old = await self._rounds.ask_once("watch", self._ask_watch)
            except (DriverUnusable, DriverCallFailed) as error:
                since = clock()
                self._lose_watch(str(error))
            else:
                since, is_told = clock(), False
                self._misses_gpus = bool(unwatched)
                reasons = {self._uuid_of(each): reason for each, reason in unwatched.items()}
                self._put(Watching(reasons, tuple(too_old)))

    def _uuid_of(self, gpu: str) -> str:
        """The UUID of a GPU that is given by its UUID or its index, as far as the last survey tells."""
        gpus = () if self._surveyed is None else self._surveyed[1].gpus
        return next((each.uuid for each in gpus if str(each.index) == gpu), gpu)

    async def _is_watch_due(self) -> bool:
        """Wait until the GPUs have to be watched anew; False after a check that found nothing to do."""
        try:
            async with asyncio.timeout(self.settings.check_s):
                await self._watch_due.wait()
        except TimeoutError:
            if self._misses_gpus:
                return True
            with suppress(DriverUnusable, DriverCallFailed):  # the worker's end is told elsewhere
                if self._is_read:
                    await self._ask("events", timeout_s=self.settings.probe_s)
            return False
        self._watch_due.clear()
        return True
