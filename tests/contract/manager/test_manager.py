"""The manager over real sockets, beside the scenarios of the catalogue: see ``scenarios/``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.errors import AdmissionError, RpcCode, RpcFailed, StoreUnusable
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.manager.state import Expired, Live, Stopped
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import PodUid
from plugbay.testing.fakes.plugin import fake_plugin, refusing
from tests.contract.rigs.manager import APP, GOPHER, OTHER, SleepersClock, bench, container, pod, rejection

# --- registration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "version", "endpoint", "text"),
    [
        pytest.param(
            "example.com/r",
            "v1alpha",
            "p.sock",
            'requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="version",
        ),
        pytest.param("gpu", "v1beta1", "p.sock", 'the ResourceName "gpu" is invalid', id="name"),
        pytest.param("bad", "v2", "p.sock", "requested API version", id="version-before-name"),
        pytest.param(
            "example.com/r",
            "v1beta1",
            "../p.sock",
            'endpoint "../p.sock" is not inside the device plugin directory',
            id="endpoint-leaves-the-directory",
        ),
        pytest.param("example.com/r", "v1beta1", "..", "is not inside the device plugin directory", id="parent"),
    ],
)
async def test_registration_is_refused_in_the_kubelets_words(
    sockets: Path, resource: str, version: str, endpoint: str, text: str
) -> None:
    async with bench(sockets) as b, fake_plugin(resource, sockets / "device-plugins" / "p.sock") as plugin:
        with pytest.raises(RpcFailed) as caught:
            await plugin.register(b.config.paths.registration_socket, version=version, endpoint=endpoint)
        assert caught.value.code is RpcCode.UNKNOWN
        assert text in caught.value.detail
        assert b.manager.resources() == {}


@pytest.mark.parametrize("spelling", ["x/../n", "link/../n", "link"])
async def test_a_root_may_be_spelled_with_dots_and_links(sockets: Path, spelling: str) -> None:
    (sockets / "x").mkdir()
    (sockets / "y" / "n").mkdir(parents=True)
    (sockets / "link").symlink_to("y/n")
    async with bench(sockets / spelling) as b:
        await b.plugin("a")
        async with fake_plugin(OTHER, b.at("p.sock")) as plugin:
            await plugin.register(b.paths.registration_socket, endpoint="below/../p.sock")
            await b.until(
                lambda: (active := b.manager.endpoints.active(OTHER)) is not None and active.table is not None
            )
            with pytest.raises(RpcFailed, match="is not inside the device plugin directory"):
                await plugin.register(b.paths.registration_socket, endpoint="../p.sock")


async def test_registration_alone_does_not_make_a_resource_known(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin(GOPHER, sockets / "device-plugins" / "p.sock", None) as plugin:
        await plugin.register(b.config.paths.registration_socket)
        assert await rejection(b.manager, pod("p")) == "cannot allocate unregistered device example.com/gopher"
        assert b.manager.resources() == {}
        plugin.send([])
        await b.counts(0, 0)


async def test_list_of_a_replaced_plugin_is_ignored(sockets: Path) -> None:
    async with bench(sockets) as b:
        old = await b.plugin("a", socket="old.sock")
        new = await b.plugin("a", "b", socket="new.sock")
        old.send([])
        new.send([Device("a"), Device("b"), Device("c")])
        await b.counts(3, 3)


async def test_plugin_that_goes_is_a_warning_but_not_when_it_is_the_manager_that_goes(
    sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = [f"plugin of {GOPHER} at p.sock is gone; its devices are unhealthy until it registers again"]
    async with AsyncExitStack() as outliving:
        async with bench(sockets) as b:
            plugin = await outliving.enter_async_context(fake_plugin(GOPHER, b.at("p.sock"), [Device("a")]))
            await plugin.register(b.paths.registration_socket)
            await b.counts(1, 1)
            plugin.end_streams()
            await b.counts(1, 0)
            assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == told
            await plugin.register(b.paths.registration_socket)
            await b.counts(1, 1)
        assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == told


# --- lists and health -----------------------------------------------------------------------------------------------


async def test_plugin_that_dies_keeps_capacity_until_the_grace_period_is_over(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.manager.admit(pod("p"))
        plugin.end_streams()
        await b.counts(2, 0)
        assert isinstance(b.manager.snapshot().resources[0].endpoint, Stopped)
        assert "no healthy devices present" in await rejection(b.manager, pod("q"))
        b.clock.advance(299)
        assert b.manager.resources()[GOPHER] == ResourceCount(2, 0)
        b.clock.advance(1)
        await b.counts(0, 0)
        assert isinstance(b.manager.snapshot().resources[0].endpoint, Expired)
        assert "unregistered device" in await rejection(b.manager, pod("q"))
        await plugin.register(b.config.paths.registration_socket)
        await b.counts(2, 2)
        assert b.held("p") == {"app": {GOPHER: ("a",)}}


async def test_malformed_list_ends_the_stream(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        plugin.send_raw(b"\x0a\xff\xff")
        await b.counts(1, 0)


# --- allocation -----------------------------------------------------------------------------------------------------


async def test_pod_gets_the_lowest_free_devices_and_their_edits(
    sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b", "c")
        await b.manager.admit(pod("p", gopher=2))
        assert plugin.allocated == [("a", "b")]
        assert f"allocated a, b of {GOPHER} to pod p, container app" in caplog.messages
        assert b.manager.edits(PodUid("p"), APP) == ContainerEdits(env={"DEVICES": "a,b"})
        assert await rejection(b.manager, pod("q", gopher=2)) == (
            "requested number of devices unavailable for example.com/gopher. Requested: 2, Available: 1"
        )
        await b.manager.release_pod(PodUid("p"))
        await b.manager.release_pod(PodUid("p"))
        await b.manager.admit(pod("q", gopher=2))


async def test_admitting_twice_allocates_once(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await asyncio.gather(b.manager.admit(pod("p")), b.manager.admit(pod("p")))
        assert plugin.allocated == [("a",)]
        assert "changed request" in await rejection(b.manager, pod("p", gopher=2))


async def test_pod_without_device_requests_needs_no_plugin(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.manager.admit(pod("p", container("app")))
        assert b.manager.edits(PodUid("p"), APP) == ContainerEdits()


async def test_plugin_error_refuses_the_whole_pod_and_frees_everything(sockets: Path) -> None:
    async with bench(sockets) as b:
        gopher = await b.plugin("a", "b")
        other = await b.plugin("x", resource=OTHER)
        other.allocate_answer = refusing(RpcCode.INTERNAL, "no power")
        request = pod("p", container("one", gopher=1), container("two", gopher=1, other=1))
        assert await rejection(b.manager, request) == "rpc error: code = Internal desc = no power"
        assert len(gopher.allocated) == 2
        assert b.manager.assigned_pods() == frozenset()
        await b.manager.admit(pod("q", gopher=2))


async def test_cancelled_admission_leaves_nothing_behind(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        entered = asyncio.Event()

        async def hang(_: object) -> ContainerEdits:
            entered.set()
            await asyncio.Event().wait()
            return ContainerEdits()

        plugin.allocate_answer = hang
        admission = asyncio.ensure_future(b.manager.admit(pod("p")))
        await entered.wait()
        admission.cancel()
        with pytest.raises(asyncio.CancelledError):
            await admission
        plugin.allocate_answer = refusing(RpcCode.INTERNAL, "reached")
        assert "reached" in await rejection(b.manager, pod("q"))


# --- container start ------------------------------------------------------------------------------------------------


async def test_pre_start_is_called_before_each_start_if_asked_for(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b", options=PluginOptions(pre_start_required=True))
        await b.plugin("x", resource=OTHER)
        await b.manager.admit(pod("p", container("app", gopher=2, other=1)))
        assert plugin.pre_started == []
        for _ in range(2):
            edits = await b.manager.prepare_container(PodUid("p"), APP)
        assert plugin.pre_started == [("a", "b")] * 2
        assert edits.env == {"DEVICES": "a,b"}
        plugin.pre_start_answer = refusing(RpcCode.INTERNAL, "not clean")
        with pytest.raises(AdmissionError) as caught:
            await b.manager.prepare_container(PodUid("p"), APP)
        assert str(caught.value) == (
            "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = not clean"
        )
        plugin.end_streams()
        await b.counts(2, 0)
        with pytest.raises(AdmissionError, match=r"^device plugin PreStartContainer .* endpoint &.* has been stopped$"):
            await b.manager.prepare_container(PodUid("p"), APP)


async def test_first_resource_name_wins_a_conflict(sockets: Path) -> None:
    async with bench(sockets) as b:
        gopher = await b.plugin("a")
        other = await b.plugin("x", resource=OTHER)

        def giving(host_path: str) -> Callable[[object], Awaitable[ContainerEdits]]:
            async def answer(_: object) -> ContainerEdits:
                return ContainerEdits(env={"WHO": host_path}, mounts=(Mount(host_path, container_path="/lib/x"),))

            return answer

        gopher.allocate_answer, other.allocate_answer = giving("/gopher"), giving("/other")
        await b.manager.admit(pod("p", container("app", gopher=1, other=1)))
        assert b.manager.edits(PodUid("p"), APP) == ContainerEdits(
            env={"WHO": "/gopher"}, mounts=(Mount("/gopher", container_path="/lib/x"),)
        )


# --- restart --------------------------------------------------------------------------------------------------------


async def test_restart_keeps_allocations_and_counts_nothing_until_the_plugin_is_back(sockets: Path) -> None:
    clock = SleepersClock()
    async with bench(sockets, clock=clock) as b:
        await b.plugin("a", "b")
        await b.manager.admit(pod("p"))
    async with bench(sockets, clock=clock) as b:
        assert b.manager.resources() == {GOPHER: ResourceCount(0, 0)}
        assert b.held("p") == {"app": {GOPHER: ("a",)}}
        await b.manager.admit(pod("p"), running=[APP])
        assert "no healthy devices present" in await rejection(b.manager, pod("p"))
        assert await b.manager.prepare_container(PodUid("p"), APP) == ContainerEdits(env={"DEVICES": "a"})
        plugin = await b.plugin("a", "b")
        await b.manager.admit(pod("p"))
        assert plugin.allocated == []
        await b.manager.admit(pod("q"))
        assert plugin.allocated == [("b",)]
    async with bench(sockets, clock=clock) as b:
        assert b.manager.assigned_pods() == {"p", "q"}
        clock.advance(300)
        await b.until(lambda: isinstance(b.manager.snapshot().resources[0].endpoint, Expired))
    async with bench(sockets, clock=clock) as b:
        assert b.held("q") == {"app": {GOPHER: ("b",)}}
        assert isinstance(b.manager.snapshot().resources[0].endpoint, Expired)


async def test_container_does_not_start_without_the_pre_start_of_a_plugin_that_is_not_back_yet(sockets: Path) -> None:
    """The plugin is about to register again, and cleans up between containers, say."""
    wanting = PluginOptions(pre_start_required=True)
    async with bench(sockets) as b:
        await b.plugin("a", options=wanting)
        await b.plugin("x", resource=OTHER)
        await b.manager.admit(pod("p"))
        await b.manager.admit(pod("q", container("app", other=1)))
    for options, problem in (
        (PluginOptions(), "the plugin has not registered since the node was restarted"),
        (wanting, ""),
    ):
        async with bench(sockets) as b:
            await b.manager.prepare_container(PodUid("q"), APP)
            if problem:
                with pytest.raises(AdmissionError, match=problem):
                    await b.manager.prepare_container(PodUid("p"), APP)
            else:  # the plugin that registered last wanted nothing
                await b.manager.prepare_container(PodUid("p"), APP)
            plugin = await b.plugin("a", options=options)
            await b.manager.prepare_container(PodUid("p"), APP)
            assert plugin.pre_started == [("a",)] * options.pre_start_required


async def test_released_devices_stay_free_after_a_restart(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a")
        await b.manager.admit(pod("p"))
        await b.manager.release_pod(PodUid("p"))
    async with bench(sockets) as b:
        assert b.manager.assigned_pods() == frozenset()


async def test_second_manager_on_the_same_store_is_refused(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a")
        with pytest.raises(StoreUnusable, match="in use by another process"):
            async with bench(sockets):
                pass
        await b.manager.admit(pod("p"))


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 200])
async def test_damaged_store_is_refused_and_left_alone(sockets: Path, content: bytes) -> None:
    store = sockets / "state" / "manager.db"
    store.parent.mkdir()
    store.write_bytes(content)
    with pytest.raises(StoreUnusable, match=str(store)):
        async with bench(sockets):
            pass
    assert store.read_bytes() == content


async def test_snapshot_shows_the_plugin(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", options=PluginOptions(pre_start_required=True))
        [resource] = b.manager.snapshot().resources
        assert resource.endpoint == Live("gopher.sock", b.clock.now(), PluginOptions(pre_start_required=True))
