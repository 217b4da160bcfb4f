"""Spec 11.3: plugins that the manager finds by their sockets. A *recording* is of a kubelet that did the same."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.errors import RpcCode
from plugbay.manager.endpoints import watcher
from plugbay.model.devices import Device
from plugbay.testing.fakes.plugin import refusing
from plugbay.testing.fakes.watched_plugin import fake_watched_plugin
from plugbay.wire.pluginregistration import PluginInfo, RegistrationStatus
from tests.contract.rigs.manager import GOPHER, REGISTERED, bench, never, pod, registered

TWO = (Device("d0"), Device("d1"))
THREE = (*TWO, Device("d2"))
PREFIX = "RegisterPlugin error -- "


async def test_s026_plugin_is_found_and_registered_on_its_own_socket(sockets: Path) -> None:
    """Recording 34, plugin one."""
    async with bench(sockets) as b, fake_watched_plugin(GOPHER, b.registry / "p.sock", TWO) as plugin:
        await registered(plugin)
        await b.counts(2, 2)
        await b.admit(pod("p"))
        assert plugin.plugin.allocated == [("d0",)]
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
            id="s028-versions",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", GOPHER),
            "plugin validation failed with err: manager version, v1beta1, is not among plugin supported versions []",
            id="s028-no-versions",
        ),
        pytest.param(
            PluginInfo("DevicePlugin", "gpu", "", ("v1beta1",)),
            "plugin validation failed with err: "
            'invalid name of device plugin socket: the ResourceName "gpu" is invalid',
            id="s029-name",
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
                id=f"s030-type-{kind}",
            )
            for kind in ("Foo", "CSIPlugin", "DRAPlugin", "deviceplugin", "")
        ),
    ],
)
async def test_s028_s029_s030_a_refusal_is_told_in_the_kubelets_words(
    sockets: Path, info: PluginInfo, problem: str
) -> None:
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
    async with bench(sockets, info_timeout_s=watcher.INFO_TIMEOUT_S) as b, AsyncExitStack() as stack:
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
        plugin.notify_answer = refusing(RpcCode.UNKNOWN, "do not want")
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
            await plugin.until(lambda p: len(p.statuses) == 2)
        assert plugin.statuses == [REGISTERED, REGISTERED]
