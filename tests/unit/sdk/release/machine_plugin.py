"""One process of a plugin, the real parts of it, with a SIGKILL between any two of its effects."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from plugbay import Assignment, Device, DevicePlugin, ReleasePolicy
from plugbay.errors import PathUnusable, PlugbayError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.model.podresources import PodResources
from plugbay.model.sharing import physical_id
from plugbay.sdk.author.release_settings import ReleaseSettings
from plugbay.sdk.hooks.turns import Turns
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.hooks import ReleaseHooks
from plugbay.sdk.release.ledger.journal import Journal, Rewritten
from plugbay.sdk.release.ledger.lines import Content, Record
from plugbay.sdk.release.release import Release
from plugbay.sdk.release.uses import Reading, Use
from plugbay.sdk.watching import PathChanges
from plugbay.wire.plugin_server import Caller
from tests.unit.sdk.release.machine_kubelet import RESOURCE, Kubelet, Refused
from tests.unit.sdk.release.machine_pods import Pod, Truth

UNITS = ("a::0", "a::1", "b", "c")
"""As the kubelet names them: ``a`` is offered twice."""
LONG_BYTES = 2_000
"""When a journal is rewritten; in production it is 32 times that."""


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Fate:
    """Kills the process just before one of its effects; nothing that it does later has any.

    Attributes:
        left: so many effects until then; None for never.
        tears: whether what is being written then gets half to the file.
        seen: the effects there were.
    """

    left: int | None = None
    tears: bool = False
    seen: list[str] = field(default_factory=list)
    died: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_dead(self) -> bool:
        return self.died.is_set()

    def effect(self, name: str) -> None:
        if self.left == 0:
            self.died.set()
        if self.is_dead:
            raise Killed
        if self.left is not None:
            self.left -= 1
        self.seen.append(name)


@dataclass
class Conduct:
    """How the author's hooks behave, the next time each; then they do well again.

    Attributes:
        allocate_s: how long one takes.
        refuses: whether allocate() fails, after it has begun.
        fails: so many times release() does.
    """

    allocate_s: float = 0.0
    release_s: float = 0.0
    refuses: bool = False
    fails: int = 0


@dataclass
class Disk:
    """Attributes:
    is_full: whether nothing can be written to a journal.
    synced: so much of the journal survives a power failure.
    """

    is_full: bool = False
    synced: int = 0

    def takes(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Journal(Journal):
    """Has effects, and is rewritten early."""

    fate: Fate
    disk: Disk

    def __enter__(self) -> Self:
        self.fate.effect("open the journal")
        return super().__enter__()

    @property
    def is_long(self) -> bool:
        return self.is_ours and self._size > LONG_BYTES

    def prepare(self, kept: Callable[[Content], Iterable[Record]]) -> Rewritten:
        self.fate.effect("rewrite the journal")
        try:
            self.disk.takes()
        except OSError as error:
            raise PathUnusable(str(self.path), str(error)) from error
        return super().prepare(kept)

    def replace(self, rewritten: Rewritten) -> bool:
        self.fate.effect("replace the journal")
        is_replaced = super().replace(rewritten)
        self.disk.synced = self._size
        self.fate.effect("have rewritten the journal")
        return is_replaced

    def sync(self) -> None:
        self.fate.effect("fsync")
        super().sync()
        self.disk.synced = self._size

    def _write(self, lines: bytes) -> None:
        try:
            self.fate.effect("append")
        except Killed:
            if self.fate.tears:
                super()._write(lines[: len(lines) // 2])
                self.fate.tears = False
            raise
        self.disk.takes()
        super()._write(lines)


class _Cleaner(DevicePlugin):
    resource_name = RESOURCE

    def __init__(self, process: Process) -> None:
        self.release_policy = ReleasePolicy.STRICT if process.truth.is_strict else ReleasePolicy.LAZY
        self._process = process

    def discover(self) -> Sequence[Device]:
        return [Device(name) for name in UNITS]

    async def release(self, assignment: Assignment) -> None:
        fate, conduct = self._process.fate, self._process.conduct
        fate.effect("release")
        with self._process.truth.releasing(assignment):
            release_s, conduct.release_s = conduct.release_s, 0.0
            await asyncio.sleep(release_s)
            fate.effect("have released")
            if conduct.fails:
                conduct.fails -= 1
                raise OSError("it hangs")


class _Stopper(_Cleaner):
    async def post_stop(self, assignment: Assignment) -> None:
        self._process.fate.effect("post-stop")
        self._process.truth.stopped(assignment.units)


class _Watches:
    """Stands for `Watches`: who wrote the checkpoint says so."""

    def __init__(self) -> None:
        self._readers: list[PathChanges] = []

    @contextmanager
    def watch(self, paths: Iterable[Path]) -> Iterator[PathChanges]:
        changes = PathChanges(frozenset(paths))
        self._readers.append(changes)
        try:
            yield changes
        finally:
            self._readers.remove(changes)

    def tell(self, path: Path) -> None:
        for reader in self._readers:
            reader.tell(frozenset({path}))


def proc_root(paths: KubeletPaths) -> Path:
    """Where control groups are found by."""
    return paths.root / "proc"


class Process:
    """
    Args:
        boot: names the boot of the machine.

    Attributes:
        died: set when it was killed.
    """

    def __init__(self, kubelet: Kubelet, truth: Truth, *, boot: str, fate: Fate, conduct: Conduct, disk: Disk) -> None:
        self.truth = truth
        self.fate = fate
        self.conduct = conduct
        self._kubelet = kubelet
        self._hooks = ReleaseHooks()
        self._watches = _Watches()
        self._calls: set[asyncio.Task[None]] = set()
        shared = Shared(ReleaseSettings(asks=True), kubelet.paths, proc_root=proc_root(kubelet.paths))
        shared.boot = boot
        shared.pod_lists._ask = self._pods  # type: ignore[method-assign]  # no socket to ask
        plugin = _Stopper(self) if truth.hears_stops else _Cleaner(self)
        self.release = Release(plugin, kubelet.paths, shared, self._hooks, starting=Turns(), resend=self._resend)
        self._read = self.release.evidence.read
        self.release.evidence.read = self._watched_read  # type: ignore[method-assign]  # an effect
        self.journal = _Journal(self.release.ledger.path.parent, RESOURCE, boot)
        self.journal.fate, self.journal.disk = fate, disk
        self.release.ledger._journal = self.journal
        self._is_ending = False

    async def _watched_read(self, uses: Collection[Use]) -> Reading:
        self.fate.effect("read")
        return await self._read(uses)

    # --- its life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """As `PluginServer` does, until it is cancelled or killed."""
        main = asyncio.ensure_future(self._run())
        death = asyncio.ensure_future(self.fate.died.wait())
        try:
            await asyncio.wait({main, death}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_ending = True
            self._kubelet.disconnect(self)
            tasks = {main, death, *self._calls}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if not main.cancelled() and (error := main.exception()) is not None and not is_kill(error):
                self.truth.wrong.append(f"the plugin ended by itself: {error!r}")
            self.release.close()

    async def _run(self) -> None:
        await self.release.open(self._watches, asyncio.Event())  # type: ignore[arg-type]  # a stand-in
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hooks.run())
            tasks.create_task(self.release.run())
            self.kubelet_is_up()
            await asyncio.Event().wait()

    @property
    def serves(self) -> bool:
        return self.release.ledger.is_open and not self.fate.is_dead and not self._is_ending

    def kubelet_is_up(self) -> None:
        """There is a socket to register at."""
        if self._kubelet.is_up:
            self._kubelet.spawn(self._kubelet.connect(self))

    def checkpoint_changed(self) -> None:
        self._watches.tell(self._kubelet.paths.checkpoint)

    # --- what it asks a kubelet -------------------------------------------------------------------------------------

    def _resend(self) -> int:
        self.fate.effect("send the list again")
        if self._kubelet.plugin is not self:
            return 0
        self._kubelet.spawn(self._kubelet.list_arrives(self))
        return 1

    async def _pods(self) -> tuple[PodResources, ...]:
        self.fate.effect("list pods")
        return await self._kubelet.listed_pods() if self._kubelet.is_up else ()

    # --- what a kubelet asks ----------------------------------------------------------------------------------------

    async def stream_opened(self, caller: Caller) -> None:
        if self.journal.disk.is_full:  # what this kubelet began with is known to this process only
            self.truth.unproven |= self.truth.dirty | self.truth.lost
        with suppress(Refused):
            await self._serve(self.release.stream_opened(caller))

    async def allocate(self, pod: Pod, units: Sequence[str], arrived: Callable[[], object]) -> None:
        await self._serve(self._allocate(pod, {DeviceId(unit): physical_id(unit) for unit in units}, arrived))

    async def pre_start(self, units: Iterable[str]) -> bool:
        try:
            await self._serve(self._pre_start([DeviceId(unit) for unit in units]))
        except Refused:
            return False
        return True

    async def _allocate(self, pod: Pod, units: Mapping[DeviceId, DeviceId], arrived: Callable[[], object]) -> None:
        arrived()
        async with self.release.giving(units):
            self.fate.effect("allocate")
            at = asyncio.get_running_loop().time()
            fresh = self.truth.given(pod, units, elsewhere=self._kubelet.units_of_others(pod), at=at)
            conduct = self.conduct
            allocate_s, refuses = conduct.allocate_s, conduct.refuses
            conduct.allocate_s, conduct.refuses = 0.0, False
            await asyncio.sleep(allocate_s)
            self.fate.effect("have allocated")
            if refuses:
                self.truth.dirty -= fresh
                raise PlugbayError
        self.fate.effect("answer Allocate")

    async def _pre_start(self, units: Collection[DeviceId]) -> None:
        if self.truth.hears_stops:  # else nobody wants to be called
            async with self.release.starting(units):
                self.fate.effect("pre-start")
            self.fate.effect("answer PreStartContainer")

    async def _serve(self, call: Coroutine[Any, Any, None]) -> None:
        """
        Raises:
            Refused: it failed, or the process has died.
        """
        running, death = asyncio.ensure_future(call), asyncio.ensure_future(self.fate.died.wait())
        self._calls.add(running)
        try:
            await asyncio.wait({running, death}, return_when=asyncio.FIRST_COMPLETED)
        finally:  # a kubelet that dies cancels its calls
            self._calls.discard(running)
            running.cancel()
            death.cancel()
            await asyncio.wait({running, death})
        error = None if running.cancelled() else running.exception()
        if error is not None and not is_kill(error) and not isinstance(error, PlugbayError):
            self.truth.wrong.append(f"a call failed: {error!r}")
        if running.cancelled() or error is not None:
            raise Refused(str(error))


def is_kill(error: BaseException) -> bool:
    """Whether it is what the end of a process leaves."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_kill, error.exceptions))
    return isinstance(error, Killed | asyncio.CancelledError)
