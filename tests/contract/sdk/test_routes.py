"""Both ways to get registered, against our manager and against hand-made plugin watchers."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from plugbay import Device, DevicePlugin
from plugbay.errors import RegistrationRefused
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.process.endings import Endings, OnRefusal
from plugbay.sdk.process.runner import serve
from plugbay.sdk.serving import keeper, registration
from plugbay.sdk.serving.reporting import ServingReport
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.serving.states import State
from plugbay.testing.fakes.kubelet import fake_kubelet
from plugbay.wire import plugin_versions
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.pluginregistration import PluginInfo, PluginRegistrationClient, RegistrationStatus
from plugbay.wire.registration import Registration, registration_handler
from tests.contract.rigs.grpcio import open_channel
from tests.contract.rigs.manager import GOPHER, bench
from tests.contract.rigs.serving import running
from tests.contract.rigs.wire import connected

DEADLINE_S = 30
FOUND = pytest.mark.parametrize(
    "route", [RegistrationRoute.WATCHER, RegistrationRoute.BOTH], ids=lambda route: route.value
)
EACH = pytest.mark.parametrize("route", RegistrationRoute, ids=lambda route: route.value)


class Gophers(DevicePlugin):
    resource_name = GOPHER

    def discover(self) -> Iterable[Device]:
        return [Device("g1"), Device("g2")]


@asynccontextmanager
async def serving(root: Path, route: RegistrationRoute) -> AsyncIterator[PluginServer]:
    paths = KubeletPaths(root)
    async with running(PluginServer(Gophers(), paths, route)) as server:
        yield server
    assert gophers_in(paths.device_plugins) + gophers_in(paths.plugins_registry) == []


def gophers_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("example.com_gopher-*.sock"))


async def until_socket(directory: Path, is_it: Callable[[Path], bool] = lambda _: True) -> Path:
    """The plugin's socket that ``is_it``, as soon as it is there."""
    async with watch_paths([directory]) as changes, asyncio.timeout(DEADLINE_S):
        while True:
            for path in gophers_in(directory):
                if is_it(path):
                    return path
            await anext(aiter(changes))


async def until_kept(server: PluginServer, moves: Moves) -> Path:
    """The plugin's socket in the registry, served and watched over: it is there a moment before that."""
    await moves.until(lambda: server.state is State.SERVING)
    [path] = gophers_in(server.paths.plugins_registry)
    return path


class Moves(logging.Handler):
    """Notices what the SDK logs, and so each change of state."""

    def __init__(self) -> None:
        super().__init__()
        self._happened = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._happened.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._happened.clear()
                await self._happened.wait()


@pytest.fixture
def moves() -> Iterator[Moves]:
    moves, logger = Moves(), logging.getLogger("plugbay.sdk")
    logger.addHandler(moves)
    logger.setLevel(logging.DEBUG)
    yield moves
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(moves)


def watcher_at(path: Path) -> AbstractAsyncContextManager[PluginRegistrationClient]:
    return connected(PluginRegistrationClient(path))


# --- against our manager --------------------------------------------------------------------------------------------


@EACH
async def test_each_route_leads_to_a_plugin_that_is_ready(
    sockets: Path, moves: Moves, route: RegistrationRoute
) -> None:
    async with bench(sockets) as b, serving(sockets, route) as server:
        await b.counts(2, 2)
        await moves.until(lambda: server.report.is_ready)
        assert (server.report.reason, server.report.refusal) == ("", "")
        assert [len(gophers_in(path)) for path in (b.paths.device_plugins, b.registry)] == [route.calls, route.is_found]


@EACH
async def test_each_route_outlives_managers(sockets: Path, moves: Moves, route: RegistrationRoute) -> None:
    (sockets / "device-plugins").mkdir()
    (sockets / "plugins_registry").mkdir()
    async with serving(sockets, route) as server:
        for count in range(1, 6):
            async with bench(sockets) as b:
                await b.counts(2, 2)
                await moves.until(lambda: server.report.is_ready)
            await moves.until(lambda: not server.report.is_ready)
            assert server.report.registrations >= count


@FOUND
async def test_found_socket_that_vanishes_is_made_anew(sockets: Path, route: RegistrationRoute) -> None:
    async with bench(sockets) as b, serving(sockets, route):
        await b.counts(2, 2)
        first = await until_socket(b.registry)
        first.unlink()
        await until_socket(b.registry, lambda path: path != first)
        await b.counts(2, 2)


@EACH
async def test_version_that_a_kubelet_does_not_speak_is_its_refusal(
    sockets: Path, moves: Moves, route: RegistrationRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "API_VERSIONS", ("v9", "v8"))
    words = {
        RegistrationRoute.KUBELET: 'requested API version "v8" is not supported by kubelet. '
        'Supported version is ["v1beta1"]',
        RegistrationRoute.WATCHER: "RegisterPlugin error -- plugin validation failed with err: "
        "manager version, v1beta1, is not among plugin supported versions [v9 v8]",
    }
    expected = words.get(route) or words.values()
    async with bench(sockets), serving(sockets, route) as server:
        await moves.until(lambda: bool(server.report.refusal))
        assert server.report.refusal in ([expected] if isinstance(expected, str) else expected)
        assert server.report.reason == f"refused by the kubelet: {server.report.refusal}"
        assert (server.report.state, server.report.registrations) == (State.SERVING, 0)


