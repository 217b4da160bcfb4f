"""A kubelet that never tells when a use of devices is over: our manager without its gate, on a disk that may spoil what
it writes, in a time that passes when a test says so.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import CorruptCheckpoint
from plugbay.kernel.files import write_durably
from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.checkpoint.rendering import Renderer
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.podresources import PodSource, serve_pod_resources
from plugbay.model.devices import Device
from plugbay.model.ids import ResourceName
from plugbay.sdk.release.evidence.readings import holders
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import fake_plugin

OTHER: Final = ResourceName("example.com/other")
"""Another plugin's, of which ours know nothing."""
OTHERS: Final = (Device("o1"), Device("o2"))
DEADLINE_S: Final = 30.0
CONTENT_OF_ANOTHER: Final = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'
"""A valid checkpoint that names nothing (spec 7.3)."""


class Loop(asyncio.SelectorEventLoop):
    """Its time can be moved on. It has one thread for what blocks, so that one can wait until all before is done."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self.set_default_executor(ThreadPoolExecutor(1))

    def time(self) -> float:
        return super().time() + self.ahead_s


class Fault(Enum):
    """What is wrong with the checkpoints that are written."""

    NONE = auto()
    LATE = auto()
    """They are not there in time."""
    MISSING = auto()
    """Somebody removes them."""
    CORRUPT = auto()
    ANOTHERS = auto()
    """They are another kubelet's."""


class Disk:
    """What becomes of a checkpoint on its way to its place.

    Attributes:
        is_asked: whether a list that was sent again brings about the next one.
        written: told after each write.
    """

    def __init__(self) -> None:
        self.fault = Fault.NONE
        self.is_asked = False
        self._stale: bytes | None = None
        self._landing = threading.Lock()
        self.written: Callable[[], object] = lambda: None

    def write(self, path: Path, content: bytes) -> None:
        """Stands for `write_durably`."""
        with self._landing:
            stale, self._stale = self._stale, None
            if self.is_asked:
                self.is_asked, content = False, stale or content
            try:
                self._write(path, content)
            finally:
                self.written()

    def delay(self, content: bytes | None) -> None:
        """Another writer has ``content`` in hand from now on; it lands when the next one was asked for (spec 7.1).

        It is the only one that can be late: a write of our manager that was under way takes its place.
        """
        with self._landing:
            self._stale = content

    @contextmanager
    def holding_still(self) -> Iterator[None]:
        """Let nothing land while the block runs; what is to be written meanwhile lands right after it."""
        with self._landing:
            yield

    def _write(self, path: Path, content: bytes) -> None:
        match self.fault:
            case Fault.LATE:
                return
            case Fault.MISSING:
                path.unlink(missing_ok=True)
                return
            case Fault.CORRUPT:
                content = content.replace(b'"Checksum":', b'"Checksum":1')
            case Fault.ANOTHERS:
                content = CONTENT_OF_ANOTHER
        write_durably(path, content)


class StockKubelet:
    """
    Args:
        pods: for PodResources.

    Attributes:
        manager: of now; pods are admitted and released here.
    """

    manager: DeviceManager

    def __init__(self, root: Path, pods: PodSource, patches: pytest.MonkeyPatch) -> None:
        self.paths = KubeletPaths(root)
        self._config = ManagerConfig(self.paths, root / "state" / "manager.db")
        self._clock = ManualClock()
        self._disk = Disk()
        self._pods = pods
        self._patches = patches
        self._up = AsyncExitStack()
        patches.setattr("plugbay.manager.checkpoint.view.write_durably", self._disk.write)
        self.spoil(Fault.NONE)

    def pass_time(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead_s += seconds
        self._clock.advance(seconds)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.manager.changes():
                if condition():
                    return

    # --- its checkpoint ---------------------------------------------------------------------------------------------

    def spoil(self, fault: Fault) -> None:
        """What it writes from now on."""
        self._disk.fault = fault
        comes = fault not in (Fault.LATE, Fault.MISSING)
        self._patches.setattr("plugbay.sdk.release.evidence.readings.DEADLINE_S", DEADLINE_S if comes else 0.02)

    async def write_late(self) -> None:
        """Another writer of the checkpoint has what is true now in hand, and ours has nothing else."""
        if self._disk.fault is Fault.NONE:
            loop, written = asyncio.get_running_loop(), asyncio.Event()
            self._disk.written = lambda: loop.call_soon_threadsafe(written.set)
            self._other.send(OTHERS)  # as it is: it is written again
            async with asyncio.timeout(DEADLINE_S):
                await written.wait()
            self._disk.written = lambda: None
        self._disk.delay(Renderer().render(self.manager.holdings()).content)

    def heal(self) -> None:
        self.spoil(Fault.NONE)
        self._disk.delay(None)

    def with_disk_still(self) -> AbstractContextManager[None]:
        """Keep the checkpoint as it is while the block runs, which must not stop this kubelet: it writes as it ends."""
        return self._disk.holding_still()

    def on_disk(self, resource: ResourceName) -> set[str]:
        """The devices that somebody holds by the checkpoint that is there."""
        try:
            data = load(self.paths.checkpoint.read_bytes(), source=str(self.paths.checkpoint))
        except (OSError, CorruptCheckpoint):
            return set()
        return set(holders(data, resource))

    # --- its lives --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.manager = await self._up.enter_async_context(run_manager(self._config, clock=self._clock))
        hurry = self.manager.endpoints.on_repeated_list

        def asked() -> None:
            self._disk.is_asked = True
            hurry()

        self.manager.endpoints.on_repeated_list = asked
        reader = self.manager.pod_resources()
        await self._up.enter_async_context(
            serve_pod_resources(self.paths.pod_resources_socket, reader, self._pods, clock=self._clock)
        )
        self._other = await self._up.enter_async_context(
            fake_plugin(OTHER, self.paths.device_plugins / "other.sock", OTHERS)
        )
        await self._other.register(self.paths.registration_socket)

    async def stop(self) -> None:
        self.heal()  # or what it writes last would look like another program's
        await self._up.aclose()

    def lose_all(self) -> None:
        """While it is stopped: it begins with nothing."""
        for path in (self.paths.checkpoint, *self._config.store.parent.iterdir()):
            path.unlink()

    def rewrite(self) -> None:
        """While it is stopped: at our next sight of it, it has written its checkpoint already."""
        if not self.paths.checkpoint.exists():
            self.paths.checkpoint.write_bytes(CONTENT_OF_ANOTHER)
        later = self._clock.now().timestamp() + 1e9
        os.utime(self.paths.checkpoint, (later, later))
