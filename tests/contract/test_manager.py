"""The manager over real sockets: registration, lists, allocation, clean-up, restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from plugbay.errors import AdmissionError, RpcFailed, StoreUnusable
from plugbay.manager.snapshot import ResourceCount
from plugbay.manager.state import Expired, Live, Stopped
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId, PodUid
from plugbay.model.requests import ContainerKind
from plugbay.testing.fake_plugin import fake_plugin, refusing
from tests.contract.bench_manager import APP, GOPHER, OTHER, SleepersClock, bench, container, pod, rejection

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
        pytest.param("example.com/r", "v1beta1", "", "is not inside the device plugin directory", id="no-endpoint"),
    ],
)
async def test_registration_is_refused_in_the_kubelets_words(
    sockets: Path, resource: str, version: str, endpoint: str, text: str
) -> None:
    async with bench(sockets) as b, fake_plugin(resource, sockets / "device-plugins" / "p.sock") as plugin:
        with pytest.raises(RpcFailed) as caught:
            await plugin.register(b.config.paths.registration_socket, version=version, endpoint=endpoint)
        assert caught.value.code == "Unknown"
        assert text in caught.value.detail
        assert b.manager.resources() == {}


async def test_failing_options_refuse_the_registration(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin(GOPHER, sockets / "device-plugins" / "p.sock") as plugin:
        plugin.options_answer = RpcFailed("Internal", "no idea")
        with pytest.raises(RpcFailed) as caught:
            await plugin.register(b.config.paths.registration_socket)
    assert caught.value.detail == ("failed to get device plugin options: rpc error: code = Internal desc = no idea")


async def test_registration_alone_does_not_make_a_resource_known(sockets: Path) -> None:
    async with bench(sockets) as b, fake_plugin(GOPHER, sockets / "device-plugins" / "p.sock", None) as plugin:
        await plugin.register(b.config.paths.registration_socket)
        assert await rejection(b.manager, pod("p")) == "cannot allocate unregistered device example.com/gopher"


async def test_new_plugin_outlives_the_old_ones_stream(sockets: Path) -> None:
    """Kubelet defect #121994: the end of the old stream disconnects the new plugin."""
    async with bench(sockets) as b:
        old = await b.plugin("a", socket="old.sock")
        new = await b.plugin("a", "b", socket="new.sock")
        old.end_streams()
        new.send([Device("a"), Device("b"), Device("c")])
        await b.counts(3, 3)
        await b.manager.admit(pod("p"))
        assert new.allocated
        assert not old.allocated


