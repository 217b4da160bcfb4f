import time

from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation import bitsets
from plugbay.allocation.table import DeviceTable
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import DeviceId

device_ids = st.integers(0, 20).map(lambda number: DeviceId(f"d{number}"))
listed = st.builds(
    ListedDevice,
    device_ids,
    st.sampled_from(["Healthy", "Unhealthy", "healthy", ""]),
    st.none() | st.lists(st.integers(-1, 3), max_size=2, unique=True).map(tuple),
)


@given(st.lists(listed, max_size=20))
def test_last_occurrence_of_an_id_counts_once(devices: list[ListedDevice]) -> None:
    table = DeviceTable.of(devices)
    last = {device.id: device for device in devices}
    assert {device.id: device for device in table.devices} == last
    assert table.healthy.bit_count() == sum(device.health == "Healthy" for device in last.values())


@given(st.lists(listed, max_size=20), st.data())
def test_changes_give_the_same_table_as_a_new_list(devices: list[ListedDevice], data: st.DataObject) -> None:
    table = DeviceTable.of(devices)
    changed = [data.draw(listed) for _ in range(data.draw(st.integers(0, 5)))]
    changed = [device for device in changed if device.id in table.ranks]
    assert table.with_changes(changed) == DeviceTable.of([*devices, *changed])


@given(st.lists(listed, max_size=20))
def test_rank_order_is_the_order_of_ids(devices: list[ListedDevice]) -> None:
    table = DeviceTable.of(devices)
    everything = bitsets.from_ranks(range(len(table.devices)))
    assert list(table.ids_of(everything)) == sorted({device.id for device in devices})
    assert table.set_of(device.id for device in devices) == everything


def test_device_that_left_the_list_has_no_numa_nodes() -> None:
    table = DeviceTable.of([ListedDevice(DeviceId("a"), "Healthy", (1,))])
    assert table.numa_nodes(DeviceId("a")) == (1,)
    assert table.numa_nodes(DeviceId("gone")) == ()


def test_list_that_names_a_node_for_each_device_is_no_burden() -> None:
    devices = [ListedDevice(DeviceId(f"d{number:05}"), "Healthy", (number, number)) for number in range(10_000)]
    began = time.process_time()
    table = DeviceTable.of(devices)
    assert time.process_time() - began < 1
    assert all(table.by_node[number] == 1 << number for number in range(10_000))
