"""Every value that the strategies make is taken where it belongs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from plugbay.manifest.load import pod_from_v1
from plugbay.model.devices import Device, ListedDevice, index_devices
from plugbay.model.ids import ContainerName, is_extended_resource, parse_device_id
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.model.topology import NumaTopology
from plugbay.testing import strategies
from plugbay.wire.device_list import DeviceListReader, NewList, encode_devices

FIRST: Final = settings(max_examples=5000, phases=[Phase.generate])
"""The first value that is found will do: to make it smaller takes minutes."""


@given(strategies.resource_names())
def test_names_can_be_registered(name: str) -> None:
    assert is_extended_resource(name)


@given(strategies.device_ids())
def test_ids_are_allowed(text: str) -> None:
    assert parse_device_id(text) == text


@pytest.mark.parametrize("wanted", [63, 1])
def test_ids_reach_the_limits(wanted: int) -> None:
    assert len(find(strategies.device_ids(), lambda text: len(text.encode()) == wanted)) == wanted


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(strategies.device_lists())
def test_lists_survive_the_wire(devices: tuple[Device, ...]) -> None:
    assert list(index_devices(devices).values()) == list(devices)
    update = DeviceListReader().read(encode_devices(devices))
    assert isinstance(update, NewList)
    assert [device.id for device in update.devices] == [device.id for device in devices]
    for sent, read in zip(devices, update.devices, strict=True):
        assert isinstance(read, ListedDevice)
        assert read.is_healthy is sent.health.is_healthy
        assert set(read.numa_nodes or ()) == sent.numa_nodes


def test_sequences_have_devices_that_fail_recover_go_and_come_back() -> None:
    def recovers(sequence: tuple[tuple[Device, ...], ...]) -> bool:
        health = [{device.id: device.health.is_healthy for device in devices} for devices in sequence]
        return any(
            before.get(each) is False and after.get(each) is True
            for before, after in pairwise(health)
            for each in before
        )

    def returns(sequence: tuple[tuple[Device, ...], ...]) -> bool:
        ids = [{device.id for device in devices} for devices in sequence]
        return any(first & last - between for first, between, last in zip(ids, ids[1:], ids[2:], strict=False))

    for wanted in (recovers, returns):
        find(strategies.device_list_sequences(), wanted, settings=FIRST)


@given(strategies.numa_topologies(max_nodes=6))
def test_topologies_are_those_of_machines(topology: NumaTopology) -> None:
    assert 1 <= len(topology.nodes) <= 6
    assert list(topology.nodes) == sorted(set(topology.nodes))
    for one, others in topology.distances.items():
        assert tuple(others) == topology.nodes
        assert others[one] == 10
        assert all(topology.distances[other][one] == distance for other, distance in others.items())


@given(strategies.pod_requests(["example.com/a", "example.com/b"], most=2, max_containers=3))
def test_pods_ask_for_the_resources(pod: PodRequest) -> None:
    assert 1 <= len(pod.containers) <= 3
    assert pod.containers[-1].kind is ContainerKind.APP
    for container in pod.containers:
        assert set(container.limits) <= {"example.com/a", "example.com/b"}
        assert all(0 <= amount <= 2 for amount in container.limits.values())


@pytest.mark.parametrize("kind", list(ContainerKind))
def test_pods_have_containers_of_each_kind(kind: ContainerKind) -> None:
    pod = find(strategies.pod_requests(), lambda pod: any(each.kind is kind for each in pod.containers))
    assert len(pod.containers) == (1 if kind is ContainerKind.APP else 2)


@given(strategies.pod_manifests(), st.data())
def test_manifests_are_read_without_a_warning(manifest: dict[str, Any], data: st.DataObject) -> None:
    pod = pod_from_v1(manifest)
    assert pod.name == manifest["metadata"]["name"]
    wanted = data.draw(st.sampled_from([*manifest["spec"].get("initContainers", ()), *manifest["spec"]["containers"]]))
    assert ContainerName(wanted["name"]) in {each.name for each in (*pod.spec.init_containers, *pod.spec.containers)}
