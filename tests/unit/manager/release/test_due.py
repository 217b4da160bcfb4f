"""Which calls are due at the end of a use (spec 12.5, 12.6)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from plugbay.manager.release.due import DueCalls, still_due
from plugbay.manager.state import EndpointState, Expired, HeldDevices, Live, ManagerState, Restored, Stopped
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationKind, ReleaseReason
from plugbay.testing import ManualClock

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
GOPHER, POD, APP, INIT = ResourceName("example.com/gopher"), PodUid("p"), ContainerName("app"), ContainerName("init")
WANTS, DECLINES = PluginOptions(deallocate_required=True, post_stop_required=True), PluginOptions()


def state_with(endpoint: EndpointState) -> ManagerState:
    state = ManagerState()
    state.resource(GOPHER).endpoint = endpoint
    for container, device in ((INIT, "b"), (APP, "a"), (APP, "b")):
        held = state.assignment(POD, container, GOPHER)
        ids = (*(held.devices if held else ()), DeviceId(device))
        state.restore(HeldDevices(POD, container, GOPHER, {-1: ids}, b""))
    return state


def due(state: ManagerState, *, is_enabled: bool = True) -> DueCalls:
    return DueCalls(clock=ManualClock(), state=state, is_enabled=is_enabled)


@pytest.mark.parametrize(
    ("endpoint", "is_wanted"),
    [
        pytest.param(Live("s", SINCE, WANTS), True, id="wants"),
        pytest.param(Live("s", SINCE, DECLINES), False, id="declines"),
        pytest.param(Stopped("s", SINCE, WANTS), True, id="stopped"),
        pytest.param(Expired(DECLINES), False, id="expired"),
        pytest.param(Expired(), True, id="options-unknown"),
        pytest.param(Restored(SINCE), True, id="restored"),
    ],
)
@pytest.mark.parametrize("is_enabled", [True, False])
def test_plugins_get_the_calls_they_want_or_may_want(
    endpoint: EndpointState, is_wanted: bool, is_enabled: bool
) -> None:
    state = state_with(endpoint)
    calls = due(state, is_enabled=is_enabled)
    assert bool(calls.at_end_of_pod(POD, ReleaseReason.POD_ENDED)) is (is_wanted and is_enabled)
    assert bool(calls.at_end_of_container(POD, APP, "1", {GOPHER})) is (is_wanted and is_enabled)


def test_a_pod_has_one_deallocate_for_all_its_containers() -> None:
    (operation,) = due(state_with(Live("s", SINCE, WANTS))).at_end_of_pod(POD, ReleaseReason.POD_ENDED)
    assert (operation.kind, operation.devices) == (OperationKind.DEALLOCATE, ("a", "b"))


def test_a_container_has_post_stop_for_its_own_devices() -> None:
    calls = due(state_with(Live("s", SINCE, WANTS)))
    (operation,) = calls.at_end_of_container(POD, INIT, "1", {GOPHER})
    assert (operation.devices, operation.container, operation.instance) == (("b",), INIT, "1")
    assert calls.at_end_of_container(POD, INIT, "1", set()) == []


def test_devices_of_other_pods_are_not_deallocated_after_a_restart() -> None:
    state = state_with(Live("s", SINCE, WANTS))
    calls = due(state)
    deallocate = calls.deallocate(GOPHER, map(DeviceId, "abc"), PodUid("q"), ReleaseReason.POD_ENDED)
    (post_stop,) = calls.at_end_of_container(POD, APP, "1", {GOPHER})
    first, second = still_due([deallocate, post_stop], state)
    assert (first.devices, second.devices) == (("c",), ("a", "b"))
    assert still_due([calls.deallocate(GOPHER, [DeviceId("a")], POD, ReleaseReason.POD_ENDED)], state) == []
