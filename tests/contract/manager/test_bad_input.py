"""Plugins that answer nonsense, not at all, or die while they are asked; and a disk that is full.

Each has the outcome that a kubelet gives, or a clear error; what was allocated before stays, and nothing else does.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from plugbay.errors import AdmissionError, RpcCode, RpcFailed
from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.manager.state import Live, Stopped
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import ServerStream, Service, Unary
from plugbay.wire.plugin_server import device_plugin_handler
from tests.contract.rigs.grpcio import open_channel

GOPHER: Final = ResourceName("example.com/gopher")
APP: Final = ContainerName("app")
ALL_OPTIONS: Final = PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
GARBAGE: Final = b"\x0a\xff\xff"
"""A field that is longer than the message."""
HASTE_S: Final = 1.0
"""A deadline that a test waits for; those that should never pass are a manager's own."""
RIGS: Final = Path(__file__).parents[1] / "rigs"
CALLS: Final = ("GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer")
UNREADABLE: Final = "rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "
DIED: Final = r"rpc error: code = (Unavailable|Canceled) desc = "
"""The call broke, or the stream did, and the manager closed the connection under the call."""
LATE: Final = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


def pod(uid: str, count: int = 1) -> PodRequest:
    return PodRequest(PodUid(uid), "default", uid, (ContainerRequest(APP, ContainerKind.APP, {GOPHER: count}),))


@asynccontextmanager
async def running_manager(root: Path, **deadlines: Any) -> AsyncIterator[DeviceManager]:
    config = ManagerConfig(KubeletPaths(root), root / "state" / "manager.db", **deadlines)
    async with run_manager(config, clock=ManualClock()) as manager:
        yield manager


@asynccontextmanager
async def gopher_plugin(root: Path, *devices: str, socket: str = "gopher.sock") -> AsyncIterator[FakePlugin]:
    """A registered plugin that works."""
    paths = KubeletPaths(root)
    async with fake_plugin(GOPHER, paths.device_plugins / socket, [Device(name) for name in devices]) as plugin:
        await plugin.register(paths.registration_socket)
        yield plugin


