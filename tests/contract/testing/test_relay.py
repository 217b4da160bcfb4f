"""A relay between a plugin and a kubelet: real manager, real plugins, real sockets, two directories."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from plugbay import Device as AuthorsDevice
from plugbay import DevicePlugin
from plugbay.errors import RpcCode, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.ops.clock import SystemClock
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import fake_kubelet
from plugbay.testing.fakes.plugin import fake_plugin, refusing
from plugbay.testing.fakes.watched_plugin import fake_watched_plugin
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.relay.forwarding import TrafficWatch
from plugbay.testing.traffic.relay.relay import relay
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import Party, TrafficEvent
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Forwarded, Method, ServerStream, Service, Unary
from plugbay.wire.registration import Registration, moved_registration, register
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, bench, listed, pod, registered, rejection

UNKNOWN = b"\xc0\x3e\x05"
REGISTRATION = Registration("v1beta1", "p.sock", GOPHER)


class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self) -> list[AuthorsDevice]:
        return [AuthorsDevice("g1"), AuthorsDevice("g2")]


@asynccontextmanager
async def relayed(kubelet: Path, served: Path) -> AsyncIterator[TrafficWatch]:
    watch = TrafficWatch(TrafficRecorder(SystemClock()), FaultSwitches())
    async with relay(KubeletPaths(kubelet), KubeletPaths(served), watch):
        yield watch


async def until(path: Path, condition: Callable[[], bool]) -> None:
    """Wait until something at ``path`` has made ``condition`` true."""
    async with asyncio.timeout(DEADLINE_S), watch_paths([path]) as changes:
        while not condition():
            await anext(changes)


def sockets_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_socket())


@pytest.fixture
def far(sockets: Path) -> Path:
    """The root of the kubelet."""
    return sockets / "k"


@pytest.fixture
def near(sockets: Path) -> Path:
    """The root that the plugin knows."""
    return sockets / "p"


async def test_plugin_serves_a_kubelet_in_another_directory(far: Path, near: Path) -> None:
    async with bench(far) as kubelet, relayed(far, near) as watch:
        paths = KubeletPaths(near)
        await until(paths.device_plugins, paths.registration_socket.exists)
        async with fake_plugin(GOPHER, paths.device_plugins / "p.sock", listed(["g1", "g2"])) as plugin:
            await plugin.register(paths.registration_socket)
            await kubelet.counts(2, 2)
            await kubelet.admit(pod("p1"))
            plugin.send(listed(["g1"]))
            await kubelet.counts(1, 1)
            assert plugin.allocated == [("g1",)]
            endpoint = kubelet.manager.endpoints.active(GOPHER)
            assert endpoint is not None
            assert endpoint.socket.parent == KubeletPaths(far).device_plugins
            assert endpoint.socket.name.endswith("-p.sock")
    told = [(it.sender, it.event, it.name) for it in watch.recorder.records]
    assert told[0] == (Party.PLUGIN, TrafficEvent.REQUEST, "Register")
    assert (Party.PLUGIN, TrafficEvent.ANSWER, "Allocate") in told
    assert watch.recorder.of("Register")[0].value == {
        "version": "v1beta1",
        "endpoint": "p.sock",
        "resource_name": GOPHER,
        "options": {},
    }


async def test_nothing_of_a_relay_is_left(far: Path, near: Path) -> None:
    async with bench(far) as kubelet:
        paths = KubeletPaths(near)
        async with relayed(far, near):
            await until(paths.device_plugins, paths.registration_socket.exists)
            async with fake_plugin(GOPHER, paths.device_plugins / "p.sock", listed(["g1"])) as plugin:
                await plugin.register(paths.registration_socket)
                await kubelet.counts(1, 1)
        await kubelet.counts(1, 0)
        assert sockets_in(kubelet.paths.device_plugins) == ["kubelet.sock"]
        assert sockets_in(kubelet.paths.plugins_registry) == []
        assert sockets_in(paths.device_plugins) == []


async def test_refusals_of_both_sides_pass_with_code_and_text(far: Path, near: Path) -> None:
    async with bench(far) as kubelet, relayed(far, near):
        paths = KubeletPaths(near)
        await until(paths.device_plugins, paths.registration_socket.exists)
        async with fake_plugin(GOPHER, paths.device_plugins / "p.sock", listed(["g1"])) as plugin:
            with pytest.raises(RpcFailed, match='requested API version "v2" is not supported by kubelet') as caught:
                await plugin.register(paths.registration_socket, version="v2")
            assert caught.value.code is RpcCode.UNKNOWN
            await plugin.register(paths.registration_socket)
            await kubelet.counts(1, 1)
            plugin.allocate_answer = refusing(RpcCode.FAILED_PRECONDITION, "no power: 5 % left")
            assert "code = FailedPrecondition desc = no power: 5 % left" in await rejection(kubelet.manager, pod("p1"))


async def test_endpoint_outside_of_the_directory_is_left_to_the_kubelet(far: Path, near: Path) -> None:
    async with bench(far), relayed(far, near):
        paths = KubeletPaths(near)
        await until(paths.device_plugins, paths.registration_socket.exists)
        outside = Registration("v1beta1", "../out.sock", GOPHER)
        with pytest.raises(RpcFailed, match="is not inside the device plugin directory"):
            await register(paths.registration_socket, outside, options=PluginOptions(), timeout_s=DEADLINE_S)


class RawSide:
    """A server of either side that keeps what it is asked, as bytes."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, Metadata, float | None]] = []
        self.answers: list[bytes] = []

    def method(self, path: str) -> Forwarded:
        async def answers(request: bytes, metadata: Metadata, left_s: float | None) -> AsyncGenerator[bytes, None]:
            self.asked.append((path, request, metadata, left_s))
            for answer in self.answers:
                yield answer

        return Forwarded(answers)


