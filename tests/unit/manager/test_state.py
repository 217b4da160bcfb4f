from datetime import UTC, datetime

from plugbay.allocation.table import DeviceTable
from plugbay.manager.state import Expired, HeldDevices, Live, ManagerState, Resource, Stopped
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

NAME = ResourceName("example.com/r")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def table_of(*names: str) -> DeviceTable:
    return DeviceTable.of(ListedDevice(DeviceId(name), "Healthy") for name in names)


def live(*names: str) -> Resource:
    return Resource(NAME, Live("r.sock", SINCE, PluginOptions()), table_of(*names))


def free(resource: Resource) -> set[DeviceId]:
    return set(resource.listed.ids_of(resource.healthy & ~resource.claimed))


def assignment(pod: str, container: str, *devices: str) -> HeldDevices:
    return HeldDevices(PodUid(pod), ContainerName(container), NAME, {-1: tuple(map(DeviceId, devices))}, b"")


def test_claim_survives_a_device_that_leaves_the_list_and_returns() -> None:
    resource = live("a", "b")
    resource.claim([DeviceId("a")])
    resource.replace_table(table_of("b"))
    assert free(resource) == {"b"}
    resource.replace_table(table_of("0", "a", "b"))
    assert free(resource) == {"0", "b"}


def test_reused_device_is_free_when_its_last_holder_lets_go() -> None:
    resource = live("a")
    resource.claim([DeviceId("a")])
    resource.claim([DeviceId("a")])
    resource.unclaim([DeviceId("a")])
    assert free(resource) == set()
    resource.unclaim([DeviceId("a")])
    assert free(resource) == {"a"}


def test_plugin_that_leaves_counts_until_it_expires() -> None:
    resource = live("a", "b")
    resource.disconnect(SINCE)
    assert isinstance(resource.endpoint, Stopped)
    assert (resource.capacity, resource.healthy) == (2, 0)
    assert [device.health for device in resource.listed.devices] == ["Healthy", "Healthy"]
    resource.expire()
    assert isinstance(resource.endpoint, Expired)
    assert (resource.capacity, resource.table) == (0, None)


def test_claims_outlive_expiry() -> None:
    resource = live("a", "b")
    resource.claim([DeviceId("a")])
    resource.expire()
    resource.replace_table(table_of("a", "b"))
    assert free(resource) == {"b"}


def test_removed_pod_gives_back_what_its_containers_held() -> None:
    state = ManagerState()
    state.restore(assignment("p", "init", "a"))
    state.restore(assignment("p", "app", "a", "b"))
    state.restore(assignment("q", "app", "c"))
    state.resource(NAME).replace_table(table_of("a", "b", "c"))
    assert free(state.resource(NAME)) == set()
    state.remove_pod(PodUid("p"))
    assert free(state.resource(NAME)) == {"a", "b"}
    assert state.pods() == {"q"}
    state.remove_pod(PodUid("p"))


def test_device_on_two_nodes_counts_once() -> None:
    on_two = HeldDevices(PodUid("p"), ContainerName("c"), NAME, {0: (DeviceId("a"),), 1: (DeviceId("a"),)}, b"")
    assert on_two.devices == {"a"}