async def test_old_plugin_goes_on_when_the_new_one_ends(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", socket="old.sock")
        new = await b.plugin("a", "b", socket="new.sock")
        new.end_streams()
        await b.counts(1, 1)


async def test_list_of_a_replaced_plugin_is_ignored(sockets: Path) -> None:
    async with bench(sockets) as b:
        old = await b.plugin("a", socket="old.sock")
        new = await b.plugin("a", "b", socket="new.sock")
        old.send([])
        new.send([Device("a"), Device("b"), Device("c")])
        await b.counts(3, 3)


async def test_same_plugin_may_register_again(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a")
        await plugin.register(b.config.paths.registration_socket)
        plugin.send([Device("a"), Device("b")])
        await b.counts(2, 2)


# --- lists and health -----------------------------------------------------------------------------------------------


async def test_capacity_counts_all_allocatable_the_healthy(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b", "c")
        plugin.send([Device("a"), Device("b", health=unhealthy("Hot")), Device("c")])
        await b.counts(3, 2)
        plugin.send([Device("a"), Device("b")])
        await b.counts(2, 2)
        plugin.send([])
        await b.counts(0, 0)


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


async def test_pod_gets_the_lowest_free_devices_and_their_edits(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b", "c")
        await b.manager.admit(pod("p", gopher=2))
        assert plugin.allocated == [("a", "b")]
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


async def test_init_containers_leave_their_devices_to_app_containers(sockets: Path) -> None:
    """The example of spec 4.14: six devices, init 3, sidecars 1 and 2, app containers 1 and 2."""
    async with bench(sockets) as b:
        await b.plugin("a", "b", "c", "d", "e", "f")
        await b.manager.admit(
            pod(
                "p",
                container("init", ContainerKind.INIT, gopher=3),
                container("side-a", ContainerKind.SIDECAR, gopher=1),
                container("side-b", ContainerKind.SIDECAR, gopher=2),
                container("app-a", gopher=1),
                container("app-b", gopher=2),
            )
        )
        held = {name: set(devices[GOPHER]) for name, devices in b.held("p").items()}
        assert held["init"] == {"a", "b", "c"}
        assert held["side-a"] | held["side-b"] == held["init"]
        assert held["app-a"] | held["app-b"] == {"d", "e", "f"}
        assert sum(map(len, held.values())) == 9


async def test_plugin_error_refuses_the_whole_pod_and_frees_everything(sockets: Path) -> None:
    async with bench(sockets) as b:
        gopher = await b.plugin("a", "b")
        other = await b.plugin("x", resource=OTHER)
        other.allocate_answer = refusing("Internal", "no power")
        request = pod("p", container("one", gopher=1), container("two", gopher=1, other=1))
        assert await rejection(b.manager, request) == "rpc error: code = Internal desc = no power"
        assert len(gopher.allocated) == 2
        assert b.manager.assigned_pods() == frozenset()
        await b.manager.admit(pod("q", gopher=2))


async def test_empty_allocate_answer_does_not_leak_devices(sockets: Path) -> None:
    """Kubelet defect: after an answer without container responses the devices stay in use for nobody."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a")

        async def nothing(_: object) -> None:
            return None

        works, plugin.allocate_answer = plugin.allocate_answer, nothing
        assert await rejection(b.manager, pod("p")) == "no containers return in allocation response "
        plugin.allocate_answer = works
        await b.manager.admit(pod("p"))


async def test_stuck_plugin_stops_only_its_own_resource(sockets: Path) -> None:
    """Kubelet defect #117435: one hanging Allocate blocks the admission of every pod."""
    async with bench(sockets, call_timeout_s=2) as b:
        stuck = await b.plugin("a", "b")
        await b.plugin("x", resource=OTHER)
        entered = asyncio.Event()

        async def hang(_: object) -> ContainerEdits:
            entered.set()
            await asyncio.Event().wait()
            return ContainerEdits()

        stuck.allocate_answer = hang
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(rejection(b.manager, pod("p")))
            await entered.wait()
            await b.manager.admit(pod("q", container("app", other=1)))
            assert not waiting.done()
        assert waiting.result() == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def test_device_leaving_the_list_during_allocate_is_harmless(sockets: Path) -> None:
    """Kubelet defect: it crashes (spec, appendix D 1)."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")

        async def vanish(_: object) -> ContainerEdits:
            plugin.send([Device("b")])
            await b.counts(1, 1)
            return ContainerEdits()

        plugin.allocate_answer = vanish
        await b.manager.admit(pod("p"))
        assert b.held("p") == {"app": {GOPHER: ("a",)}}
        [resource] = b.manager.snapshot().resources
        assert [(device.id, device.health, device.holder) for device in resource.devices] == [
            ("a", "Unknown", ("p", "app")),
            ("b", "Healthy", None),
        ]


async def test_pick_in_flight_is_nobody_elses(sockets: Path) -> None:
    """Kubelet defect: clean-up during Allocate forgets the pick, and a second pod gets the device."""
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.manager.admit(pod("old"))
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def wait(_: object) -> ContainerEdits:
            entered.set()
            await go_on.wait()
            return ContainerEdits()

        plugin.allocate_answer = wait
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.manager.admit(pod("p")))
            await entered.wait()
            await b.manager.release_pod(PodUid("old"))
            tasks.create_task(b.manager.admit(pod("q")))
            go_on.set()
        assert {b.held("p")["app"][GOPHER], b.held("q")["app"][GOPHER]} == {("a",), ("b",)}


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
        plugin.allocate_answer = refusing("Internal", "reached")
        assert "reached" in await rejection(b.manager, pod("q"))


async def test_plugin_is_asked_for_its_preference_only_if_it_offers_one(sockets: Path) -> None:
    async with bench(sockets) as b:
        silent = await b.plugin("a", "b")
        eager = await b.plugin(
            "x", "y", "z", resource=OTHER, options=PluginOptions(get_preferred_allocation_available=True)
        )

        async def last(_: object) -> list[DeviceId]:
            return [DeviceId("z"), DeviceId("nonsense")]

        eager.prefer_answer = last
        await b.manager.admit(pod("p", container("app", gopher=1, other=2)))
        assert silent.preferred == []
        assert [(call.available, call.must_include, call.size) for call in eager.preferred] == [
            (("x", "y", "z"), (), 2)
        ]
        assert b.held("p")["app"][OTHER] == ("x", "z")


async def test_failing_preference_refuses_the_pod(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", options=PluginOptions(get_preferred_allocation_available=True))
        plugin.prefer_answer = refusing("Unavailable", "thinking")
        assert await rejection(b.manager, pod("p")) == (
            "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable desc = thinking"
        )
        assert plugin.allocated == []


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
        plugin.pre_start_answer = refusing("Internal", "not clean")
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
                return ContainerEdits(env={"WHO": host_path}, mounts=(Mount("/lib/x", host_path),))

            return answer

        gopher.allocate_answer, other.allocate_answer = giving("/gopher"), giving("/other")
        await b.manager.admit(pod("p", container("app", gopher=1, other=1)))
        assert b.manager.edits(PodUid("p"), APP) == ContainerEdits(
            env={"WHO": "/gopher"}, mounts=(Mount("/lib/x", "/gopher"),)
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


async def test_released_devices_stay_free_after_a_restart(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a")
        await b.manager.admit(pod("p"))
        await b.manager.release_pod(PodUid("p"))
    async with bench(sockets) as b:
        assert b.manager.assigned_pods() == frozenset()


async def test_running_pod_with_a_completed_init_container_survives_a_restart(sockets: Path) -> None:
    """Kubelet defect #124345."""
    request = pod("p", container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1))
    async with bench(sockets) as b:
        await b.plugin("a")
        await b.manager.admit(request)
    async with bench(sockets) as b:
        await b.manager.admit(request, running=[APP])
        assert b.held("p")["app"] == {GOPHER: ("a",)}


async def test_start_clears_sockets_and_nothing_else(sockets: Path) -> None:
    directory = sockets / "device-plugins"
    directory.mkdir()
    (directory / "kubelet_internal_checkpoint").write_text("{}")
    (directory / "DEPRECATION").touch()
    async with fake_plugin(GOPHER, directory / "left.sock"), bench(sockets):
        assert sorted(path.name for path in directory.iterdir()) == [
            "DEPRECATION",
            "kubelet.sock",
            "kubelet_internal_checkpoint",
        ]


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
