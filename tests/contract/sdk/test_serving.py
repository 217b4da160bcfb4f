"""A plugin against a scripted kubelet, over real sockets: every way their lives can cross."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay import Device, DevicePlugin, plugin, unhealthy
from plugbay.errors import DuplicateResource, InvalidResourceName, PathUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.process.runner import serve
from plugbay.sdk.serving.states import State
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs.logs import Log, log
from tests.contract.rigs.serving import DEADLINE_S, NAME, Things, ids, paths, serving

__all__ = ["log", "paths"]


async def test_plugin_serves_before_it_registers_and_lists_at_once(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a", "b"), paths.root):
        connection = await kubelet.next_registration()
        assert connection.registration.version == "v1beta1"
        assert connection.registration.resource_name == NAME
        await connection.until_devices("a", "b")
        assert {name: device.health for name, device in connection.devices.items()} == {"a": "Healthy", "b": "Healthy"}


async def test_kubelet_may_start_after_the_plugin(paths: KubeletPaths) -> None:
    async with serving(Things("a"), paths.root) as server:
        assert server.state in (State.SETTING_UP, State.STARTING)
        async with fake_kubelet(paths) as kubelet:
            await (await kubelet.next_registration()).until_devices("a")


async def test_plugin_registers_with_every_new_kubelet(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        endpoints = [(await kubelet.next_registration()).registration.endpoint]
        for _ in range(5):
            await kubelet.restart()
            connection = await kubelet.next_registration()
            await connection.until_devices("a")
            endpoints.append(connection.registration.endpoint)
        assert len(set(endpoints)) == len(endpoints), "every incarnation has a socket name of its own"


async def test_plugin_says_once_that_it_waits_for_a_kubelet(paths: KubeletPaths, log: Log) -> None:
    paths.device_plugins.mkdir(parents=True, exist_ok=True)
    waits = f"{NAME}: waiting for a kubelet at {paths.registration_socket}"
    async with serving(Things("a"), paths.root):
        await log.seen(waits)
        async with fake_kubelet(paths) as kubelet:
            await (await kubelet.next_registration()).until_devices("a")
            assert log.lines.count(waits) == 1


async def test_another_kubelet_socket_is_enough(paths: KubeletPaths) -> None:
    """A kubelet that does not clear the directory: our socket stays, the registration is repeated."""
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        first = await kubelet.next_registration()
        paths.registration_socket.rename(paths.root / "aside")
        (paths.root / "aside").rename(paths.registration_socket)
        assert (await kubelet.next_registration()).registration == first.registration


async def test_vanished_socket_is_replaced(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        first = await kubelet.next_registration()
        await first.until_devices("a")
        (paths.device_plugins / first.registration.endpoint).unlink()
        second = await kubelet.next_registration()
        assert second.registration.endpoint != first.registration.endpoint
        await second.until_devices("a")


async def test_lost_stream_means_registering_again(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        first = await kubelet.next_registration()
        await first.until_devices("a")
        kubelet.hang_up()
        await (await kubelet.next_registration()).until_devices("a")


async def test_refused_plugin_keeps_asking_and_says_so_once(
    paths: KubeletPaths, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_kubelet(paths) as kubelet, AsyncExitStack() as served:
        kubelet.refusal = "not you"
        await served.enter_async_context(serving(Things("a"), paths.root))
        for _ in range(4):
            await kubelet.next_attempt()
        kubelet.refusal = None
        await (await kubelet.next_registration()).until_devices("a")
    assert [record.getMessage() for record in caplog.records].count(
        f"{NAME}: the kubelet refuses the registration: not you"
    ) == 1


async def test_stopping_ends_the_stream_and_removes_the_socket(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet:
        async with serving(Things("a"), paths.root):
            connection = await kubelet.next_registration()
            await connection.until_devices("a")
        await connection.until_ended()


async def test_reload_looks_again_and_registers_again(paths: KubeletPaths) -> None:
    things = Things("a")
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root) as server:
        await (await kubelet.next_registration()).until_devices("a")
        things.devices = [Device("b")]
        server.reload()
        await (await kubelet.next_registration()).until_devices("b")


async def test_leftover_sockets_of_dead_incarnations_are_removed(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet:
        dead = paths.device_plugins / "example.com_thing-0123abcd.sock"
        foreign = paths.device_plugins / "example.com_other-0123abcd.sock"
        for path in (dead, foreign):
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))
        async with serving(Things("a"), paths.root):
            await kubelet.next_registration()
            assert not dead.exists()
            assert foreign.exists()
            foreign.unlink()


# --- discovery ------------------------------------------------------------------------------------------------------


async def test_refresh_sends_the_new_list(paths: KubeletPaths) -> None:
    things = Things("a")
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        connection = await kubelet.next_registration()
        await connection.until_devices("a")
        things.devices = [Device("a", health=unhealthy("Hot"), numa_nodes=[1]), Device("b")]
        things.refresh()
        await connection.until_devices("a", "b")
        hot, cool = connection.devices[DeviceId("a")], connection.devices[DeviceId("b")]
        assert (hot.health, hot.numa_nodes, cool.numa_nodes) == ("Unhealthy", (1,), None)


async def test_failing_discovery_keeps_the_last_list(paths: KubeletPaths, caplog: pytest.LogCaptureFixture) -> None:
    class Moody(Things):
        every = 0.01
        failures = 0

        def discover(self) -> Iterable[Device]:
            if self.failures:
                self.failures -= 1
                raise OSError("the bus is busy")
            return super().discover()

    moody = Moody("a")
    async with fake_kubelet(paths) as kubelet, serving(moody, paths.root):
        connection = await kubelet.next_registration()
        await connection.until_devices("a")
        moody.devices = [Device("b")]
        moody.failures = 3
        await connection.until_devices("b")
    assert sum("the bus is busy" in record.getMessage() for record in caplog.records) == 1


class OfEveryColour:
    """Ways to write a ``discover`` that fails in a function of its own."""

    def plain(self) -> Iterable[Device]:
        return look_at_the_bus()

    def generator(self) -> Iterable[Device]:
        yield from look_at_the_bus()

    async def asynchronous(self) -> Iterable[Device]:
        return look_at_the_bus()

    async def asynchronous_generator(self) -> AsyncIterator[Iterable[Device]]:
        yield look_at_the_bus()


def look_at_the_bus() -> list[Device]:
    raise OSError("the bus is busy")


@pytest.mark.parametrize("colour", ["plain", "generator", "asynchronous", "asynchronous_generator"])
async def test_log_of_a_failing_discovery_shows_where_in_the_authors_code(
    paths: KubeletPaths, log: Log, caplog: pytest.LogCaptureFixture, colour: str
) -> None:
    """And not the way there, which is longer and ours."""
    failing = type(
        "Failing", (DevicePlugin,), {"resource_name": "example.com/failing", "discover": getattr(OfEveryColour, colour)}
    )
    async with fake_kubelet(paths), serving(failing(), paths.root):
        await log.seen("the bus is busy")
    [told] = [record for record in caplog.records if "the bus is busy" in record.getMessage()]
    assert told.exc_info is not None
    assert [frame.name for frame in traceback.extract_tb(told.exc_info[2])] == [colour, "look_at_the_bus"]


async def test_duplicate_ids_keep_the_last_list(paths: KubeletPaths, log: Log) -> None:
    things = Things("a")
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        connection = await kubelet.next_registration()
        await connection.until_devices("a")
        things.devices = [Device("b"), Device("b")]
        things.refresh()
        await log.seen("device ID 'b' occurs twice")
        assert (await connection.client.allocate(ids("a"))) is not None


async def test_function_with_a_watched_directory(paths: KubeletPaths) -> None:
    root = paths.root / "gophers"

    @plugin("example.com/gopher", watch=root)
    def gophers(directory: Path) -> Iterator[Device]:
        for entry in sorted(directory.iterdir()):
            yield Device(entry.name, env={"Gopher": entry.name})

    async with fake_kubelet(paths) as kubelet, serving(gophers, paths.root):
        connection = await kubelet.next_registration()
        await connection.until_devices()
        root.mkdir()
        (root / "g2").touch()
        (root / "g1").touch()
        await connection.until_devices("g1", "g2")
        answer = await connection.client.allocate(ids("g2", "g1"))
        assert answer is not None
        assert answer.edits.env == {"Gopher": "g1,g2"}


@pytest.mark.parametrize("kind", ["async generator", "coroutine", "list", "async without parameter"])
async def test_discovery_in_every_colour(paths: KubeletPaths, kind: str) -> None:
    async def generate(_: object) -> AsyncIterator[Device]:
        yield Device("a")

    async def give(_: object) -> list[Device]:
        return [Device("a")]

    async def alone() -> list[Device]:
        return [Device("a")]

    bodies: dict[str, Callable[..., object]] = {
        "async generator": generate,
        "coroutine": give,
        "list": lambda _: [Device("a")],
        "async without parameter": alone,
    }
    made = plugin(NAME, watch=paths.root)(bodies[kind])
    async with fake_kubelet(paths) as kubelet, serving(made, paths.root):
        await (await kubelet.next_registration()).until_devices("a")


# --- several plugins, one process -----------------------------------------------------------------------------------


async def test_failing_plugin_disturbs_no_other(paths: KubeletPaths, log: Log) -> None:
    class Broken(Things):
        resource_name = "example.com/broken"
        is_up = False

        def set_up(self) -> None:
            self.is_up = True

        @property
        def every(self) -> float | None:  # type: ignore[override]  # breaks outside of what discover() may raise
            if self.is_up:
                raise RuntimeError("broken to the bone")
            return None

    async with fake_kubelet(paths) as kubelet:
        running = asyncio.ensure_future(serve([Broken("x"), Things("a")], paths=paths))
        connection = await kubelet.next_registration()
        assert connection.registration.resource_name == NAME
        await connection.until_devices("a")
        await log.seen("example.com/broken: failed; starting it again")
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            await running


async def test_bad_plugins_are_refused_before_anything_is_served(paths: KubeletPaths) -> None:
    paths.device_plugins.mkdir()
    with pytest.raises(DuplicateResource, match=r"two plugins serve example\.com/thing"):
        await serve([Things(), Things()], paths=paths)
    nameless = Things()
    nameless.resource_name = "thing"
    with pytest.raises(InvalidResourceName):
        await serve([nameless], paths=paths)
    assert list(paths.device_plugins.iterdir()) == []


async def test_directory_that_is_a_file_is_refused(paths: KubeletPaths) -> None:
    paths.device_plugins.touch()
    with pytest.raises(PathUnusable, match=r"device-plugins: is not a directory"):
        await serve([Things()], paths=paths)


# --- the process ----------------------------------------------------------------------------------------------------


async def test_served_directory_stops_on_sigterm_and_reloads_on_sighup(paths: KubeletPaths) -> None:
    gophers = paths.root / "gophers"
    gophers.mkdir()
    (gophers / "g1").touch()
    async with fake_kubelet(paths) as kubelet:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "plugbay", "--root", str(paths.root), "serve", "directory"),
            *("--resource", "example.com/gopher", "--path", str(gophers), "--env", "Gopher"),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            connection = await kubelet.next_registration()
            await connection.until_devices("g1")
            process.send_signal(signal.SIGHUP)
            connection = await kubelet.next_registration()
            await connection.until_devices("g1")
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, log.decode()
        assert b"Traceback" not in log
        assert not list(paths.device_plugins.glob("example*.sock"))
