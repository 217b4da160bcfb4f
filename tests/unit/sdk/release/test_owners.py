"""Whose devices are, by what PodResources tells."""

from __future__ import annotations

from dataclasses import replace

from plugbay.model.assignments import AssignmentKey, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.podresources import ContainerDevices, ContainerResources, PodResources
from plugbay.sdk.release.evidence.owners import with_owners
from plugbay.sdk.release.uses import Use

GOPHER, OTHER = ResourceName("example.com/gopher"), ResourceName("example.com/other")
A, B = DeviceId("a"), DeviceId("b")
USE = Use(key=AssignmentKey("k"), resource=GOPHER, units={A: A}, since=100, life="1", pod=PodUid("uid"))


def pod(name: str, *held: tuple[str, ResourceName, DeviceId]) -> PodResources:
    containers = [
        ContainerResources(ContainerName(container), (ContainerDevices(resource, (device,)),))
        for container, resource, device in held
    ]
    return PodResources("default", name, tuple(containers))


def owner(pod: str, container: str) -> Owner:
    return Owner(namespace="default", pod=pod, container=ContainerName(container), uid=PodUid("uid"))


def test_containers_with_one_of_the_devices() -> None:
    pods = [
        pod("p", ("app", GOPHER, A), ("side", GOPHER, A), ("none", GOPHER, B)),
        pod("q", ("app", OTHER, A)),
    ]
    assert with_owners(USE, pods, as_of=101).owners == (owner("p", "app"), owner("p", "side"))


def test_what_is_not_told_stays() -> None:
    known = replace(USE, owners=(owner("p", "app"),))
    assert with_owners(known, [pod("p", ("app", GOPHER, B))], as_of=101) is known


def test_list_from_before_the_use_is_of_whoever_had_the_devices_before() -> None:
    for as_of in (99, 100):
        assert with_owners(USE, [pod("p", ("app", GOPHER, A))], as_of=as_of) is USE
