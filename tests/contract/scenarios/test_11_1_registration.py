"""Spec 11.1: registration over ``kubelet.sock``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.metrics import manager_metrics
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.model.devices import Device, PluginOptions
from plugbay.ops.metrics import exposition
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.testing.fakes.watched_plugin import fake_watched_plugin
from plugbay.wire.registration import Registration, register
from tests.contract.rigs.manager import GOPHER, OTHER, Bench, bench, listed, never, pod

NAMES: Final = json.loads((Path(__file__).parents[2] / "golden/registration/resource-names.json").read_text())
WRONG_VERSION: Final = 'requested API version "%s" is not supported by kubelet. Supported version is ["v1beta1"]'


async def refusal(attempt: Awaitable[None]) -> str:
    with pytest.raises(RpcFailed) as caught:
        await attempt
    assert caught.value.code is RpcCode.UNKNOWN
    return caught.value.detail


async def ask(b: Bench, resource: str, *, version: str = "v1beta1", endpoint: str = "nobody.sock") -> None:
    """Register a plugin that may not even exist: only a check before the connection answers without delay."""
    registration = Registration(version, endpoint, resource)
    await register(b.paths.registration_socket, registration, options=PluginOptions(), timeout_s=20)


async def test_s001_options_are_asked_once_before_the_answer_and_the_list_after_it(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin("vendor.example/r", b.at("p.sock"), listed("ab")) as plugin:
        await plugin.register(b.paths.registration_socket)
        assert plugin.calls[0] == "GetDevicePluginOptions"
        await b.counts(2, 2, resource="vendor.example/r")
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch"]


@pytest.mark.parametrize("version", [pytest.param("v1alpha", id="s002"), pytest.param("", id="s003-empty")])
async def test_s002_s003_other_version_is_refused_unconnected(sockets: Path, version: str) -> None:
    async with bench(sockets) as b:
        for count in (1, 2):
            assert await refusal(ask(b, "vendor.example/r", version=version)) == WRONG_VERSION % version
            metrics = "".join(exposition(manager_metrics(b.manager)))
            assert f'kubelet_device_plugin_registration_total{{resource_name="vendor.example/r"}} {count}\n' in metrics
        assert b.manager.resources() == {}


async def test_s004_invalid_name_is_refused_unconnected(sockets: Path) -> None:
    invalid = [case["name"] for case in NAMES if not case["accepted"]]
    async with bench(sockets) as b:
        for name in invalid:
            assert (await refusal(ask(b, name))).startswith("the ResourceName "), name
        assert await refusal(ask(b, "gpu")) == 'the ResourceName "gpu" is invalid'
        assert b.manager.resources() == {}


async def test_s005_valid_name_is_accepted(sockets: Path) -> None:
    longest = f"{'v' * 60}.{'w' * 183}/{'x' * 63}"
    assert len(longest.split("/")[0]) == 244
    valid = [case["name"] for case in NAMES if case["accepted"]]
    async with bench(sockets) as b, fake_plugin(GOPHER, b.at("p.sock"), listed("a")):
        for name in (*valid, longest):
            await ask(b, name, endpoint="p.sock")
            await b.counts(1, 1, resource=name)


async def test_s006_missing_socket_is_given_up_after_ten_seconds(sockets: Path) -> None:
    assert ManagerConfig(KubeletPaths(sockets), sockets).dial_timeout_s == 10
    async with bench(sockets, dial_timeout_s=0.3) as b:
        assert await refusal(ask(b, GOPHER)) == "failed to dial device plugin: context deadline exceeded"


async def test_s007_socket_that_appears_late_is_found(sockets: Path) -> None:
    async with bench(sockets) as b, asyncio.TaskGroup() as tasks:
        async with turning_callers_away(b.at("p.sock")) as tried:
            registering = tasks.create_task(ask(b, GOPHER, endpoint="p.sock"))
            await tried()
        async with fake_plugin(GOPHER, b.at("p.sock"), listed("a")):
            await registering
            await b.counts(1, 1)


@asynccontextmanager
async def turning_callers_away(socket: Path) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """A socket that hangs up on everybody; yields what waits for the first caller."""
    called = asyncio.Event()

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        called.set()

    server = await asyncio.start_unix_server(hang_up, socket)
    async with server:
        yield called.wait
    socket.unlink(missing_ok=True)


async def test_s008_failing_options_refuse_the_registration(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin(GOPHER, b.at("p.sock"), listed("a")) as plugin:
        plugin.options_answer = RpcFailed(RpcCode.FAILED_PRECONDITION, "not ready")
        assert await refusal(plugin.register(b.paths.registration_socket)) == (
            "failed to get device plugin options: rpc error: code = FailedPrecondition desc = not ready"
        )
        assert plugin.calls == ["GetDevicePluginOptions"]


async def test_s009_options_in_the_request_do_not_count(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin(GOPHER, b.at("p.sock"), listed("a")) as plugin:
        wanted = PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        registration = Registration("v1beta1", "p.sock", GOPHER)
        await register(b.paths.registration_socket, registration, options=wanted, timeout_s=20)
        await b.counts(1, 1)
        await b.admit(pod("p"))
        await b.prepare("p")
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch", "Allocate"]


async def test_s010_each_new_plugin_of_a_resource_replaces_the_list(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", "b", socket="s")
        newer = await b.plugin("a", "b", socket="s.new")
        await b.plugin("c", socket="third")
        assert newer.calls == ["GetDevicePluginOptions", "ListAndWatch"]


async def test_s011_each_new_watched_plugin_of_a_resource_replaces_the_list(sockets: Path) -> None:
    async with bench(sockets) as b, AsyncExitStack() as stack:
        for name, devices in (("s", "ab"), ("s.new", "ab"), ("third", "c")):
            path = b.registry / f"{name}.sock"
            plugin = await stack.enter_async_context(fake_watched_plugin(GOPHER, path, listed(devices)))
            await plugin.until(lambda p: len(p.statuses) == 1)
            await b.counts(len(devices), len(devices))


async def test_s012_end_of_the_replaced_plugins_stream_leaves_the_new_one_connected(sockets: Path) -> None:
    """Kubelet 1.36 closes the new plugin's connection and drops to allocatable 0 (#121994)."""
    async with bench(sockets) as b:
        old, new = await replaced(b)
        new.send(listed("abc"))
        await b.counts(3, 3)
        assert old.calls == new.calls == ["GetDevicePluginOptions", "ListAndWatch"]


