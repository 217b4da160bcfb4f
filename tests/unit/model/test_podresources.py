from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.podresources import ContainerDevices, distinct_devices

GPU = ResourceName("example.com/gpu")
NIC = ResourceName("example.com/nic")


def test_device_on_two_nodes_counts_once() -> None:
    elements = [
        ContainerDevices(NIC, (DeviceId("n0"),)),
        ContainerDevices(GPU, (DeviceId("b"), DeviceId("a")), (1,)),
        ContainerDevices(GPU, (DeviceId("b"),), (0,)),
    ]
    distinct = distinct_devices(elements)
    assert distinct == {GPU: {"a": (1,), "b": (0, 1)}, NIC: {"n0": ()}}
    assert list(distinct) == [GPU, NIC]
    assert list(distinct[GPU]) == ["a", "b"]