async def until(manager: DeviceManager, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        async for _ in manager.changes():
            if condition():
                return


async def counts(manager: DeviceManager, capacity: int, allocatable: int) -> None:
    await until(manager, lambda: manager.resources().get(GOPHER) == ResourceCount(capacity, allocatable))


async def refusal(manager: DeviceManager, request: PodRequest) -> str:
    with pytest.raises(AdmissionError) as caught:
        await manager.admit(request)
    return str(caught.value)


async def check_nothing_is_lost(manager: DeviceManager, root: Path) -> None:
    """A working plugin takes over, and all of its devices can be had."""
    async with gopher_plugin(root, "a", "b", socket="works.sock"):
        await counts(manager, 2, 2)
        for uid in manager.assigned_pods():
            await manager.release_pod(uid)
        await manager.admit(pod("all", 2))


# --- answers that are none ------------------------------------------------------------------------------------------


def breaking(plugin: FakePlugin, method: str, answer: bytes | None) -> Service:
    """A plugin's service, but for one method, which answers with bytes of a test's choice, or never."""

    async def respond(_: bytes) -> bytes:
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    async def stream(request: bytes, _: Metadata) -> AsyncGenerator[bytes, None]:
        yield await respond(request)

    service = device_plugin_handler(plugin)
    broken = ServerStream(stream) if method == "ListAndWatch" else Unary(respond)
    return Service(service.name, {**service.methods, method: broken})


@pytest.mark.parametrize(
    ("answer", "error"),
    [pytest.param(GARBAGE, UNREADABLE, id="answers-garbage"), pytest.param(None, LATE, id="hangs")],
)
@pytest.mark.parametrize("method", CALLS)
async def test_plugin_that_cannot_be_understood(sockets: Path, method: str, answer: bytes | None, error: str) -> None:
    paths = KubeletPaths(sockets)
    socket = paths.device_plugins / "broken.sock"
    plugin = FakePlugin(GOPHER, socket, [Device("a"), Device("b")], ALL_OPTIONS)
    hurried = "pre_start_timeout_s" if method == "PreStartContainer" else "call_timeout_s"
    async with running_manager(sockets, **({hurried: HASTE_S} if answer is None else {})) as manager:
        async with serve_grpc(socket, [breaking(plugin, method, answer)]):
            if method == "GetDevicePluginOptions":
                with pytest.raises(RpcFailed) as caught:
                    await plugin.register(paths.registration_socket)
                assert caught.value.code is RpcCode.UNKNOWN
                assert caught.value.detail.startswith(f"failed to get device plugin options: {error}")
            else:
                await plugin.register(paths.registration_socket)
                await check_refusal_in(method, error, manager)
        await check_nothing_is_lost(manager, sockets)


async def check_refusal_in(method: str, error: str, manager: DeviceManager) -> None:
    if method == "ListAndWatch":
        if error == UNREADABLE:
            await until(manager, lambda: isinstance(manager.snapshot().resources[0].endpoint, Stopped))
        else:
            assert await refusal(manager, pod("p")) == "cannot allocate unregistered device example.com/gopher"
        assert manager.resources().get(GOPHER, ResourceCount(0, 0)) == ResourceCount(0, 0)
        return
    await counts(manager, 2, 2)
    match method:
        case "GetPreferredAllocation":
            expected = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            assert (await refusal(manager, pod("p"))).startswith(expected)
        case "Allocate":
            assert (await refusal(manager, pod("p"))).startswith(error)
        case "PreStartContainer":
            await manager.admit(pod("p"))
            for _ in range(2):
                with pytest.raises(AdmissionError) as caught:
                    await manager.prepare_container(PodUid("p"), APP)
                text = f"device plugin PreStartContainer rpc failed with err: {error}"
                assert str(caught.value).startswith(text)
            assert manager.assigned_pods() == {"p"}
            return
    assert manager.assigned_pods() == frozenset()


@pytest.mark.parametrize("method", CALLS)
async def test_plugin_that_dies_in_a_call(sockets: Path, method: str) -> None:
    paths = KubeletPaths(sockets)
    socket = paths.device_plugins / "dying.sock"
    async with running_manager(sockets) as manager, AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(RIGS / "dying_plugin.py")),
            *(GOPHER, str(socket), str(paths.registration_socket), method),
        )
        stack.push_async_callback(end, process)
        if method not in ("GetDevicePluginOptions", "ListAndWatch"):
            await counts(manager, 2, 2)
        if method == "PreStartContainer":
            await manager.admit(pod("p"))
            with pytest.raises(AdmissionError, match=f"PreStartContainer rpc failed with err: {DIED}"):
                await manager.prepare_container(PodUid("p"), APP)
            assert manager.devices_of(PodUid("p")) == {APP: {GOPHER: ("a",)}}
        elif method in ("GetPreferredAllocation", "Allocate"):
            assert re.search(DIED, await refusal(manager, pod("p")))
            assert manager.assigned_pods() == frozenset()
        async with asyncio.timeout(20):
            assert await process.wait() == -9
        if method != "GetDevicePluginOptions":
            await until(manager, lambda: isinstance(manager.snapshot().resources[0].endpoint, Stopped))
        assert manager.resources().get(GOPHER, ResourceCount(0, 0)).allocatable == 0
        await check_nothing_is_lost(manager, sockets)


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_malformed_registration_is_refused_and_forgotten(sockets: Path) -> None:
    async with running_manager(sockets) as manager:
        channel = open_channel(KubeletPaths(sockets).registration_socket)
        call: Any = channel.unary_unary("/v1beta1.Registration/Register")
        try:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(GARBAGE)
        finally:
            await channel.close()
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert (caught.value.details() or "").startswith("grpc: error unmarshalling request")
        assert manager.resources() == {}
        await check_nothing_is_lost(manager, sockets)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "%00", "missing/x", "kubelet_internal_checkpoint", "kubelet.sock"])
async def test_endpoint_where_no_plugin_is_cannot_be_registered(sockets: Path, name: str) -> None:
    paths = KubeletPaths(sockets)
    async with running_manager(sockets, dial_timeout_s=HASTE_S) as manager:
        with pytest.raises(RpcFailed) as caught:
            await FakePlugin(GOPHER, paths.device_plugins / "none", (), ALL_OPTIONS).register(
                paths.registration_socket, endpoint=name
            )
        assert caught.value.code is RpcCode.UNKNOWN
        assert caught.value.detail.startswith(
            ("failed to dial device plugin: ", "failed to get device plugin options: ")
        )
        assert manager.resources() == {}
        await check_nothing_is_lost(manager, sockets)