async def test_s013_after_the_replaced_plugin_ended_allocate_goes_to_the_new_one(sockets: Path) -> None:
    """As kubelet 1.37."""
    async with bench(sockets) as b:
        old, new = await replaced(b)
        assert b.manager.resources() == {GOPHER: ResourceCount(2, 2)}
        await b.admit(pod("p"))
        assert (old.allocated, new.allocated) == ([], [("a",)])


async def replaced(b: Bench) -> tuple[FakePlugin, FakePlugin]:
    """A plugin whose stream has ended, and the one that replaced it before."""
    old = await b.plugin("a", "b", socket="old.sock")
    new = await b.plugin("a", "b", socket="new.sock")
    old.end_streams()
    await old.until_unwatched()
    return old, new


@pytest.mark.parametrize("answers", [True, False], ids=["fails", "never-answers"])
async def test_s014_second_plugin_that_fails_to_register_leaves_the_first_active(
    sockets: Path, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubelet 1.37; 1.36 forgets the first one."""
    async with bench(sockets, call_timeout_s=60 if answers else 1) as b:
        first = await b.plugin("a", "b", socket="first.sock")
        async with fake_plugin(GOPHER, b.at("second.sock"), listed("c")) as second:
            if answers:
                second.options_answer = RpcFailed(RpcCode.INTERNAL, "boom")
            else:
                monkeypatch.setattr(second, "options", never)
            assert "failed to get device plugin options" in await refusal(second.register(b.paths.registration_socket))
        await b.admit(pod("p"))
        assert first.allocated == [("a",)]
        first.send(listed("abc"))
        await b.counts(3, 3)


async def test_s015_when_the_active_plugin_ends_the_one_before_it_is_active_again(sockets: Path) -> None:
    """As kubelet 1.37."""
    async with bench(sockets) as b:
        first = await b.plugin("a", "b", socket="first.sock")
        second = await b.plugin("a", "b", "c", socket="second.sock")
        second.end_streams()
        await b.counts(2, 2)
        await b.admit(pod("p"))
        assert (first.allocated, second.allocated) == ([("a",)], [])


async def test_s016_plugin_that_came_back_on_the_same_socket_replaces_its_predecessor(sockets: Path) -> None:
    """Kubelet 1.37 refuses it while it has not noticed the predecessor's end: ``device plugin already connected``."""
    async with bench(sockets) as b:
        first = await b.plugin("a", socket="p.sock")
        b.at("p.sock").unlink()
        second = await b.plugin("a", "b", socket="p.sock")
        await first.until_unwatched()
        await b.admit(pod("p"))
        assert (first.allocated, second.allocated) == ([], [("a",)])


async def test_s017_plugin_that_registers_twice_gets_a_second_list_and_watch(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await plugin.register(b.paths.registration_socket)
        assert b.manager.resources() == {GOPHER: ResourceCount(2, 2)}
        plugin.send([Device("a")])
        await b.counts(1, 1)
        assert plugin.calls == ["GetDevicePluginOptions", "ListAndWatch"] * 2


async def test_s018_endpoint_outside_the_directory_is_refused(sockets: Path) -> None:
    """A kubelet dials it (PR #138382)."""
    async with bench(sockets) as b, fake_plugin(GOPHER, sockets / "other.sock", listed("a")) as plugin:
        assert await refusal(plugin.register(b.paths.registration_socket, endpoint="../other.sock")) == (
            'endpoint "../other.sock" is not inside the device plugin directory'
        )
        assert plugin.calls == []


async def test_s019_end_of_one_stream_touches_only_its_resource(sockets: Path) -> None:
    async with bench(sockets) as b:
        gopher = await b.plugin("a", "b")
        await b.plugin("x", resource=OTHER)
        gopher.end_streams()
        await b.counts(2, 0)
        assert b.manager.resources()[OTHER] == ResourceCount(1, 1)
