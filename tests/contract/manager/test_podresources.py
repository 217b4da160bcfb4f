"""The PodResources service over its socket, held against what a kubelet 1.36 answered."""

from __future__ import annotations

import asyncio
import json
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from plugbay.allocation.table import DeviceTable
from plugbay.errors import PathUnusable, RpcCode, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import parse_feature_gates
from plugbay.manager.manager import run_manager
from plugbay.manager.serving.podresources import CallCounts, Method, PodResourcesVersion, serve_pod_resources
from plugbay.manager.serving.reader import PodResourcesReader
from plugbay.manager.state import HeldDevices, Live, ManagerState
from plugbay.model.devices import Device, ListedDevice, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.podresources import (
    AllocatableResources,
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    PodResources,
)
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import fake_plugin
from plugbay.wire.generated import podresources_v1_pb2 as v1
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.podresources import pod_resources_handlers
from tests.contract.rigs.grpcio import open_channel

GOLDEN = Path(__file__).parents[2] / "golden" / "podresources" / "kubelet-1.36.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
LIST = (PodResourcesVersion.V1, Method.LIST)
GET = (PodResourcesVersion.V1, Method.GET)


def pod(name: str, *containers: tuple[str, str], namespace: str = "default") -> PodRequest:
    requests = tuple(ContainerRequest(ContainerName(each), ContainerKind(kind), {}) for each, kind in containers)
    return PodRequest(PodUid(f"uid-{name}"), namespace, name, requests)


@dataclass
class Pods:
    active: list[PodRequest] = field(default_factory=list)
    ended: list[PodRequest] = field(default_factory=list)

    def active_pods(self) -> Iterable[PodRequest]:
        return self.active

    def all_pods(self) -> Iterable[PodRequest]:
        return [*self.ended, *self.active]


@dataclass
class Service:
    """A service, a client of it, and what stands behind it."""

    socket: Path
    clock: ManualClock
    counts: CallCounts
    client: PodResourcesClient


@asynccontextmanager
async def service(root: Path, state: ManagerState, pods: Pods) -> AsyncIterator[Service]:
    socket = KubeletPaths(root).pod_resources_socket
    clock = ManualClock()
    async with (
        serve_pod_resources(socket, PodResourcesReader(state), pods, clock=clock) as counts,
        PodResourcesClient(socket) as client,
    ):
        yield Service(socket, clock, counts, client)


def raw_call(channel: grpc.aio.Channel, method: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """A method under the name a Go client calls it by."""
    return channel.unary_unary(method)


# --- recorded -------------------------------------------------------------------------------------------------------


def recorded_state(case: dict[str, Any]) -> ManagerState:
    state = ManagerState()
    for name, plugin in case["resources"].items():
        resource = state.resource(ResourceName(name))
        resource.endpoint = Live("p.sock", SINCE, PluginOptions())
        resource.replace_table(
            DeviceTable.of(
                ListedDevice(DeviceId(device_id), health, None if nodes is None else tuple(nodes))
                for device_id, health, nodes in plugin["devices"]
            )
        )
        if not plugin["connected"]:
            resource.disconnect(SINCE)
    for owner, container, name, by_node in case["assignments"]:
        devices = {int(node): tuple(map(DeviceId, ids)) for node, ids in by_node.items()}
        state.restore(HeldDevices(PodUid(f"uid-{owner}"), ContainerName(container), ResourceName(name), devices, b""))
    return state


def recorded_pods(case: dict[str, Any]) -> Pods:
    pods = Pods()
    for each in case["pods"]:
        (pods.ended if each["ended"] else pods.active).append(pod(each["name"], *each["containers"]))
    return pods


def elements(devices: Iterable[ContainerDevices]) -> list[Any]:
    listed = [
        [each.resource, list(each.device_ids), None if each.numa_nodes is None else list(each.numa_nodes)]
        for each in devices
    ]
    return sorted(listed, key=json.dumps)


def containers(told: PodResources) -> list[Any]:
    assert told.namespace == "default"
    return [[each.name, elements(each.devices)] for each in told.containers]


def by_name(told: Iterable[PodResources]) -> dict[str, Any]:
    return {each.name: containers(each) for each in told}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["case"])
async def test_answers_what_a_kubelet_answered(sockets: Path, case: dict[str, Any]) -> None:
    async with service(sockets, recorded_state(case), recorded_pods(case)) as served:
        assert by_name(await served.client.list()) == case["v1_list"]
        assert by_name(await served.client.list_v1alpha1()) == case["v1alpha1_list"]
        allocatable = await served.client.allocatable()
        assert elements(allocatable.devices) == case["v1_allocatable"]
        assert (allocatable.cpu_ids, allocatable.memory) == ((), ())
        for name, expected in case["v1_get"].items():
            served.clock.advance(1)
            told = await served.client.get("default", name)
            assert told is None if expected[0] == "UNKNOWN" else containers(told or PodResources("", "")) == expected