@EACH
async def test_the_best_version_that_both_speak_is_taken(
    sockets: Path, moves: Moves, route: RegistrationRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "API_VERSIONS", ("v9", "v1beta1"))
    async with bench(sockets) as b, serving(sockets, route) as server:
        await b.counts(2, 2)
        await moves.until(lambda: server.report.is_ready)
        assert server.report.refusal == ""


async def test_every_version_is_served_and_a_kubelet_that_has_only_the_newer_one_gets_it(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tomorrow's, say, in which the options are another message."""

    def of_tomorrow(*_: object) -> Service:
        async def options(_: bytes) -> bytes:
            return b"of tomorrow"

        return Service("v2.DevicePlugin", {"GetDevicePluginOptions": Unary(options)})

    monkeypatch.setitem(cast("dict[str, object]", plugin_versions._HANDLERS), "v2", of_tomorrow)
    monkeypatch.setattr(registration, "API_VERSIONS", tuple(plugin_versions._HANDLERS))
    paths = KubeletPaths(sockets)
    paths.device_plugins.mkdir()
    asked: asyncio.Queue[Registration] = asyncio.Queue()

    async def accept(registration: Registration) -> None:
        asked.put_nowait(registration)
        if registration.version != "v2":
            raise RegistrationRefused("only v2 here")

    async with (
        serve_grpc(paths.registration_socket, [registration_handler(accept)]),
        serving(sockets, RegistrationRoute.KUBELET),
        asyncio.timeout(DEADLINE_S),
    ):
        assert [(await asked.get()).version for _ in range(2)] == ["v1beta1", "v2"]
        [socket] = gophers_in(paths.device_plugins)
        async with open_channel(socket) as channel:
            for version, answer in (("v1beta1", b""), ("v2", b"of tomorrow")):
                call: Any = channel.unary_unary(f"/{version}.DevicePlugin/GetDevicePluginOptions")
                assert await call(b"") == answer


@EACH
async def test_refusal_by_any_route_is_the_end_when_asked_for(
    sockets: Path, route: RegistrationRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "API_VERSIONS", ("v9",))
    async with bench(sockets) as b, asyncio.timeout(DEADLINE_S):
        with pytest.raises(RegistrationRefused, match=r"^example\.com/gopher: registration refused: .*v1beta1"):
            await serve([Gophers()], paths=b.paths, endings=Endings(OnRefusal.EXIT), route=route)


OF_THE_COMMAND = (
    *("-m", "plugbay", "--root", ".", "serve", "directory", "--route", "watcher"),
    *("--resource", GOPHER, "--path", ".", "--env", "G"),
)
OF_A_FILE = """
from plugbay import plugin, run
run(plugin("example.com/gopher")(lambda: []), argv=["--root", ".", "--route", "watcher"])
"""


@pytest.mark.parametrize("arguments", [OF_THE_COMMAND, ("-c", OF_A_FILE)], ids=["command", "file"])
async def test_process_takes_the_route(sockets: Path, arguments: Sequence[str]) -> None:
    async with bench(sockets) as b:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stderr=asyncio.subprocess.PIPE, cwd=sockets
        )
        try:
            assert process.stderr is not None
            async with asyncio.timeout(DEADLINE_S):
                async for line in process.stderr:
                    if "example.com/gopher: registered by the kubelet's plugin watcher" in line.decode():
                        break
            assert gophers_in(b.paths.device_plugins) == []
        finally:
            process.terminate()
            _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 0
        assert "Traceback" not in log.decode(), log.decode()


# --- by hand --------------------------------------------------------------------------------------------------------


async def test_plugin_says_who_it_is(sockets: Path) -> None:
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    async with serving(sockets, RegistrationRoute.WATCHER):
        async with watcher_at(await until_socket(registry)) as watcher:
            assert await watcher.info(timeout_s=DEADLINE_S) == PluginInfo("DevicePlugin", GOPHER, "", ("v1beta1",))
        assert not (sockets / "device-plugins").exists()


async def test_plugin_waits_for_the_registry(sockets: Path, moves: Moves) -> None:
    registry = KubeletPaths(sockets).plugins_registry
    async with serving(sockets, RegistrationRoute.WATCHER) as server:
        await moves.until(lambda: server.state is State.STARTING)
        registry.mkdir()
        await until_socket(registry)


