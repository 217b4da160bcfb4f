"""Pods come and go, kubelets restart, plugins are killed between any two effects: no device is cleaned in use, none is
given dirty, and each is cleaned in the end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plugbay import Assignment, Device, DevicePlugin, ReleasePolicy
from plugbay.errors import AllocationError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ContainerName, DeviceId, PodUid
from plugbay.model.podresources import PodResources
from plugbay.sdk.release.custody import Custody
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.quiet import Shared
from plugbay.sdk.release.settings import ReleaseSettings
from plugbay.sdk.release.sweep import Sweep
from plugbay.sdk.release.uses import GRACE_S, SETTLE_S, Life, Reading, doubt
from tests.unit.sdk.release.kubelet_model import RESOURCE, KubeletModel, Pod

DEVICES = ("a", "b", "c")
STEP_S = 20
MEMORY = Path("/dev/shm")
"""Where waiting for the disk costs nothing."""
PLUGIN = "plugin"
"""The plugin's own pod."""


class Killed(BaseException):
    """The process is gone."""


class Loop(asyncio.SelectorEventLoop):
    """Its time can be moved on."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Fate:
    """Kills the process at its next effect but so many; never again, once that has happened."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.has_come = asyncio.Event()

    def effect(self) -> None:
        if self.has_come.is_set():
            raise Killed
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.has_come.set()
                raise Killed


class Cleaner(DevicePlugin):
    """Its hooks tell the machine."""

    resource_name = RESOURCE

    def __init__(self, policy: ReleasePolicy, released: Callable[[Assignment], None]) -> None:
        self.release_policy = policy
        self._released = released

    def discover(self) -> Sequence[Device]:
        return [Device(name) for name in DEVICES]

    async def release(self, assignment: Assignment) -> None:
        self._released(assignment)


class ModelReadings:
    """Stands for `Readings`: the model's checkpoint in place of a file."""

    def __init__(self, kubelet: KubeletModel) -> None:
        self.kubelet = kubelet
        self.life: Life | None = None

    async def meet(self, *, was_something_in_use: bool) -> Life:
        if self.life is None or self.life.id != str(self.kubelet.life):
            has_continued = was_something_in_use and self.kubelet.has_continued and not self.kubelet.has_written
            self.life = Life(str(self.kubelet.life), asyncio.get_running_loop().time(), has_continued)
        return self.life

    async def read(self, pods: Collection[PodUid] = ()) -> Reading:
        assert self.life is not None
        return self.kubelet.read(self.life, asyncio.get_running_loop().time())

    def on_disk(self) -> Mapping[DeviceId, frozenset[tuple[PodUid, ContainerName]]]:
        return {}


class Process:
    """One process of the plugin."""

    def __init__(self, machine: ReleaseMachine) -> None:
        self.fate = Fate()
        paths = KubeletPaths(machine.root)
        plugin = Cleaner(machine.policy, self._released)
        self._machine = machine
        self._hooks = ReleaseHooks()
        self.custody = Custody(plugin, paths, Shared(ReleaseSettings(interval_s=0.001), paths), self._hooks, lambda: 1)
        self.custody.shared.pod_lists.pods = self._pods  # type: ignore[method-assign]  # no socket to ask
        self.custody.book.open()
        readings = ModelReadings(machine.kubelet)
        readings.life = self.custody.book.life
        self.custody._readings = readings  # type: ignore[assignment]
        journal = self.custody.book._journal
        append = journal.append

        def killable(*records: Any) -> None:
            self.fate.effect()
            append(*records)
            self.fate.effect()

        journal.append = killable  # type: ignore[method-assign]
        self.sweep = Sweep(self.custody)
        self.running = machine.loop.create_task(self._hooks.run())
        machine.loop.run_until_complete(self.custody.stream_opened())

    async def _pods(self, *, newer_than_s: float) -> tuple[PodResources, ...]:
        return self._machine.kubelet.listed_pods()

    def _released(self, assignment: Assignment) -> None:
        self.fate.effect()
        self._machine.released(assignment)
        self.fate.effect()

    def end(self) -> None:
        self.running.cancel()
        self._machine.loop.run_until_complete(asyncio.wait([self.running]))
        if not self.running.cancelled():
            self.running.exception()
        self.custody.book.close()


