"""What the PodResources service tells; numbers are those of the scenario catalogue."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation.table import DeviceTable
from plugbay.manager.serving.reader import PodResourcesReader
from plugbay.manager.state import HeldDevices, Live, ManagerState
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.podresources import AllocatableResources, PodResources, distinct_devices
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest

NAME = ResourceName("example.com/r")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
Elements = list[tuple[str, tuple[int, ...] | None]]


def listed(device_id: str, nodes: tuple[int, ...] | None = None, *, health: str = "Healthy") -> ListedDevice:
    return ListedDevice(DeviceId(device_id), health, nodes)


def state_of(*devices: ListedDevice) -> ManagerState:
    state = ManagerState()
    resource = state.resource(NAME)
    resource.endpoint = Live("r.sock", SINCE, PluginOptions())
    resource.replace_table(DeviceTable.of(devices))
    return state


def hold(state: ManagerState, container: str, by_node: Mapping[int, tuple[str, ...]], resource: str = NAME) -> None:
    devices = {node: tuple(map(DeviceId, ids)) for node, ids in by_node.items()}
    state.restore(HeldDevices(PodUid("uid"), ContainerName(container), ResourceName(resource), devices, b""))


def pod(**containers: ContainerKind) -> PodRequest:
    requests = [ContainerRequest(ContainerName(name), kind, {}) for name, kind in containers.items()]
    return PodRequest(PodUid("uid"), "ns", "pod", tuple(requests))


def held(pod: PodResources) -> dict[str, Elements]:
    return {
        container.name: [(each.device_ids[0], each.numa_nodes) for each in container.devices]
        for container in pod.containers
    }


def offered(allocatable: AllocatableResources) -> Elements:
    return [(each.device_ids[0], each.numa_nodes) for each in allocatable.devices]


def test_s124_pod_without_devices_is_told_with_its_containers() -> None:
    told = PodResourcesReader(state_of()).pod_v1(pod(a=ContainerKind.APP, b=ContainerKind.APP))
    assert (told.namespace, told.name, held(told)) == ("ns", "pod", {"a": [], "b": []})


def test_s125_device_on_two_nodes_is_two_elements() -> None:
    state = state_of(listed("d", (1, 0)))
    hold(state, "app", {0: ("d",), 1: ("d",)})
    reader = PodResourcesReader(state)
    assert held(reader.pod_v1(pod(app=ContainerKind.APP))) == {"app": [("d", (0,)), ("d", (1,))]}
    assert offered(reader.allocatable()) == [("d", (0,)), ("d", (1,))]


def test_s126_device_without_nodes_is_one_element_without_topology() -> None:
    state = state_of(listed("d"))
    hold(state, "app", {-1: ("d",)})
    reader = PodResourcesReader(state)
    assert held(reader.pod_v1(pod(app=ContainerKind.APP))) == {"app": [("d", None)]}
    assert offered(reader.allocatable()) == [("d", None)]


def test_topology_without_nodes_is_no_element_among_allocatable() -> None:
    assert offered(PodResourcesReader(state_of(listed("empty", ()), listed("none"))).allocatable()) == [("none", None)]


def test_s127_unhealthy_device_is_held_and_not_allocatable() -> None:
    state = state_of(listed("d", health="Unhealthy"), listed("e"))
    hold(state, "app", {-1: ("d",)})
    reader = PodResourcesReader(state)
    assert held(reader.pod_v1(pod(app=ContainerKind.APP))) == {"app": [("d", None)]}
    assert offered(reader.allocatable()) == [("e", None)]


def test_s129_sidecars_stand_before_app_containers_and_init_containers_nowhere() -> None:
    state = state_of()
    for container, device in [("init", "a"), ("side", "b"), ("app", "c")]:
        hold(state, container, {-1: (device,)})
    reader = PodResourcesReader(state)
    request = pod(
        early=ContainerKind.SIDECAR, init=ContainerKind.INIT, side=ContainerKind.SIDECAR, app=ContainerKind.APP
    )
    told = reader.pod_v1(request)
    assert [each.name for each in told.containers] == ["early", "side", "app"]
    assert held(told) == {"early": [], "side": [("b", None)], "app": [("c", None)]}
    assert held(reader.pod_v1alpha1(request)) == {"app": [("c", None)]}


def test_s132_stopped_plugins_devices_are_held_and_not_allocatable() -> None:
    state = state_of(listed("d", (0,)))
    hold(state, "app", {0: ("d",)})
    state.resource(NAME).disconnect(SINCE)
    reader = PodResourcesReader(state)
    assert held(reader.pod_v1(pod(app=ContainerKind.APP))) == {"app": [("d", (0,))]}
    assert offered(reader.allocatable()) == []


def test_node_is_the_one_recorded_at_allocation_while_allocatable_shows_the_live_one() -> None:
    state = state_of(listed("d", (1,)))
    hold(state, "app", {0: ("d",)})
    reader = PodResourcesReader(state)
    assert held(reader.pod_v1(pod(app=ContainerKind.APP))) == {"app": [("d", (0,))]}
    assert offered(reader.allocatable()) == [("d", (1,))]


def test_resources_are_in_order_of_their_names() -> None:
    state = state_of()
    hold(state, "app", {-1: ("d",)}, "example.com/z")
    hold(state, "app", {-1: ("d",)}, "example.com/a")
    (container,) = PodResourcesReader(state).pod_v1(pod(app=ContainerKind.APP)).containers
    assert [each.resource for each in container.devices] == ["example.com/a", "example.com/z"]


nodes = st.none() | st.lists(st.integers(0, 3), unique=True).map(tuple)
devices = st.dictionaries(st.text("abc", max_size=3), st.tuples(nodes, st.sampled_from(["Healthy", "Unhealthy"])))


@given(devices)
def test_allocatable_tells_each_healthy_device_once_per_node(
    table: dict[str, tuple[tuple[int, ...] | None, str]],
) -> None:
    state = state_of(*(listed(name, at, health=health) for name, (at, health) in table.items()))
    allocatable = PodResourcesReader(state).allocatable()
    expected = {
        name: tuple(sorted(at or ())) for name, (at, health) in table.items() if health == "Healthy" and at != ()
    }
    assert distinct_devices(allocatable.devices).get(NAME, {}) == expected
    assert len(allocatable.devices) == sum(len(at) or 1 for at in expected.values())