async def test_refusal_is_told_once_and_forgotten_when_it_ends(
    sockets: Path, moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    async with serving(sockets, RegistrationRoute.WATCHER) as server:
        path = await until_kept(server, moves)
        client = PluginClient(path)
        lists = client.lists()
        async with watcher_at(path) as watcher:
            for _ in range(3):
                await watcher.notify(RegistrationStatus(False, "not you"), timeout_s=DEADLINE_S)
            assert report_of(server) == (State.SERVING, 0, "not you")
            await anext(lists)
            assert report_of(server) == (State.SERVING, 0, "not you"), "a stream alone is no registration"
            await watcher.notify(RegistrationStatus(True), timeout_s=DEADLINE_S)
            assert report_of(server) == (State.STREAMING, 1, "")
            assert server.report.in_state_s < DEADLINE_S
        await lists.aclose()
        await client.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"{GOPHER}: the kubelet refuses the registration: not you"
    ]


def report_of(server: PluginServer) -> tuple[State, int, str]:
    report: ServingReport = server.report
    return report.state, report.registrations, report.refusal


async def test_watcher_that_never_asks_for_the_list_sees_a_new_socket(
    sockets: Path, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "STREAM_PATIENCE_S", 0.05)
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    async with serving(sockets, RegistrationRoute.WATCHER) as server:
        first = await until_kept(server, moves)
        async with watcher_at(first) as watcher:
            await watcher.notify(RegistrationStatus(True), timeout_s=DEADLINE_S)
        await until_socket(registry, lambda path: path != first)
        assert len(gophers_in(registry)) == 1


async def test_watcher_that_hangs_up_sees_one_new_socket(sockets: Path, moves: Moves) -> None:
    """A kubelet that lives on takes us for registered; one that died asks on its own, so that one is enough."""
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    async with serving(sockets, RegistrationRoute.WATCHER) as server:
        first = await until_kept(server, moves)
        async with watcher_at(first) as watcher:
            client = PluginClient(first)
            lists = client.lists()
            await anext(lists)
            await watcher.notify(RegistrationStatus(True), timeout_s=DEADLINE_S)
            await lists.aclose()
            await client.close()
        second = await until_socket(registry, lambda path: path != first)
        async with watcher_at(second) as watcher:  # nobody registers, and nothing happens: asking goes on working
            await asyncio.sleep(0.3)  # longer than the back-off's first delays, in which it might make another one
            assert (await watcher.info(timeout_s=DEADLINE_S)).name == GOPHER
        assert (gophers_in(registry), server.state) == ([second], State.SERVING)


@FOUND
async def test_watcher_may_be_faster_than_we_are(
    sockets: Path, moves: Moves, monkeypatch: pytest.MonkeyPatch, route: RegistrationRoute
) -> None:
    """It has found the first socket, and registered it, before we have made the last and begin to look after them."""
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    has_registered = asyncio.Event()

    @asynccontextmanager
    async def serve_slowly(path: Path, *arguments: Any, **options: Any) -> AsyncIterator[None]:
        async with serve_grpc(path, *arguments, **options):
            if path.parent == registry:
                await has_registered.wait()
            yield

    monkeypatch.setattr("plugbay.sdk.serving.server.serve_grpc", serve_slowly)
    async with fake_kubelet(KubeletPaths(sockets)) as kubelet, serving(sockets, route) as server:
        kubelet.hangs = True
        path = await until_socket(registry)
        client = PluginClient(path)
        lists = client.lists()
        async with watcher_at(path) as watcher:
            assert (await watcher.info(timeout_s=DEADLINE_S)).name == GOPHER
            await watcher.notify(RegistrationStatus(True), timeout_s=DEADLINE_S)
            await anext(lists)
        has_registered.set()
        await moves.until(lambda: server.state is not State.STARTING)
        assert report_of(server) == (State.STREAMING, 1, "")
        await lists.aclose()
        await client.close()


async def test_reload_makes_a_new_socket(sockets: Path, moves: Moves) -> None:
    registry = KubeletPaths(sockets).plugins_registry
    registry.mkdir()
    async with serving(sockets, RegistrationRoute.WATCHER) as server:
        first = await until_kept(server, moves)
        server.reload()
        await until_socket(registry, lambda path: path != first)


@FOUND
async def test_leftovers_are_removed_from_the_registry(sockets: Path, route: RegistrationRoute) -> None:
    async with fake_kubelet(KubeletPaths(sockets)) as kubelet:
        registry = kubelet.paths.plugins_registry
        registry.mkdir()
        dead, foreign = registry / "example.com_gopher-0123abcd.sock", registry / "csi.example.com-reg.sock"
        plain = registry / "example.com_gopher-89abcdef.sock"
        plain.touch()
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
            one.bind(str(dead))
            other.bind(str(foreign))
        async with serving_beside(plain, sockets, route):
            await until_socket(registry, lambda path: path not in (dead, plain))
            assert [dead.exists(), foreign.exists(), plain.exists()] == [False, True, True]


@asynccontextmanager
async def serving_beside(file: Path, root: Path, route: RegistrationRoute) -> AsyncIterator[None]:
    """As `serving`, with a file whose name looks as if it were ours."""
    async with serving(root, route):
        try:
            yield
        finally:
            file.unlink()
