from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.endpoints.watcher import Actual, PluginWatcher, WatchStep, _Socket, next_step
from plugbay.model.ids import ResourceName
from plugbay.testing.clock import ManualClock
from plugbay.wire.plugin_transport import PLAIN
from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginInfo, PluginRegistrationClient


def actual(incarnation: int) -> Actual:
    return Actual(incarnation, ResourceName("example.com/r"), Path("/p.sock"))


@pytest.mark.parametrize(
    ("desired", "known", "step"),
    [
        pytest.param(1, None, WatchStep.REGISTER, id="appeared"),
        pytest.param(1, actual(1), WatchStep.REST, id="registered"),
        pytest.param(None, actual(1), WatchStep.DEREGISTER, id="removed"),
        pytest.param(2, actual(1), WatchStep.DEREGISTER, id="made-again"),
        pytest.param(None, None, WatchStep.FORGET, id="gone"),
    ],
)
def test_step_brings_what_is_in_line_with_what_should_be(
    desired: int | None, known: Actual | None, step: WatchStep
) -> None:
    assert next_step(desired, known) is step


@given(st.lists(st.none() | st.integers(1, 5), min_size=1))
def test_steps_settle_on_the_last_wish(wishes: list[int | None]) -> None:
    known: Actual | None = None
    for desired in wishes:
        for _ in range(3):
            match next_step(desired, known):
                case WatchStep.REGISTER:
                    assert desired is not None
                    known = actual(desired)
                case WatchStep.DEREGISTER:
                    known = None
                case step:
                    assert step is (WatchStep.FORGET if desired is None else WatchStep.REST)
                    break
        assert (known.incarnation if known else None) == desired


class Connecting(Endpoints):
    """Connects to whatever it is told."""

    def __init__(self) -> None:
        pass

    async def connect(self, resource: ResourceName, socket: Path) -> None:
        pass


class Replaced(PluginRegistrationClient):
    """Its socket is another one, or gone, by the time it answers."""

    def __init__(self, socket: _Socket, then: int | None) -> None:
        super().__init__(socket.path)
        self.socket = socket
        self.then = then

    async def info(self, *, timeout_s: float) -> PluginInfo:
        self.socket.desired = self.then
        return PluginInfo(DEVICE_PLUGIN, "example.com/r", versions=("v1beta1",))


@pytest.mark.parametrize("then", [None, 2])
async def test_socket_that_changes_while_its_plugin_answers_is_dropped(then: int | None) -> None:
    """Changes are acted on a moment later, and an answer may come in between."""
    socket = _Socket(Path("/p.sock"), desired=1)
    watcher = PluginWatcher(socket.path.parent, Connecting(), ManualClock(), PLAIN)
    await watcher._connect(socket, 1, Replaced(socket, then))
    assert next_step(socket.desired, socket.actual) is WatchStep.DEREGISTER
