"""What goes into a checkpoint, and what is taken from one."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from plugbay.allocation.table import DeviceTable
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.manager.checkpoint.foreign import imported_state
from plugbay.manager.checkpoint.view import holdings_of
from plugbay.manager.state import HeldDevices, Live, ManagerState
from plugbay.model.devices import ListedDevice, PluginOptions
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = ResourceName("example.com/a")


def entry(container: str = "c", *, device: str = "d", response: bytes | None = b"") -> PodDevicesEntry:
    return PodDevicesEntry("p", container, NAME, {0: (device,)}, response)


def assignment(container: str = "c", *, device: str = "d", response: bytes = b"") -> HeldDevices:
    return HeldDevices(PodUid("p"), ContainerName(container), NAME, {0: (DeviceId(device),)}, response)


def test_resource_is_registered_from_its_first_list_until_it_expires() -> None:
    state = ManagerState()
    resource = state.resource(NAME)
    resource.endpoint = Live("a.sock", NOW, PluginOptions())
    assert NAME not in holdings_of(state).registered
    resource.replace_table(DeviceTable.of([ListedDevice(DeviceId("d"), "Healthy")]))
    assert holdings_of(state).registered[NAME].healthy == 1
    resource.disconnect(NOW)
    assert holdings_of(state).registered[NAME].healthy == 0
    resource.restore(NOW)
    assert holdings_of(state).registered[NAME].healthy == 0
    resource.expire()
    assert NAME not in holdings_of(state).registered


def test_assignments_of_expired_resources_stay() -> None:
    state = ManagerState()
    state.restore(assignment())
    assert holdings_of(state).assignments == [assignment()]
    assert holdings_of(state).registered == {}


def test_import_takes_entries_and_names() -> None:
    imported = imported_state(CheckpointData((entry(),), {"b": ("x",), "a": None}))
    assert imported.assignments == (assignment(),)
    assert imported.resources == ("a", "b")


def test_import_of_nulls_is_empty() -> None:
    assert imported_state(CheckpointData(None, None)).assignments == ()
    bare = imported_state(CheckpointData((PodDevicesEntry(),), {})).assignments
    assert bare == (HeldDevices(PodUid(""), ContainerName(""), ResourceName(""), {}, b""),)


def test_last_entry_of_several_for_one_container_counts() -> None:
    imported = imported_state(CheckpointData((entry(device="old"), entry(device="new")), {}))
    assert imported.assignments == (assignment(device="new"),)


def test_s120_entry_with_an_undecodable_response_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    data = CheckpointData((entry("bad", response=b"\xff"), entry("good"), entry("null", response=None)), {})
    with caplog.at_level(logging.WARNING):
        imported = imported_state(data)
    assert imported.assignments == (assignment("good"), assignment("null"))
    assert "left out example.com/a of pod p, container bad: its response is" in caplog.text