# --- answers about other devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preferred",
    [
        pytest.param(["z"], id="unknown"),
        pytest.param(["taken"], id="somebody-elses"),
        pytest.param(["sick"], id="unhealthy"),
        pytest.param(["", "\0", "a" * 1000], id="odd"),
        pytest.param([], id="none"),
    ],
)
async def test_preference_for_other_devices_counts_for_nothing(sockets: Path, preferred: list[str]) -> None:
    paths = KubeletPaths(sockets)
    async with running_manager(sockets) as manager, gopher_plugin(sockets, "taken"):
        await counts(manager, 1, 1)
        await manager.admit(pod("old"))
        socket = paths.device_plugins / "second.sock"
        async with fake_plugin(GOPHER, socket, (), options=ALL_OPTIONS) as plugin:
            plugin.send_raw(listing(("a", "Healthy"), ("b", "Healthy"), ("sick", "Unhealthy"), ("taken", "Healthy")))
            await plugin.register(paths.registration_socket)
            await counts(manager, 4, 3)

            async def prefer(_: object) -> list[DeviceId]:
                return [DeviceId(name) for name in preferred]

            plugin.prefer_answer = prefer
            await manager.admit(pod("p"))
            assert plugin.allocated == [("a",)]


async def test_only_the_first_container_response_counts(sockets: Path) -> None:
    answers = pb.AllocateResponse()
    answers.container_responses.add(envs={"WHO": "first"})
    answers.container_responses.add(envs={"WHO": "second", "MORE": "yes"})
    paths = KubeletPaths(sockets)
    socket = paths.device_plugins / "generous.sock"
    plugin = FakePlugin(GOPHER, socket, [Device("a")], PluginOptions())
    async with (
        running_manager(sockets) as manager,
        serve_grpc(socket, [breaking(plugin, "Allocate", answers.SerializeToString())]),
    ):
        await plugin.register(paths.registration_socket)
        await counts(manager, 1, 1)
        await manager.admit(pod("p"))
        assert manager.edits(PodUid("p"), APP) == ContainerEdits(env={"WHO": "first"})


# --- lists ----------------------------------------------------------------------------------------------------------


def listing(*devices: tuple[str, str]) -> bytes:
    """A list as no `Device` could say it."""
    return pb.ListAndWatchResponse(
        devices=[pb.Device(ID=device_id, health=health) for device_id, health in devices]
    ).SerializeToString()


@pytest.mark.parametrize(
    ("devices", "capacity", "allocatable"),
    [
        pytest.param([("a", "Healthy"), ("a", "Healthy")], 1, 1, id="duplicate"),
        # A kubelet counts it in both sets, capacity 2: docs/differences.md.
        pytest.param([("a", "Healthy"), ("a", "Unhealthy")], 1, 0, id="duplicate-last-one-unhealthy"),
        pytest.param([("a", "Unhealthy"), ("a", "Healthy")], 1, 1, id="duplicate-last-one-healthy"),
        pytest.param([("", "Healthy")], 1, 1, id="empty-id"),
        pytest.param([("a", "healthy"), ("b", "Healthy "), ("c", ""), ("d", "Degraded")], 4, 0, id="unknown-health"),
        pytest.param([("x" * 1000, "Healthy"), ("a\n\0b", "Healthy"), ("ä 🐹", "Healthy")], 3, 3, id="odd-ids"),
    ],
)
async def test_odd_list_is_taken_as_a_kubelet_takes_it(
    sockets: Path, devices: list[tuple[str, str]], capacity: int, allocatable: int
) -> None:
    async with running_manager(sockets) as manager, gopher_plugin(sockets, "old") as plugin:
        await counts(manager, 1, 1)
        plugin.send_raw(listing(*devices))
        last = dict(devices)
        await until(manager, lambda: shown(manager) == last)
        assert manager.resources()[GOPHER] == ResourceCount(capacity, allocatable)
        if allocatable:
            await manager.admit(pod("p", allocatable))
            assert plugin.allocated == [tuple(sorted(name for name in last if last[name] == "Healthy"))]
        else:
            assert "no healthy devices present" in await refusal(manager, pod("p"))


