"""Plugins that the manager finds by their sockets in ``plugins_registry``.

Numbers are those of the scenario catalogue; a *recording* is of a kubelet that did the same.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from plugbay.errors import PathUnusable, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.snapshot import ResourceCount
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.ops.changes import Changes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_plugin import FakePlugin, fake_plugin, refusing
from plugbay.testing.fake_watched_plugin import FakeWatchedPlugin, fake_watched_plugin
from plugbay.wire.pluginregistration import PluginInfo, RegistrationStatus, plugin_registration_handler
from plugbay.wire.transport import serve_grpc

GOPHER = ResourceName("example.com/gopher")
REGISTERED = RegistrationStatus(True)
TWO = (Device("d0"), Device("d1"))
THREE = (*TWO, Device("d2"))
PREFIX = "RegisterPlugin error -- "


class SleepersClock(ManualClock):
    """Knows who sleeps for how long, so that a test can let exactly that time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep: list[float] = []
        self._news = Changes()

    async def sleep(self, seconds: float) -> None:
        self.asleep.append(seconds)
        self._news.notify()
        await super().sleep(seconds)

    async def until_asleep(self, seconds: float) -> None:
        """Wait until somebody sleeps so long."""
        async with asyncio.timeout(10):
            async for _ in self._news:
                if seconds in self.asleep:
                    return

    async def sleep_through(self, seconds: float) -> None:
        """Wait until somebody sleeps so long, and let the time pass."""
        await self.until_asleep(seconds)
        self.asleep.remove(seconds)
        self.advance(seconds)


@dataclass
class Bench:
    paths: KubeletPaths
    clock: SleepersClock
    manager: DeviceManager

    @property
    def registry(self) -> Path:
        return self.paths.plugins_registry

    @property
    def hidden(self) -> Path:
        """A socket that is not found until `show`, so that a plugin can be prepared."""
        return self.registry / ".hidden"

    def show(self, name: str = "p.sock") -> None:
        self.hidden.rename(self.registry / name)

    async def counts(self, capacity: int, allocatable: int, *, resource: str = GOPHER) -> None:
        wanted = ResourceCount(capacity, allocatable)
        async with asyncio.timeout(10):
            async for _ in self.manager.changes():
                if self.manager.resources().get(ResourceName(resource)) == wanted:
                    return


@asynccontextmanager
async def bench(root: Path) -> AsyncIterator[Bench]:
    paths, clock = KubeletPaths(root), SleepersClock()
    async with run_manager(ManagerConfig(paths, root / "state" / "m.db"), clock=clock) as manager:
        yield Bench(paths, clock, manager)


async def registered(plugin: FakeWatchedPlugin) -> None:
    await plugin.until(lambda p: p.statuses[-1:] == [REGISTERED])


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


# --- the catalogue --------------------------------------------------------------------------------------------------


