"""The parts that all resources of a process share: when not to disturb a kubelet, and the list of its pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from plugbay.errors import RpcFailed
from plugbay.kernel.boot import read_boot_id
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.author.release_settings import ReleaseSettings
from plugbay.sdk.sockets import SocketId, identify

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.model.podresources import PodResources
    from plugbay.wire.plugin_server import Caller

logger = logging.getLogger(__name__)

STORED_S: Final = 0.5
"""The time from our answer until a kubelet has stored it for sure; one was seen to need a millisecond."""
_PROC: Final = Path("/proc")

AskedFor: TypeAlias = tuple[ResourceName, DeviceId]
"""A device as the kubelet names it."""


class Quiet:
    """Knows whether a kubelet is in the middle of an Allocate of this process: until it has stored what we answered.

    Attributes:
        begun: how many there were so far.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._running = 0
        self._last: frozenset[AskedFor] = frozenset()
        self._storing: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_quiet(self) -> bool:
        return self._idle.is_set()

    @contextmanager
    def allocating(self, asked: Collection[AskedFor] = ()) -> Iterator[None]:
        """Count an Allocate as under way while the block runs, so that no list of pods is asked for meanwhile."""
        self.begun += 1
        self._last = frozenset(asked)
        self._running += 1
        self._idle.clear()
        if self._storing is not None:
            self._storing.cancel()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._storing = asyncio.get_running_loop().call_later(STORED_S, self._idle.set)

    def stored(self, held: Collection[AskedFor]) -> None:
        """A container starts with these, so the kubelet has stored them; if they came last, it is quiet."""
        if self._storing is not None and not self._running and self._last and self._last <= set(held):
            self._storing.cancel()
            self._idle.set()

    async def until_quiet(self) -> None:
        await self._idle.wait()


class Shared:
    """The parts shared by the plugins of a process that are served to one kubelet.

    Attributes:
        boot: names this boot of the machine.
        proc_root: the proc file system that tells where control groups are.
    """

    def __init__(self, settings: ReleaseSettings, paths: KubeletPaths, *, proc_root: Path = _PROC) -> None:
        self.settings = settings
        self.proc_root = proc_root
        self.boot = read_boot_id(_PROC)
        self.quiet = Quiet()
        self.pod_lists = PodLists(paths, self.quiet, asks=settings.asks)


class PodLists:
    """The pods of a kubelet with their devices, asked for as rarely as possible.

    Asking makes a kubelet drop the assignments of pods that have ended, and so shows that they have ended. But if the
    kubelet waits for an Allocate of any plugin meanwhile, it may give a device to a second pod as well (spec 4.9.2). It
    is never asked during an Allocate of ours; other plugins' calls cannot be known. So only a manager is asked that
    says that its lists change nothing, as ours does, unless the operator allows more.

    Args:
        asks: whether any kubelet may be asked.

    Attributes:
        checks: for each resource, a check whether the kubelet has stored all that it was answered.
        asked_at: when the last list was asked for, in the event loop's time.
        renewed: is set when there is a newer list, and replaced.
        problem: why the last list could not be had.
    """

    def __init__(self, paths: KubeletPaths, quiet: Quiet, *, asks: bool = False) -> None:
        self._socket = paths.pod_resources_socket
        self._registration_socket = paths.registration_socket
        self._asks = asks
        self._harmless: SocketId | None = None  # the life of a manager whose lists change nothing
        self._quiet = quiet
        self._lock = asyncio.Lock()
        self.checks: dict[ResourceName, Callable[[], Awaitable[bool]]] = {}
        self.asked_at = float("-inf")
        self.renewed = asyncio.Event()
        self._pods: Sequence[PodResources] = ()
        self.problem = ""

    def heed(self, caller: Caller) -> None:
        """Heed what a kubelet says of itself, which has just asked for a list of devices."""
        self._harmless = identify(self._registration_socket) if caller.lists_only_read else None

    @property
    def may_be_asked(self) -> bool:
        """Whether asking can do no harm, or is allowed nevertheless."""
        return self._asks or (self._harmless is not None and self._harmless == identify(self._registration_socket))

    async def pods(self, *, asked_since: float) -> Sequence[PodResources]:
        """The pods by a list that was asked for at ``asked_since``, in the event loop's time, or later.

        There are none if the kubelet cannot be asked: see ``problem``. The list is older, see ``asked_at``, if an
        Allocate of ours has begun just now, or may not be stored yet.
        """
        async with self._lock:
            if self.asked_at < asked_since and await self._may_ask():
                self.asked_at = asyncio.get_running_loop().time()
                self._pods = await self._ask()
                self.renewed.set()
                self.renewed = asyncio.Event()
            return self._pods

    async def _may_ask(self) -> bool:
        for has_stored in tuple(self.checks.values()):
            if not await has_stored():
                return False
        return self._quiet.is_quiet  # last, as the others take their time

    async def _ask(self) -> Sequence[PodResources]:
        from plugbay.kubelet.podresources import PodResourcesClient  # imported here: needed once something is in use

        if not self.may_be_asked:
            return self._failed("the kubelet is not asked for its pods, as --release-ask is not given")
        try:
            if not await asyncio.to_thread(self._socket.exists):
                return self._failed(f"there is no {self._socket}")
            async with PodResourcesClient(self._socket) as client:
                pods = await client.list()
        except RpcFailed as error:
            return self._failed(f"PodResources does not answer: {error}")
        self.problem = ""
        return pods

    def _failed(self, problem: str) -> Sequence[PodResources]:
        if problem != self.problem:  # once, not at every look
            logger.warning(
                "%s; so the kubelet notices that a pod has ended only when the next pod with devices comes", problem
            )
        self.problem = problem
        return ()
