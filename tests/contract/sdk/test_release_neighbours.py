"""Two processes of one plugin, as while one replaces the other: each hears what the other has given and released.

They are two servers of this process here, with nothing in common but the files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from plugbay import Assignment, Device, Modes, ReleasePolicy
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.ids import ResourceName
from plugbay.sdk.serving.states import State
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, OTHER, Bench, bench, container, pod
from tests.contract.rigs.stock_release import OTHERS, Gophers, Pods, served, until_seen

PART = pod("part", container("app", other=1))


class Boards(Gophers):
    """One way of using a board; processes do not share ``modes``."""

    release_policy = ReleasePolicy.LAZY

    def __init__(self, modes: Modes, resource: str, *names: str) -> None:
        super().__init__(*names)
        self.modes = modes
        self.resource_name = ResourceName(resource)

    def discover(self) -> Sequence[Device]:
        return [Device(name) for name in self.names]

    async def release(self, assignment: Assignment) -> None:
        self.released.append(assignment)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition``, which something in a plugin's log comes with."""
    said = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: said.set()  # type: ignore[method-assign]
    logger = logging.getLogger("plugbay.sdk")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await said.wait()
                said.clear()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class Process:
    """Both ways, served together."""

    def __init__(self) -> None:
        self.modes = modes = Modes(hardware_of=lambda device: device.id.partition("-")[0])
        self.whole, self.part = Boards(modes, GOPHER, "f0"), Boards(modes, OTHER, "f0-a", "f0-b")

    @asynccontextmanager
    async def serving(self, root: Path) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for boards in (self.whole, self.part):
                server = await stack.enter_async_context(served(boards, root, 0.2))
                await until(lambda: server.state is State.STREAMING)  # noqa: B023  # waited for here
            yield


@asynccontextmanager
async def stock(root: Path) -> AsyncIterator[Bench]:
    async with (
        bench(root) as b,
        serve_pod_resources(b.paths.pod_resources_socket, b.manager.pod_resources(), Pods(OTHERS), clock=b.clock),
    ):
        yield b


async def test_earlier_process_releases_what_the_later_one_has_given(sockets: Path) -> None:
    """It has nothing in use itself, and learns of the other's use when that is written."""
    first, second = Gophers("a"), Gophers("a")
    async with stock(sockets) as b, served(first, sockets, 0.2) as earlier:
        await b.counts(1, 1)
        async with served(second, sockets, 0.2) as later:
            assert earlier.release is not None
            assert later.release is not None
            await until(lambda: later.state is State.STREAMING)
            await b.admit(pod("p"))
            [use] = later.release.ledger.uses()
            await until_seen(sockets, "a")
            await b.release("p")
            await first.until_told("release a")
            assert [each.key for each in first.released] == [use.key]
            assert second.told == []
            release = later.release
            await until(lambda: not release.ledger.uses())


async def test_hardware_is_free_in_both_when_one_has_released_it(sockets: Path) -> None:
    first, second = Process(), Process()
    async with stock(sockets) as b, first.serving(sockets):
        await b.counts(1, 1)
        await b.counts(2, 2, resource=OTHER)
        async with second.serving(sockets):
            await b.admit(pod("whole"))
            await b.counts(0, 0, resource=OTHER)
            await until_seen(sockets, "f0")
            await b.release("whole")
            await b.counts(2, 2, resource=OTHER)
            assert [each.units for each in first.whole.released] == [("f0",)]
            assert second.whole.released == []
            await b.admit(PART)
            await until(lambda: bool(first.modes.mode(OTHER).used))