# --- one by one -----------------------------------------------------------------------------------------------------


async def test_s128_finished_pod_is_told_by_v1alpha1_only(sockets: Path) -> None:
    pods = Pods(active=[pod("running", ("c", "app"))], ended=[pod("finished", ("c", "app"))])
    async with service(sockets, ManagerState(), pods) as served:
        assert [each.name for each in await served.client.list()] == ["running"]
        assert [each.name for each in await served.client.list_v1alpha1()] == ["finished", "running"]
        assert await served.client.get("default", "finished") is None


async def test_without_its_gate_list_tells_finished_pods_too(sockets: Path) -> None:
    pods = Pods(active=[pod("running", ("c", "app"))], ended=[pod("finished", ("c", "app"))])
    gates = parse_feature_gates("KubeletPodResourcesListUseActivePods=false")
    socket = KubeletPaths(sockets).pod_resources_socket
    async with (
        serve_pod_resources(socket, PodResourcesReader(ManagerState()), pods, clock=ManualClock(), gates=gates),
        PodResourcesClient(socket) as client,
    ):
        assert [each.name for each in await client.list()] == ["finished", "running"]
        assert await client.get("default", "finished") is None


async def test_s130_get_of_an_unknown_pod_is_unknown_and_counted(sockets: Path) -> None:
    pods = Pods(active=[pod("there", namespace="other")])
    async with service(sockets, ManagerState(), pods) as served:
        async with open_channel(served.socket) as channel:
            get = raw_call(channel, "/v1.PodResourcesLister/Get")
            request = v1.GetPodResourcesRequest(pod_namespace="default", pod_name="there")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(request.SerializeToString())
        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert caught.value.details() == "pod there in namespace default not found"
        assert served.counts.requests == {GET: 1}
        assert served.counts.errors == {GET: 1}
        assert await served.client.get("other", "there") == PodResources("other", "there")


async def test_s131_of_two_hundred_calls_at_once_ten_are_answered(sockets: Path) -> None:
    async with service(sockets, ManagerState(), Pods()) as served:
        answers = await asyncio.gather(*(served.client.list() for _ in range(200)), return_exceptions=True)
        refusals = Counter(str(each) for each in answers if isinstance(each, RpcFailed))
        assert refusals == {"rpc error: code = ResourceExhausted desc = rejected by rate limit": 190}
        assert answers.count(()) == 10
        assert served.counts.requests == {LIST: 10}


async def test_both_versions_and_all_methods_share_the_limit(sockets: Path) -> None:
    async with service(sockets, ManagerState(), Pods()) as served:
        for _ in range(3):
            await served.client.list()
            await served.client.list_v1alpha1()
            await served.client.allocatable()
        await served.client.get("default", "p")
        for call in (served.client.list, served.client.list_v1alpha1, served.client.allocatable):
            with pytest.raises(RpcFailed, match="rejected by rate limit"):
                await call()
        served.clock.advance(0.01)
        await served.client.list_v1alpha1()
        assert served.counts.requests == {
            LIST: 3,
            GET: 1,
            (PodResourcesVersion.V1, Method.GET_ALLOCATABLE): 3,
            (PodResourcesVersion.V1ALPHA1, Method.LIST): 4,
        }


async def test_pods_are_sorted(sockets: Path) -> None:
    pods = Pods([pod("b"), pod("c", namespace="a"), pod("a")])
    async with service(sockets, ManagerState(), pods) as served:
        told = await served.client.list()
        assert [(each.namespace, each.name) for each in told] == [("a", "c"), ("default", "a"), ("default", "b")]


async def test_topology_is_absent_rather_than_empty_on_the_wire(sockets: Path) -> None:
    state = ManagerState()
    state.restore(
        HeldDevices(PodUid("uid-p"), ContainerName("c"), ResourceName("e.com/r"), {-1: (DeviceId("d"),)}, b"")
    )
    async with (
        service(sockets, state, Pods([pod("p", ("c", "app"))])) as served,
        open_channel(served.socket) as channel,
    ):
        answer = await raw_call(channel, "/v1.PodResourcesLister/List")(b"")
    (told,) = v1.ListPodResourcesResponse.FromString(answer).pod_resources
    assert not told.containers[0].devices[0].HasField("topology")


async def test_answer_of_many_devices_is_whole(sockets: Path) -> None:
    state = ManagerState()
    devices = [ListedDevice(DeviceId(f"d{number:04}"), "Healthy") for number in range(1234)]
    state.resource(ResourceName("e.com/r")).replace_table(DeviceTable.of(devices))
    async with service(sockets, state, Pods()) as served:
        told = (await served.client.allocatable()).devices
    assert [each.device_ids for each in told] == [(device.id,) for device in devices]


# --- socket ---------------------------------------------------------------------------------------------------------


