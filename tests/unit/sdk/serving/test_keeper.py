"""What a keeper does when, in virtual time: a kubelet that accepts, refuses, forgets and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.model.ids import ResourceName
from plugbay.sdk.serving.handover import Handover
from plugbay.sdk.serving.keeper import STEADY_S, STREAM_PATIENCE_S, Keeper
from plugbay.sdk.serving.life import PluginLife
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.sdk.serving.states import LifeEvent, State
from plugbay.sdk.watching import PathChanges
from plugbay.wire.pluginregistration import RegistrationStatus
from tests.unit.sdk.virtual_loop import VirtualLoop

LONG_S = 3600.0
QUICK_S = 1.0
"""Longer than the back-off's first delays."""


class Plugin:
    """Stands for the service of a plugin and for its registrar.

    Attributes:
        open_streams: the streams that kubelets have open now.
        called_at: when a kubelet was called.
        called: is set then.
        answer: what a kubelet does in a call, and whether it accepts.
        ending: called when streams are to end.
        ended: the event that ended the keeping.
    """

    def __init__(self, root: Path, route: RegistrationRoute) -> None:
        self.life = PluginLife(ResourceName("example.com/gopher"))
        self.open_streams = 0
        self.called_at: list[float] = []
        self.called = asyncio.Event()
        self.answer: Callable[[], Awaitable[bool]] = self.accepts
        self.ending: Callable[[], object] = lambda: None
        self.ended: LifeEvent | None = None
        self.stopping = asyncio.Event()
        self.kubelet, self.socket = root / "kubelet.sock", root / "gopher.sock"
        self.changes = PathChanges(frozenset({self.kubelet, self.socket}))
        self.keeper = Keeper(
            self.life,
            self,  # type: ignore[arg-type]  # both stand-ins are this one
            self,  # type: ignore[arg-type]
            Handover(self.life.resource),
            kubelet=self.kubelet,
            route=route,
            stopping=self.stopping,
        )

    def state(self) -> State:
        return self.life.state

    # --- as the service ---------------------------------------------------------------------------------------------

    async def end_streams(self, timeout_s: float) -> None:
        self.ending()
        if self.open_streams:
            self.closes()

    # --- as the registrar -------------------------------------------------------------------------------------------

    async def register(self, endpoint: str) -> bool:
        self.called_at.append(asyncio.get_running_loop().time())
        self.called.set()
        return await self.answer()

    def absent(self) -> None:
        pass

    def answered(self, status: RegistrationStatus) -> None:
        pass

    # --- as a kubelet -----------------------------------------------------------------------------------------------

    async def accepts(self) -> bool:
        return True

    async def refuses(self) -> bool:
        return False

    async def reads(self) -> bool:
        """It asks for the list before it answers, as kubelets do."""
        self.opens()
        return True

    async def reads_while_asked_anew(self) -> bool:
        if len(self.called_at) == 1:
            self.keeper.ask_anew()
        return await self.reads()

    async def refuses_while_asked_anew(self) -> bool:
        self.keeper.ask_anew()
        return await self.refuses()

    async def hangs_up(self) -> bool:
        self.opens()
        self.closes()
        return True

    def opens(self) -> None:
        self.open_streams = 1
        self.keeper.streams_changed()

    def closes(self) -> None:
        self.open_streams = 0
        self.keeper.streams_changed()

    def starts(self) -> None:
        self.kubelet.unlink(missing_ok=True)
        self.kubelet.with_suffix(".fresh").touch()
        self.kubelet.with_suffix(".fresh").rename(self.kubelet)
        self.changes.tell(frozenset({self.kubelet}))

    # --- its life ---------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        self.ended = await self.keeper.keep([self.socket], self.changes)

    @property
    def waited_s(self) -> list[float]:
        return [after - before for before, after in zip(self.called_at, self.called_at[1:], strict=False)]