class ReleaseMachine(RuleBasedStateMachine):
    policy = ReleasePolicy.STRICT

    @initialize()
    def start(self) -> None:
        self.loop = Loop()
        self.loop.set_exception_handler(lambda *_: None)  # a killed process leaves futures behind
        self.directory = tempfile.TemporaryDirectory(prefix="pb", dir=MEMORY if MEMORY.is_dir() else None)
        self.root = Path(self.directory.name)
        self.kubelet = KubeletModel(DEVICES)
        self.kubelet.pods[PLUGIN] = Pod(PLUGIN)
        self.dirty: set[str] = set()
        self.wrong: list[str] = []
        self.names = 0
        self.process = Process(self)

    def teardown(self) -> None:
        if not hasattr(self, "process"):
            return
        try:
            self._check_liveness()
        finally:
            self.process.end()
            self.loop.close()
            self.directory.cleanup()

    # --- what the process does --------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        """Let the process work; whether it survived. One that was killed is started again."""

        async def until_killed() -> None:
            working = asyncio.ensure_future(work)
            killed = asyncio.ensure_future(self.process.fate.has_come.wait())
            await asyncio.wait({working, killed, self.process.running}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            killed.cancel()
            if not working.cancelled() and (error := working.exception()) is not None and not _is_kill(error):
                raise error

        self.loop.run_until_complete(until_killed())
        if not self.process.fate.has_come.is_set():
            return True
        self.process.end()
        self.process = Process(self)
        return False

    def released(self, assignment: Assignment) -> None:
        if used := self.kubelet.in_use.intersection(assignment.units):
            self.wrong.append(f"released {assignment} while {sorted(used)} are in use")
        self.dirty.difference_update(assignment.units)

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not getattr(self, "wrong", [])

    async def _allocate(self, units: tuple[str, ...], reused: frozenset[str]) -> None:
        async with self.process.custody.allocate({DeviceId(unit): DeviceId(unit) for unit in units}):
            if (given := self.dirty.intersection(units) - reused) and self.policy is ReleasePolicy.STRICT:
                self.wrong.append(f"gave {sorted(given)} dirty")
            self.process.fate.effect()
            self.dirty.update(units)

    async def _admit(self, pod: Pod, init: int, app: int, refused: bool) -> None:
        reusable: frozenset[str] = frozenset()
        for container, count in (("init", init), ("app", app)):
            if not count:
                continue
            self.kubelet.clean()
            units = self.kubelet.pick(count, reusable)
            if units is None or (refused and container == "app"):
                pod.is_active = False
                break
            try:
                await self._allocate(units, frozenset(pod.used))
            except AllocationError:
                pod.is_active = False
                break
            pod.used.update(units)
            self.kubelet.assigned[pod.uid, container] = frozenset(units)
            reusable = frozenset(units)
        self.kubelet.write()

    async def _look(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            await self.process.sweep._look(tasks)

    # --- rules ------------------------------------------------------------------------------------------------------

    @rule(
        init=st.integers(0, 2),
        app=st.integers(1, 2),
        refused=st.booleans(),
        kill=st.none() | st.integers(0, 6),
        late=st.sampled_from([None, False, True]),
    )
    def admit(self, init: int, app: int, refused: bool, kill: int | None, late: bool | None) -> None:
        """``late``: another writer of the checkpoint began before, and may land after."""
        if late is not None:
            self.another_writes_late(late)
        self.names += 1
        pod = self.kubelet.pods[f"p{self.names}"] = Pod(f"p{self.names}")
        self.process.fate.left = kill
        survived = self.run(self._admit(pod, init, app, refused))
        self.process.fate.left = None
        if not survived:
            pod.is_active = False  # its Allocate failed
        pod.runs = pod.is_active

    @rule(init=st.integers(0, 1), app=st.integers(1, 2))
    def admit_in_peace(self, init: int, app: int) -> None:
        """More often than all that can go wrong."""
        self.admit(init, app, refused=False, kill=None, late=None)

    @rule()
    def look_in_peace(self) -> None:
        self.look(kill=None)

    def _running(self) -> list[str]:
        return [uid for uid, pod in self.kubelet.pods.items() if pod.runs and uid != PLUGIN]

    @precondition(lambda self: self._running())
    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(self._running()))
        self.kubelet.pods[uid].is_active = self.kubelet.pods[uid].runs = False

    @rule(kill=st.none() | st.integers(0, 8))
    def look(self, kill: int | None) -> None:
        self.process.fate.left = kill
        self.run(self._look())
        self.process.fate.left = None

    @rule(steps=st.sampled_from([1, 4]))
    def time_passes(self, steps: int) -> None:
        self.loop.ahead_s += steps * STEP_S
        self._stop_refused()

    @rule(lands=st.booleans())
    def another_writes_late(self, lands: bool) -> None:
        self.kubelet.stale = dict(self.kubelet.assigned)
        self.kubelet.stale_lands = lands

    @rule()
    def no_checkpoint_once(self) -> None:
        self.kubelet.unreadable = 1

    @rule()
    def another_is_admitted(self) -> None:
        self.kubelet.clean()
        self.kubelet.write()

    @rule()
    def plugin_restarts(self) -> None:
        self.process.end()
        self.process = Process(self)

    @rule(
        is_lost=st.booleans(),
        refuses=st.booleans(),
        is_first=st.booleans(),
        is_ready=st.booleans(),
        plugin_too=st.booleans(),
    )
    def kubelet_restarts(self, is_lost: bool, refuses: bool, is_first: bool, is_ready: bool, plugin_too: bool) -> None:
        """It may have lost its checkpoint, or refuse pods that run and stop them a little later."""
        if self.policy is ReleasePolicy.LAZY:  # such a kubelet gives devices twice, and who is lazy goes along
            is_lost = refuses = False
        self.kubelet.restart(is_lost=is_lost)
        self.kubelet.is_ready = is_ready
        self.refused_at = self.loop.time()
        if refuses:
            for pod in self.kubelet.pods.values():
                pod.is_active = pod.uid == PLUGIN
        if not is_first:
            self.kubelet.clean()
            self.kubelet.write()
        if plugin_too:
            self.plugin_restarts()
        self.run(self.process.custody.stream_opened())

    @rule()
    def sources_become_ready(self) -> None:
        self.kubelet.is_ready = True

    def _stop_refused(self) -> None:
        """What a kubelet refused has ended well before we trust it to have."""
        if self.loop.time() - getattr(self, "refused_at", 0.0) >= SETTLE_S - STEP_S:
            for pod in self.kubelet.pods.values():
                pod.runs = pod.runs and pod.is_active

    # --- in the end -------------------------------------------------------------------------------------------------

    def _check_liveness(self) -> None:
        for pod in self.kubelet.pods.values():
            pod.is_active = pod.uid == PLUGIN
            pod.runs = False
        self.kubelet.is_ready = True
        self.kubelet.unreadable = 0
        self.kubelet.stale = None
        self.run(self.process.custody.stream_opened())
        self.loop.ahead_s += SETTLE_S + GRACE_S
        for _ in range(3):
            self.run(self._look())
        reading = self.kubelet.read(self.process.custody._readings.life, self.loop.time())  # type: ignore[union-attr,arg-type]
        left = [use for use in self.process.custody.book.uses() if not doubt(use, reading)]
        assert not left
        assert not self.wrong
        doubted = {unit for use in self.process.custody.book.uses() for unit in use.units}
        assert self.dirty <= doubted


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_kill, error.exceptions))
    return isinstance(error, Killed | asyncio.CancelledError)


class LazyMachine(ReleaseMachine):
    policy = ReleasePolicy.LAZY


TestStrict = ReleaseMachine.TestCase
TestStrict.settings = settings(max_examples=100, stateful_step_count=30)
TestLazy = LazyMachine.TestCase
TestLazy.settings = settings(max_examples=40, stateful_step_count=30)