async def test_bytes_metadata_and_deadlines_of_unknown_methods_pass(far: Path, near: Path) -> None:
    kubelet, plugin = RawSide(), RawSide()
    kubelet.answers, plugin.answers = [b""], [b"one" + UNKNOWN, b"two"]
    paths = KubeletPaths(near)
    KubeletPaths(far).device_plugins.mkdir(parents=True)
    async with (
        serve_grpc(KubeletPaths(far).registration_socket, [], otherwise=kubelet.method),
        relayed(far, near),
    ):
        await until(paths.device_plugins, paths.registration_socket.exists)
        async with serve_grpc(paths.device_plugins / "p.sock", [], otherwise=plugin.method):
            channel = Channel(paths.registration_socket)
            request = b"\x0a\x07v1beta1\x12\x06p.sock" + UNKNOWN
            assert await channel.unary("/v1beta1.Registration/Register", request) == b""
            await channel.close()
            [(_, encoded, _, _)] = kubelet.asked
            moved = moved_registration(encoded, lambda _: "p.sock")
            assert moved is not None
            assert moved[1] == request
            channel = Channel(KubeletPaths(far).device_plugins / moved[0].endpoint)
            metadata: Metadata = {"some-key": "some value", "some-bin": b"\x00\xff"}
            stream = channel.stream("/v9.Future/Method", b"\xff" + UNKNOWN, timeout_s=60, metadata=metadata)
            assert [message async for message in stream] == plugin.answers
            await channel.close()
    [(path, request, received, left_s)] = plugin.asked
    assert (path, request) == ("/v9.Future/Method", b"\xff" + UNKNOWN)
    assert metadata.items() <= received.items()
    assert left_s is not None
    assert 30 < left_s <= 60


async def test_plugin_that_serves_after_its_registration_is_dialled_on(far: Path, near: Path) -> None:
    async with bench(far) as kubelet, relayed(far, near), asyncio.TaskGroup() as tasks:
        paths = KubeletPaths(near)
        await until(paths.device_plugins, paths.registration_socket.exists)
        registering = register(paths.registration_socket, REGISTRATION, options=PluginOptions(), timeout_s=DEADLINE_S)
        task = tasks.create_task(registering)
        await asyncio.wait([task], timeout=1)
        assert not task.done()
        async with fake_plugin(GOPHER, paths.device_plugins / "p.sock", listed(["g1"])):
            await task
            await kubelet.counts(1, 1)


async def test_plugin_follows_the_restarts_of_the_kubelet(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)
    async with relayed(far, near), serving([Gophers()], paths=paths):
        for _ in range(3):
            async with bench(far) as kubelet:
                await kubelet.counts(2, 2)
                assert "kubelet.sock" in sockets_in(paths.device_plugins)
            await until(paths.device_plugins, lambda: "kubelet.sock" not in sockets_in(paths.device_plugins))


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("keep_sockets", [False, True])
async def test_plugin_follows_every_manner_of_restart(near: Path, crash: bool, keep_sockets: bool) -> None:
    async with (
        local_kubelet(within_s=DEADLINE_S) as kubelet,
        relayed(kubelet.paths.root, near) as watch,
        serving([Gophers()], paths=KubeletPaths(near)),
    ):
        for number in range(1, 4):
            await kubelet.wait_for(allocatable={GOPHER: 2}, devices={GOPHER: ["g1", "g2"]})
            await kubelet.end(await kubelet.admit({GOPHER: 2}))
            assert len(watch.recorder.of("Allocate")) == number
            await kubelet.stop_kubelet(crash=crash)
            await kubelet.start_kubelet(keep_sockets=keep_sockets)
        await kubelet.wait_for(allocatable={GOPHER: 2})