@asynccontextmanager
async def kept(root: Path, route: RegistrationRoute = RegistrationRoute.KUBELET) -> AsyncIterator[Plugin]:
    """A plugin whose socket is there, and which begins to be kept at the first wait."""
    plugin = Plugin(root, route)
    plugin.socket.touch()
    plugin.life.move(LifeEvent.SET_UP)
    plugin.keeper.begin()
    keeping = asyncio.ensure_future(plugin.keep())
    try:
        yield plugin
    finally:
        plugin.stopping.set()
        plugin.keeper.wake()
        await keeping


def run(loop: VirtualLoop, test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10 * LONG_S):  # nothing waits for ever
            await test()

    loop.run_until_complete(bounded())


def test_kubelet_that_reads_is_left_alone(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.reads
            plugin.starts()
            await asyncio.sleep(LONG_S)
            assert (plugin.state(), len(plugin.called_at)) == (State.STREAMING, 1)

    run(loop, test)


def test_kubelet_that_never_asks_for_the_list_is_called_again(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.starts()
            await asyncio.sleep(2.5 * (STREAM_PATIENCE_S + QUICK_S))
            assert len(plugin.called_at) == 3
            assert all(STREAM_PATIENCE_S < waited_s < STREAM_PATIENCE_S + QUICK_S for waited_s in plugin.waited_s)

    run(loop, test)


def test_kubelet_that_refuses_is_called_after_growing_delays(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.refuses
            plugin.starts()
            await asyncio.sleep(LONG_S)
            assert plugin.waited_s[0] < QUICK_S < 10 < plugin.waited_s[-1]
            assert plugin.state() is State.SERVING
            plugin.answer = plugin.reads
            plugin.starts()  # another one need not wait for what the first one said
            await asyncio.sleep(QUICK_S)
            assert plugin.state() is State.STREAMING

    run(loop, test)


@pytest.mark.parametrize("is_in_its_call", [True, False])
def test_kubelet_that_hangs_up_at_once_is_not_stormed(loop: VirtualLoop, tmp_path: Path, is_in_its_call: bool) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.hangs_up if is_in_its_call else plugin.reads
            plugin.starts()
            for _ in range(12):
                plugin.called.clear()
                await plugin.called.wait()
                await asyncio.sleep(STEADY_S / 4)
                if not is_in_its_call:
                    plugin.closes()
                assert plugin.state() is State.FORGOTTEN
            assert plugin.waited_s[-1] > 10

    run(loop, test)


def test_stream_that_lasted_ends_the_back_off(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.reads
            plugin.starts()
            for _ in range(10):
                await asyncio.sleep(2 * STEADY_S)
                assert plugin.state() is State.STREAMING
                plugin.closes()
            assert len(plugin.called_at) == 10

    run(loop, test)


def test_new_kubelet_is_called_though_a_stream_is_open(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.reads
            plugin.starts()
            await asyncio.sleep(QUICK_S)
            plugin.starts()
            await asyncio.sleep(QUICK_S)
            assert (plugin.state(), len(plugin.called_at)) == (State.STREAMING, 2)

    run(loop, test)


def test_registration_is_asked_for_anew(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.reads
            plugin.starts()
            await asyncio.sleep(LONG_S)
            plugin.keeper.ask_anew()
            await asyncio.sleep(QUICK_S)
            assert (plugin.state(), len(plugin.called_at)) == (State.STREAMING, 2)

    run(loop, test)


def test_registration_that_is_under_way_is_not_the_one_that_was_asked_for(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.answer = plugin.reads_while_asked_anew
            plugin.starts()
            await asyncio.sleep(LONG_S)
            assert (plugin.state(), len(plugin.called_at)) == (State.STREAMING, 2)

    run(loop, test)


def test_new_socket_that_is_asked_for_in_a_refused_call_does_not_wait(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.BOTH) as plugin:
            plugin.answer = plugin.refuses
            plugin.starts()
            await asyncio.sleep(LONG_S)
            plugin.answer = plugin.refuses_while_asked_anew
            plugin.called.clear()
            await plugin.called.wait()
            await asyncio.sleep(QUICK_S)
            assert (plugin.ended, plugin.state()) == (LifeEvent.RENEWAL, State.STARTING)

    run(loop, test)


def test_new_socket_that_is_asked_for_while_streams_end_is_made(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.BOTH) as plugin:
            plugin.answer = plugin.reads
            plugin.ending = plugin.keeper.ask_anew
            plugin.starts()
            await asyncio.sleep(QUICK_S)
            assert (plugin.ended, plugin.state()) == (LifeEvent.RENEWAL, State.STARTING)

    run(loop, test)


def test_socket_that_vanishes_ends_the_keeping(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path) as plugin:
            plugin.starts()
            await asyncio.sleep(QUICK_S)
            plugin.socket.unlink()
            plugin.changes.tell(frozenset({plugin.socket}))
            await asyncio.sleep(QUICK_S)
            assert (plugin.ended, plugin.state()) == (LifeEvent.SOCKET_LOST, State.STARTING)
            plugin.socket.touch()

    run(loop, test)


# --- a plugin watcher -----------------------------------------------------------------------------------------------


def found(plugin: Plugin) -> None:
    plugin.keeper.asked()
    plugin.keeper.answered(RegistrationStatus(True))


def test_watcher_is_waited_for_as_long_as_it_takes(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.WATCHER) as plugin:
            await asyncio.sleep(LONG_S)
            assert (plugin.ended, plugin.state()) == (None, State.SERVING)
            plugin.keeper.asked()
            plugin.keeper.answered(RegistrationStatus(False, "no"))
            await asyncio.sleep(LONG_S)
            assert (plugin.ended, plugin.state()) == (None, State.SERVING)

    run(loop, test)


def test_watcher_that_answers_before_anything_is_kept_is_heard(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.WATCHER) as plugin:
            found(plugin)
            plugin.opens()
            assert plugin.state() is State.STARTING
            await asyncio.sleep(QUICK_S)
            assert plugin.state() is State.STREAMING

    run(loop, test)


@pytest.mark.parametrize(
    "way", ["never-asks", "hangs-up", "hangs-up-before-it-answers", "is-asked-anew", "is-asked-anew-before-it-answers"]
)
def test_watcher_that_reads_nothing_sees_a_new_socket(loop: VirtualLoop, tmp_path: Path, way: str) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.WATCHER) as plugin:
            await asyncio.sleep(QUICK_S)
            plugin.keeper.asked()
            if way != "never-asks":
                plugin.opens()
            if way == "hangs-up-before-it-answers":
                plugin.closes()
            if way == "is-asked-anew-before-it-answers":
                plugin.keeper.ask_anew()
            plugin.keeper.answered(RegistrationStatus(True))
            if way == "hangs-up":
                plugin.closes()
            if way == "is-asked-anew":
                plugin.keeper.ask_anew()
            await asyncio.sleep(STREAM_PATIENCE_S if way == "never-asks" else 0)
            await asyncio.sleep(QUICK_S)
            assert (plugin.ended, plugin.state()) == (LifeEvent.RENEWAL, State.STARTING)

    run(loop, test)


def test_watcher_that_comes_back_before_that_keeps_the_socket(loop: VirtualLoop, tmp_path: Path) -> None:
    async def test() -> None:
        async with kept(tmp_path, RegistrationRoute.WATCHER) as plugin:
            await asyncio.sleep(QUICK_S)
            plugin.opens()
            found(plugin)
            plugin.closes()
            assert plugin.state() is State.FORGOTTEN
            plugin.opens()
            found(plugin)
            await asyncio.sleep(LONG_S)
            assert (plugin.ended, plugin.state()) == (None, State.STREAMING)

    run(loop, test)