async def test_directory_is_closed_to_others_and_the_socket_goes_at_the_end(sockets: Path) -> None:
    async with service(sockets, ManagerState(), Pods()) as served:
        assert stat.S_IMODE(served.socket.parent.stat().st_mode) == 0o750
        assert served.socket.is_socket()
    assert not served.socket.exists()


async def test_file_left_at_the_sockets_place_is_replaced(sockets: Path) -> None:
    left = KubeletPaths(sockets).pod_resources_socket
    left.parent.mkdir()
    left.write_text("left by a crash")
    async with service(sockets, ManagerState(), Pods()) as served:
        assert await served.client.list() == ()


async def test_directory_that_cannot_be_made_is_one_clear_error(sockets: Path) -> None:
    (sockets / "pod-resources").write_text("a file")
    with pytest.raises(PathUnusable, match=r"pod-resources/kubelet\.sock: cannot listen here"):
        async with service(sockets, ManagerState(), Pods()):
            pass


async def test_client_says_that_nobody_answers(sockets: Path) -> None:
    async with PodResourcesClient(sockets / "none.sock") as client:
        with pytest.raises(RpcFailed) as caught:
            await client.list()
    assert caught.value.code is RpcCode.UNAVAILABLE


# --- the manager behind it ------------------------------------------------------------------------------------------


async def test_admitted_pod_is_told_until_it_is_released(sockets: Path) -> None:
    name, clock = ResourceName("example.com/gopher"), ManualClock()
    paths = KubeletPaths(sockets)
    request = PodRequest(
        PodUid("u"), "default", "p", (ContainerRequest(ContainerName("c"), ContainerKind.APP, {name: 1}),)
    )
    held = ContainerDevices(name, (DeviceId("d"),), (1,))
    async with (
        run_manager(ManagerConfig(paths, sockets / "state" / "manager.db"), clock=clock) as manager,
        serve_pod_resources(paths.pod_resources_socket, manager.pod_resources(), manager.admitted_pods, clock=clock),
        PodResourcesClient(paths.pod_resources_socket) as client,
        fake_plugin(name, paths.device_plugins / "g.sock", [Device("d", numa_nodes=[1])]) as plugin,
    ):
        assert await client.list() == ()
        await plugin.register(paths.registration_socket)
        async with asyncio.timeout(30):
            async for _ in manager.changes():
                if manager.resources().get(name) and manager.resources()[name].capacity:
                    break
        assert await client.allocatable() == AllocatableResources((held,))
        await manager.admit(request)
        told = PodResources("default", "p", (ContainerResources(ContainerName("c"), (held,)),))
        assert await client.list() == (told,)
        assert await client.get("default", "p") == told
        await manager.release_pod(request.uid)
        assert await client.list() == ()


# --- what only other kubelets tell ----------------------------------------------------------------------------------


class RichNode:
    """Tells of everything there are fields for."""

    pod = PodResources(
        "default",
        "p",
        (
            ContainerResources(
                ContainerName("c"),
                (ContainerDevices(ResourceName("e.com/r"), (DeviceId("a"), DeviceId("b")), (0, 1)),),
                (2, 3),
                (ContainerMemory("hugepages-2Mi", 2**21, (0,)), ContainerMemory("memory", 2**33)),
                (
                    DynamicResource(
                        "claim",
                        "default",
                        (
                            ClaimResource("gpu.e.com", "n1", "gpu-0", ("e.com/gpu=0",)),
                            ClaimResource("gpu.e.com", "n1", "gpu-1", (), "share"),
                        ),
                    ),
                ),
            ),
        ),
    )
    allocatable = AllocatableResources(
        (ContainerDevices(ResourceName("e.com/r"), (DeviceId("a"),), ()),), (0, 1), (ContainerMemory("memory", 1),)
    )

    def list_v1(self) -> Sequence[PodResources]:
        return [self.pod]

    def get_v1(self, namespace: str, name: str) -> PodResources:
        raise RpcFailed(RpcCode.UNKNOWN, "PodResources API Get method disabled")

    def allocatable_v1(self) -> AllocatableResources:
        return self.allocatable

    def list_v1alpha1(self) -> Sequence[PodResources]:
        return [self.pod]


async def test_client_reads_all_that_other_kubelets_tell(sockets: Path) -> None:
    socket = sockets / "rich.sock"
    async with serve_grpc(socket, pod_resources_handlers(RichNode())), PodResourcesClient(socket) as client:
        assert await client.list() == (RichNode.pod,)
        assert await client.allocatable() == RichNode.allocatable
        (old,) = await client.list_v1alpha1()
        assert old.containers == (
            ContainerResources(
                ContainerName("c"), (ContainerDevices(ResourceName("e.com/r"), (DeviceId("a"), DeviceId("b"))),)
            ),
        )
        with pytest.raises(RpcFailed, match="Get method disabled"):
            await client.get("default", "p")
