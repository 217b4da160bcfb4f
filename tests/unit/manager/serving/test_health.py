from datetime import UTC, datetime

from plugbay.allocation.table import DeviceTable
from plugbay.manager.serving.snapshot import health_of
from plugbay.manager.state import HeldDevices, Live, ManagerState
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
GOPHER, MARMOT = ResourceName("example.com/gopher"), ResourceName("example.com/marmot")


def state_with(*assignments: HeldDevices, **health: str) -> ManagerState:
    """Both resources list the same IDs; ``health`` is that of the gophers, all marmots are well."""
    state = ManagerState()
    for name in (GOPHER, MARMOT):
        resource = state.resource(name)
        resource.endpoint = Live("s.sock", SINCE, PluginOptions())
        listed = health if name is GOPHER else dict.fromkeys(health, "Healthy")
        resource.replace_table(DeviceTable.of(ListedDevice(DeviceId(id), text) for id, text in listed.items()))
    for assignment in assignments:
        state.restore(assignment)
    return state


def holds(pod: str, container: str, resource: ResourceName, *devices: str) -> HeldDevices:
    return HeldDevices(PodUid(pod), ContainerName(container), resource, {-1: tuple(map(DeviceId, devices))}, b"")


def test_any_text_but_healthy_is_unhealthy_and_everything_is_sorted() -> None:
    state = state_with(holds("p", "c", MARMOT, "a"), holds("p", "c", GOPHER, "b", "a"), a="Healthy", b="broken")
    shown = health_of(state, PodUid("p"))
    assert shown == {
        "c": {GOPHER: {"a": HealthState.HEALTHY, "b": HealthState.UNHEALTHY}, MARMOT: {"a": HealthState.HEALTHY}}
    }
    assert [list(by_resource) for by_resource in shown.values()] == [[GOPHER, MARMOT]]
    assert list(shown[ContainerName("c")][GOPHER]) == ["a", "b"]


def test_a_device_that_left_the_list_counts_as_healthy() -> None:
    state = state_with(holds("p", "c", GOPHER, "gone"), a="Healthy")
    assert health_of(state, PodUid("p")) == {"c": {GOPHER: {"gone": HealthState.HEALTHY}}}


def test_the_last_health_stays_when_the_plugin_goes() -> None:
    state = state_with(holds("p", "c", GOPHER, "a", "b"), a="Healthy", b="Unhealthy")
    before = health_of(state, PodUid("p"))
    state.resource(GOPHER).disconnect(SINCE)
    assert health_of(state, PodUid("p")) == before


def test_holders_are_found_by_resource_and_device() -> None:
    """A kubelet 1.36 looks for the device ID alone, and may tell the wrong pod (issue #140268)."""
    state = state_with(
        holds("p", "c", GOPHER, "a"), holds("q", "c", MARMOT, "a"), holds("r", "c", GOPHER, "b"), a="Healthy"
    )
    assert state.holders(GOPHER, frozenset({DeviceId("a")})) == {"p"}
