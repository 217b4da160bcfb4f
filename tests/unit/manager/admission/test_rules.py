"""The order of checks of spec 4.5 and the restart rules of 4.7, without a plugin."""

from datetime import UTC, datetime

import pytest

from plugbay.allocation.table import DeviceTable
from plugbay.errors import (
    AdmissionError,
    ChangedRequest,
    NoHealthyDevices,
    PreviousDevicesUnhealthy,
    UnregisteredResource,
)
from plugbay.manager.admission.rules import ReuseList, Survival, Wish, missing_devices, survival_of
from plugbay.manager.state import Expired, HeldDevices, Live, Resource
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest

NAME = ResourceName("example.com/r")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def resource_with(**health: str) -> Resource:
    table = DeviceTable.of(ListedDevice(DeviceId(name), text) for name, text in health.items())
    return Resource(NAME, Live("r.sock", SINCE, PluginOptions()), table)


def restored() -> Resource:
    resource = Resource(NAME, Expired())
    resource.restore(SINCE)
    return resource


def expired() -> Resource:
    resource = resource_with(a="Healthy")
    resource.disconnect(SINCE)
    resource.expire()
    return resource


def held(*devices: str) -> HeldDevices:
    by_node = {-1: tuple(map(DeviceId, devices))}
    return HeldDevices(PodUid("u"), ContainerName("c"), NAME, by_node, b"")


def wish(required: int, had: HeldDevices | None = None, survival: Survival = Survival.NEW) -> Wish:
    return Wish(PodUid("u"), ContainerName("c"), NAME, required, survival, had)


@pytest.mark.parametrize(
    ("asked", "resource", "missing"),
    [
        pytest.param(wish(2), resource_with(a="Healthy"), 2, id="new"),
        pytest.param(wish(1, held("a")), resource_with(a="Healthy"), 0, id="has-its-devices"),
        pytest.param(wish(0), resource_with(a="Healthy"), 0, id="zero"),
        pytest.param(wish(0), None, 0, id="zero-of-an-unknown-resource"),
        pytest.param(wish(1, held("a"), Survival.RUNNING), restored(), 0, id="running-before-the-plugin-is-back"),
        pytest.param(wish(1, held("a"), Survival.RUNNING), resource_with(a="bad"), 0, id="running-on-a-sick-device"),
        pytest.param(wish(1, None, Survival.RUNNING), None, 0, id="running-with-a-lost-store"),
        pytest.param(wish(1, held("a"), Survival.COMPLETED_INIT), restored(), 0, id="init-done-and-pod-running"),
    ],
)
def test_nothing_stands_against_it(asked: Wish, resource: Resource | None, missing: int) -> None:
    assert missing_devices(asked, resource) == missing


@pytest.mark.parametrize(
    ("asked", "resource", "error", "text"),
    [
        pytest.param(
            wish(2, held("a"), Survival.RUNNING),
            None,
            ChangedRequest,
            'pod "u" container "c" changed request for resource "example.com/r" from 1 to 2',
            id="1-changed-even-if-running",
        ),
        pytest.param(
            wish(1), None, UnregisteredResource, "cannot allocate unregistered device example.com/r", id="4-unknown"
        ),
        pytest.param(
            wish(1),
            expired(),
            UnregisteredResource,
            "cannot allocate unregistered device example.com/r",
            id="4-expired",
        ),
        pytest.param(
            wish(1),
            restored(),
            NoHealthyDevices,
            "no healthy devices present; cannot allocate unhealthy devices example.com/r",
            id="5-restored",
        ),
        pytest.param(
            wish(0),
            resource_with(a="Unhealthy"),
            NoHealthyDevices,
            "no healthy devices present; cannot allocate unhealthy devices example.com/r",
            id="5-even-for-zero",
        ),
        pytest.param(
            wish(1, held("a")),
            resource_with(a="Unhealthy", b="Healthy"),
            PreviousDevicesUnhealthy,
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/r",
            id="6-sick",
        ),
        pytest.param(
            wish(1, held("a")),
            resource_with(b="Healthy"),
            PreviousDevicesUnhealthy,
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/r",
            id="6-vanished",
        ),
    ],
)
def test_refusals_in_order(asked: Wish, resource: Resource | None, error: type[AdmissionError], text: str) -> None:
    with pytest.raises(error) as caught:
        missing_devices(asked, resource)
    assert str(caught.value) == text


def test_survival_of_containers_after_a_restart() -> None:
    running = frozenset({ContainerName("app")})
    by_kind = {kind: ContainerRequest(ContainerName("x"), kind, {}) for kind in ContainerKind}
    assert survival_of(ContainerRequest(ContainerName("app"), ContainerKind.APP, {}), running) is Survival.RUNNING
    assert survival_of(by_kind[ContainerKind.INIT], running) is Survival.COMPLETED_INIT
    assert survival_of(by_kind[ContainerKind.INIT], frozenset()) is Survival.NEW
    assert survival_of(by_kind[ContainerKind.APP], running) is Survival.NEW


def test_only_init_containers_leave_devices_to_later_ones() -> None:
    reuse = ReuseList()
    reuse.after(ContainerKind.INIT, frozenset(map(DeviceId, "abc")))
    assert reuse.devices == {"a", "b", "c"}
    reuse.after(ContainerKind.SIDECAR, frozenset({DeviceId("a")}))
    reuse.after(ContainerKind.APP, frozenset({DeviceId("b")}))
    assert reuse.devices == {"c"}