async def test_s026_plugin_is_found_and_registered_on_its_own_socket(sockets: Path) -> None:
    """Recording 34, plugin one."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO) as plugin:
        await registered(plugin)
        await b.counts(2, 2)
        container = ContainerRequest(ContainerName("c"), ContainerKind.APP, {GOPHER: 1})
        await b.manager.admit(PodRequest(PodUid("u"), "default", "u", (container,)))
        assert plugin.plugin.allocated == [(DeviceId("d0"),)]
        assert (plugin.asked, plugin.statuses) == (1, [REGISTERED])


async def test_s027_an_endpoint_elsewhere_is_connected_to(sockets: Path) -> None:
    """Recording 34, plugin two, which offers a second version as well."""
    elsewhere = sockets / "elsewhere.sock"
    info = PluginInfo("DevicePlugin", GOPHER, str(elsewhere), ("v1", "v1beta1"))
    async with (
        bench(sockets) as b,
        fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO, device_socket=elsewhere, info=info) as plugin,
    ):
        await registered(plugin)
        await b.counts(2, 2)


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        pytest.param(
            PluginInfo("DevicePlugin", GOPHER, "", ("v1alpha", "v2")),
            "plugin validation failed with err: "
            "manager version, v1beta1, is not among plugin supported versions [v1alpha v2]",
            id="28-versions",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", GOPHER),
            "plugin validation failed with err: manager version, v1beta1, is not among plugin supported versions []",
            id="28-no-versions",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", "gpu", "", ("v1beta1",)),
            "plugin validation failed with err: "
            'invalid name of device plugin socket: the ResourceName "gpu" is invalid',
            id="29-name",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", "gpu", "", ("v2",)),
            "plugin validation failed with err: manager version, v1beta1, is not among plugin supported versions [v2]",
            id="versions-before-name",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", GOPHER, "p.sock", ("v1beta1",)),
            'plugin validation failed with err: endpoint "p.sock" is not an absolute path',
            id="relative-endpoint",
        ),
        *(
            pytest.param(
                PluginInfo(kind, GOPHER, "", ("v1beta1",)),
                f"no handler registered for plugin type: {kind} at socket REGISTRY/p.sock",
                id=f"30-type-{kind}",
            )
            for kind in ("Foo", "CSIPlugin", "DRAPlugin", "deviceplugin", "")
        ),
    ],
)
async def test_a_refusal_is_told_in_the_kubelets_words(sockets: Path, info: PluginInfo, problem: str) -> None:
    """Recording 35."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO, info=info) as plugin:
        text = PREFIX + problem.replace("REGISTRY", str(b.registry))
        await plugin.until(lambda p: p.statuses == [RegistrationStatus(False, text)])
        assert b.manager.resources() == {}


async def test_s030_attempts_come_with_growing_gaps(sockets: Path) -> None:
    async with bench(sockets) as b:
        info = PluginInfo("Foo", GOPHER)
        async with fake_watched_plugin(GOPHER, b.registry / "p.sock", info=info) as plugin:
            for times, delay_s in enumerate([0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122], 1):
                await b.clock.sleep_through(delay_s)
                assert (plugin.asked, len(plugin.statuses)) == (times, times)


async def test_s031_a_plugin_that_hangs_is_not_notified_and_disturbs_nobody(sockets: Path) -> None:
    async with bench(sockets) as b, AsyncExitStack() as stack:
        hanging = await stack.enter_async_context(fake_watched_plugin("example.com/hangs", b.hidden))
        hanging.info_answer = never
        b.show()
        await hanging.until(lambda p: p.asked == 1)
        plugin = await stack.enter_async_context(fake_watched_plugin(GOPHER, b.registry / "b.sock", TWO))
        await registered(plugin)
        await b.clock.sleep_through(0.5)
        await hanging.until(lambda p: p.asked == 2)
        assert hanging.statuses == []


async def test_s032_removing_the_socket_deregisters_at_once(sockets: Path) -> None:
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO) as plugin:
        await registered(plugin)
        await b.counts(2, 2)
        (b.registry / "p.sock").unlink()
        await b.counts(2, 0)
        await plugin.plugin.until_unwatched()
        assert plugin.asked == 1


@pytest.mark.parametrize("removed", [pytest.param(True, id="removed"), pytest.param(False, id="replaced")])
async def test_s033_a_socket_made_again_is_registered_again(sockets: Path, removed: bool) -> None:
    """Recording 34, plugin one."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO) as plugin:
        await registered(plugin)
        await b.counts(2, 2)
        if removed:
            (b.registry / "p.sock").unlink()
            await b.counts(2, 0)
        async with fake_watched_plugin(GOPHER, b.hidden, THREE) as new:
            b.show()
            await registered(new)
            await b.counts(3, 3)
            await plugin.plugin.until_unwatched()
            assert (plugin.asked, new.asked) == (1, 1)


async def test_s034_a_failing_notification_undoes_the_registration(sockets: Path) -> None:
    """Recording 35, plugin notify."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.hidden, TWO) as plugin:
        accept = plugin.notify_answer
        plugin.notify_answer = refusing("Unknown", "do not want")
        b.show()
        await b.clock.until_asleep(0.5)
        assert plugin.statuses == [REGISTERED]
        assert b.manager.resources()[GOPHER].allocatable == 0
        assert b.manager.endpoints.active(GOPHER) is None
        plugin.notify_answer = accept
        await b.clock.sleep_through(0.5)
        await b.counts(2, 2)
        assert plugin.asked == 2