async def test_sockets_of_plugins_go_when_the_kubelet_removes_its_own(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)
    async with relayed(far, near):
        async with fake_kubelet(KubeletPaths(far)) as kubelet:
            await until(paths.device_plugins, paths.registration_socket.exists)
            async with fake_plugin(GOPHER, paths.device_plugins / "idle.sock", listed(["g1"])):
                await kubelet.restart()
                await until(paths.device_plugins, lambda: sockets_in(paths.device_plugins) == ["kubelet.sock"])


async def test_socket_that_is_removed_at_the_kubelet_is_removed_at_the_plugin(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)
    async with fake_kubelet(KubeletPaths(far)) as kubelet, relayed(far, near), serving([Gophers()], paths=paths):
        first = await kubelet.next_registration()
        await first.until_devices("g1", "g2")
        first.socket.unlink()
        second = await kubelet.next_registration()
        await second.until_devices("g1", "g2")
        assert second.socket != first.socket


async def test_directory_that_is_made_anew_is_followed(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)
    async with relayed(far, near), serving([Gophers()], paths=paths):
        async with fake_kubelet(KubeletPaths(far)) as kubelet:
            await (await kubelet.next_registration()).until_devices("g1", "g2")
        shutil.rmtree(KubeletPaths(far).device_plugins)
        await until(paths.device_plugins, lambda: not paths.device_plugins.exists())
        async with fake_kubelet(KubeletPaths(far)) as kubelet:
            await (await kubelet.next_registration()).until_devices("g1", "g2")


@pytest.mark.parametrize("has_device_socket", [False, True])
async def test_plugin_that_is_found_by_its_socket(far: Path, near: Path, has_device_socket: bool) -> None:
    paths = KubeletPaths(near)
    device = [Device(DeviceId("g1"))]
    async with bench(far) as kubelet, relayed(far, near), AsyncExitStack() as stack:
        await until(near, paths.plugins_registry.exists)
        hidden = paths.plugins_registry / ".hidden"
        endpoint = near / "d.sock" if has_device_socket else None
        plugin = await stack.enter_async_context(fake_watched_plugin(GOPHER, hidden, device, device_socket=endpoint))
        hidden.rename(paths.plugins_registry / "p.sock")
        await registered(plugin)
        await kubelet.counts(1, 1)
        await kubelet.admit(pod("p1"))
        assert plugin.plugin.allocated == [("g1",)]
        (paths.plugins_registry / "p.sock").unlink()
        await kubelet.counts(1, 0)


async def test_plugin_reaches_the_pod_resources_of_the_kubelet(far: Path, near: Path) -> None:
    kubelet = RawSide()
    kubelet.answers = [b"pods"]
    socket = KubeletPaths(far).pod_resources_socket
    socket.parent.mkdir(parents=True)
    KubeletPaths(far).device_plugins.mkdir()
    async with serve_grpc(socket, [], otherwise=kubelet.method):
        async with relayed(far, near) as watch:
            channel = Channel(KubeletPaths(near).pod_resources_socket)
            assert await channel.unary("/v1.PodResourcesLister/List", b"?") == b"pods"
            await channel.close()
    assert [(path, request) for path, request, _, _ in kubelet.asked] == [("/v1.PodResourcesLister/List", b"?")]
    assert not watch.recorder.records
    assert not KubeletPaths(near).pod_resources_socket.exists()


async def test_faults_act_in_a_relay_too(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)
    async with bench(far) as kubelet, relayed(far, near) as watch:
        await until(paths.device_plugins, paths.registration_socket.exists)
        async with fake_plugin(GOPHER, paths.device_plugins / "p.sock", listed(["g1"])) as plugin:
            await plugin.register(paths.registration_socket)
            await kubelet.counts(1, 1)
            watch.switches.reset(method="ListAndWatch")
            await kubelet.counts(1, 0)


async def test_plugin_whose_method_is_missing_says_so_itself(far: Path, near: Path) -> None:
    paths = KubeletPaths(near)

    async def options(_: bytes) -> bytes:
        return b""

    async def lists(_: bytes, __: Metadata) -> AsyncGenerator[bytes, None]:
        await asyncio.get_running_loop().create_future()
        yield b""

    methods: dict[str, Method] = {"GetDevicePluginOptions": Unary(options), "ListAndWatch": ServerStream(lists)}
    only = Service("v1beta1.DevicePlugin", methods)
    async with fake_kubelet(KubeletPaths(far)) as kubelet, relayed(far, near):
        await until(paths.device_plugins, paths.registration_socket.exists)
        async with serve_grpc(paths.device_plugins / "p.sock", [only]):
            await register(paths.registration_socket, REGISTRATION, options=PluginOptions(), timeout_s=DEADLINE_S)
            plugin = await kubelet.next_registration()
            with pytest.raises(RpcFailed, match="unknown method Allocate for service") as caught:
                await plugin.client.allocate([DeviceId("g1")])
            assert caught.value.code is RpcCode.UNIMPLEMENTED