async def test_odd_device_ids_survive_a_restart(sockets: Path) -> None:
    ids = ("", "a\n\0b", 'q"<&>\\', "ä 🐹")
    async with running_manager(sockets) as manager, gopher_plugin(sockets, "old") as plugin:
        await counts(manager, 1, 1)
        plugin.send_raw(listing(*((name, "Healthy") for name in ids)))
        await counts(manager, len(ids), len(ids))
        await manager.admit(pod("p", len(ids)))
    path = KubeletPaths(sockets).checkpoint
    [entry] = load(path.read_bytes(), source="view").pod_device_entries or ()
    assert {node: sorted(found or ()) for node, found in (entry.device_ids or {}).items()} == {-1: sorted(ids)}
    async with running_manager(sockets) as manager:
        assert manager.devices_of(PodUid("p")) == {APP: {GOPHER: tuple(sorted(ids))}}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(GARBAGE, id="truncated"),
        pytest.param(b"\x0a\x03\x0a\x01\xff", id="not-utf-8"),
        pytest.param(b"\x0a\x03\x0a\x05a", id="device-cut-short"),
        pytest.param(listing(*((f"{n:040}", "Healthy") for n in range(100_000))), id="100000-devices-over-4-mib"),
    ],
)
async def test_list_that_cannot_be_received_ends_the_stream(sockets: Path, message: bytes) -> None:
    async with running_manager(sockets) as manager, gopher_plugin(sockets, "a", "b") as plugin:
        await counts(manager, 2, 2)
        await manager.admit(pod("p"))
        plugin.send_raw(message)
        await counts(manager, 2, 0)
        assert isinstance(manager.snapshot().resources[0].endpoint, Stopped)
        assert manager.devices_of(PodUid("p")) == {APP: {GOPHER: ("a",)}}
        await check_nothing_is_lost(manager, sockets)


async def test_hundred_thousand_devices_that_fit_a_message(sockets: Path) -> None:
    message = listing(*((f"{n:05}", "Healthy") for n in range(100_000)))
    assert len(message) < MAX_MESSAGE_BYTES
    async with running_manager(sockets) as manager, gopher_plugin(sockets, "a") as plugin:
        await counts(manager, 1, 1)
        plugin.send_raw(message)
        await counts(manager, 100_000, 100_000)
        await manager.admit(pod("p"))
        assert plugin.allocated == [("00000",)]
        assert isinstance(manager.snapshot().resources[0].endpoint, Live)


def shown(manager: DeviceManager) -> dict[str, str]:
    return {device.id: device.health for device in manager.snapshot().resources[0].devices}


# --- a full disk ----------------------------------------------------------------------------------------------------


async def test_full_disk_refuses_changes_and_loses_nothing(sockets: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(RIGS / "crashing_manager.py"), str(sockets)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    requests, answers = process.stdin, process.stdout

    async def ask(do: str, **members: object) -> dict[str, Any]:
        requests.write(json.dumps({"id": 1, "do": do, **members}).encode() + b"\n")
        async with asyncio.timeout(20):
            answer: dict[str, Any] = json.loads(await answers.readline())
        return answer

    try:
        await answers.readline()
        async with gopher_plugin(sockets, "a", "b"):
            await ask("wait")
            before = (await ask("admit", pod="old", count=1))["held"]
            await ask("limit", bytes=0)
            refused = (await ask("admit", pod="new", count=1))["refused"]
            assert refused.startswith('failed to write checkpoint file "kubelet_internal_checkpoint": ')
            assert (await ask("release", pod="old"))["refused"].startswith(f"store {sockets}/state/manager.db: ")
            assert (await ask("state"))["pods"] == {"old": before}
            await ask("limit", bytes=-1)
            assert "held" in await ask("admit", pod="new", count=1)
            assert "held" not in await ask("release", pod="old")
            assert (await ask("state"))["pods"].keys() == {"new"}
    finally:
        process.stdin.close()
        async with asyncio.timeout(20):
            _, logged = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in logged
    async with running_manager(sockets) as manager:
        assert manager.assigned_pods() == {"new"}