async def test_s035_dot_names_are_ignored_and_sub_directories_are_not(sockets: Path) -> None:
    async with bench(sockets) as b, AsyncExitStack() as stack:
        dot = await stack.enter_async_context(fake_watched_plugin("example.com/dot", b.registry / ".x.sock"))
        (b.registry / "sub" / "deep").mkdir(parents=True)
        sub = await stack.enter_async_context(fake_watched_plugin(GOPHER, b.registry / "sub/deep/x.sock", TWO))
        await registered(sub)
        assert dot.asked == 0


async def test_s036_a_restarted_manager_finds_the_socket_again(sockets: Path) -> None:
    """Recording 52."""
    async with AsyncExitStack() as stack:
        async with bench(sockets) as b:
            plugin = await stack.enter_async_context(fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO))
            await registered(plugin)
            await b.counts(2, 2)
        async with bench(sockets) as b:
            await b.counts(2, 2)
        assert plugin.statuses == [REGISTERED, REGISTERED]


# --- failures -------------------------------------------------------------------------------------------------------


async def test_failing_options_are_told_and_tried_again(sockets: Path) -> None:
    """Recording 35, plugin options."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.hidden, TWO) as plugin:
        plugin.plugin.options_answer = RpcFailed("Internal", "no options")
        b.show()
        text = (
            "plugin registration failed with err: failed to get device plugin options: "
            "rpc error: code = Internal desc = no options"
        )
        await plugin.until(lambda p: p.statuses == [RegistrationStatus(False, PREFIX + text)])
        plugin.plugin.options_answer = PluginOptions()
        await b.clock.sleep_through(0.5)
        await registered(plugin)
        await b.counts(2, 2)


async def test_a_failed_registration_leaves_the_plugin_that_is_there_alone(sockets: Path) -> None:
    """Kubelet defect: the failure of a second registration makes it forget the first (spec 2.4)."""
    async with bench(sockets) as b:
        path = b.paths.device_plugins / "p.sock"
        info = PluginInfo("DevicePlugin", GOPHER, str(path), ("v1beta1",))
        async with fake_plugin(GOPHER, path, TWO) as first:
            await first.register(b.paths.registration_socket)
            await b.counts(2, 2)
            first.options_answer = RpcFailed("Internal", "not twice")
            async with fake_watched_plugin(GOPHER, b.registry / "p.sock", info=info) as second:
                await second.until(lambda p: len(p.statuses) == 1)
                assert not second.statuses[0].plugin_registered
            first.send(THREE)
            await b.counts(3, 3)


async def test_deregistration_leaves_a_newer_plugin_alone(sockets: Path) -> None:
    """Kubelet 1.36 drops whatever is connected for the resource; 1.37 does as we do."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO) as plugin:
        await registered(plugin)
        await b.counts(2, 2)
        async with fake_plugin(GOPHER, b.paths.device_plugins / "p.sock", THREE) as newer:
            await newer.register(b.paths.registration_socket)
            await b.counts(3, 3)
            (b.registry / "p.sock").unlink()
            await plugin.plugin.until_unwatched()
            newer.send([Device("d7")])
            await b.counts(1, 1)


