"""Plugins that the manager finds by their sockets in ``plugins_registry``, when something goes wrong.

The rest is in ``scenarios/test_11_3_watcher_route.py``. A *recording* is of a kubelet that did the same.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable, RpcCode, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.model.devices import Device, PluginOptions
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.testing.fakes.watched_plugin import FakeWatchedPlugin, fake_watched_plugin
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.pluginregistration import PluginInfo, RegistrationStatus, plugin_registration_handler
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, bench, never, registered

TWO = (Device("d0"), Device("d1"))
THREE = (*TWO, Device("d2"))
PREFIX = "RegisterPlugin error -- "


# --- failures -------------------------------------------------------------------------------------------------------


async def test_failing_options_are_told_and_tried_again(sockets: Path) -> None:
    """Recording 35, plugin options."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.hidden, TWO) as plugin:
        plugin.plugin.options_answer = RpcFailed(RpcCode.INTERNAL, "no options")
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
            first.options_answer = RpcFailed(RpcCode.INTERNAL, "not twice")
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

    def handler(self, service: str, method: str) -> Service:
        async def answer(_: bytes) -> bytes:
            self.asked.set()
            return b"\xff"

        return Service(service, {method: Unary(answer)})


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
            async with watch_paths([b.registry]) as changes, asyncio.timeout(DEADLINE_S):
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