async def test_a_plugin_back_where_a_dead_one_left_its_socket_does_not_wait(sockets: Path) -> None:
    async with bench(sockets) as b:
        info = PluginInfo("Foo", GOPHER)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(b.registry / "dead.sock"))
        async with fake_watched_plugin(GOPHER, b.hidden, info=info) as refused:
            b.show("refused.sock")
            await refused.until(lambda p: len(p.statuses) == 1)
            for name in ("dead.sock", "refused.sock"):
                async with fake_watched_plugin(GOPHER, b.hidden, TWO) as plugin:
                    b.show(name)
                    await registered(plugin)
                    assert b.clock.monotonic() == 0


async def test_removal_cuts_a_hanging_registration_short(sockets: Path) -> None:
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.hidden, TWO) as plugin:
        plugin.notify_answer = never
        b.show()
        await b.counts(2, 2)
        (b.registry / "p.sock").unlink()
        await b.counts(2, 0)
        assert 0.5 not in b.clock.asleep  # it did not end by failing after 5 s


class Garbage(FakePlugin):
    """Answers one method with bytes that are no message."""

    def __init__(self, socket: Path) -> None:
        super().__init__(GOPHER, socket, (), PluginOptions())
        self.asked = asyncio.Event()

    def handler(self, service: str, method: str) -> grpc.GenericRpcHandler:
        async def answer(_request: bytes, _context: object) -> bytes:
            self.asked.set()
            return b"\xff"

        return grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(answer)})


async def test_garbage_for_information_is_a_failed_attempt(sockets: Path) -> None:
    async with bench(sockets) as b:
        garbage = Garbage(b.registry / "p.sock")
        async with serve_grpc(garbage.socket, [garbage.handler("pluginregistration.Registration", "GetInfo")]):
            await b.clock.sleep_through(0.5)
            assert garbage.asked.is_set()
            async with fake_watched_plugin(GOPHER, b.registry / "good.sock", TWO) as plugin:
                await registered(plugin)


async def test_garbage_for_options_is_told(sockets: Path) -> None:
    async with bench(sockets) as b:
        garbage = Garbage(b.registry / "p.sock")
        watched = FakeWatchedPlugin(garbage, PluginInfo("DevicePlugin", GOPHER, "", ("v1beta1",)))
        options = garbage.handler("v1beta1.DevicePlugin", "GetDevicePluginOptions")
        async with serve_grpc(garbage.socket, [options, plugin_registration_handler(watched)]):
            await watched.until(lambda p: len(p.statuses) == 1)
        assert "rpc error: code = Internal desc = grpc: failed to unmarshal the received" in watched.statuses[0].error


async def test_many_sockets_at_once_are_all_registered(sockets: Path) -> None:
    async with bench(sockets) as b, AsyncExitStack() as stack:
        names = [f"example.com/r{number}" for number in range(30)]
        for name in names:
            path = b.registry / name.partition("/")[2]
            await stack.enter_async_context(fake_watched_plugin(name, path, TWO))
        for name in names:
            await b.counts(2, 2, resource=name)


# --- the directory --------------------------------------------------------------------------------------------------


async def test_the_directory_is_made_and_when_it_vanishes_made_again(sockets: Path) -> None:
    async with bench(sockets) as b:
        assert stat.S_IMODE(b.registry.stat().st_mode) == 0o750
        async with fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO):
            await b.counts(2, 2)
            async with watch_paths([b.registry]) as changes, asyncio.timeout(10):
                inode = b.registry.stat().st_ino
                b.registry.rename(sockets / "moved")
                async for _ in changes:
                    if b.registry.exists() and b.registry.stat().st_ino != inode:
                        break
            await b.counts(2, 0)
        async with fake_watched_plugin(GOPHER, b.registry / "p.sock", THREE):
            await b.counts(3, 3)
        shutil.rmtree(sockets / "moved")


async def test_a_directory_that_cannot_be_made_is_an_error(sockets: Path) -> None:
    (sockets / "plugins_registry").touch()
    with pytest.raises(PathUnusable, match="plugins_registry: cannot make this directory: File exists"):
        async with bench(sockets):
            pass
