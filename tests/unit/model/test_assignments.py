from __future__ import annotations

import pickle
from typing import Any

import pytest

from plugbay.model.assignments import Assignment, AssignmentKey, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

POD = Owner(namespace="default", pod="web", container=ContainerName("main"))


def assignment(*devices: str, **more: Any) -> Assignment:
    ids = tuple(map(DeviceId, devices))
    given: dict[str, Any] = {"key": AssignmentKey("k1"), "resource": ResourceName("example.com/gpu"), "device_ids": ids}
    return Assignment(**given | more)


def test_simple_case_says_the_devices_once_and_knows_no_owner() -> None:
    simple = assignment("a", "b")
    assert (simple.units, simple.owners, simple.owner) == (("a", "b"), (), None)
    assert str(simple) == "a, b of example.com/gpu, given to a pod that is not known"


def test_replicas_are_units_of_one_device() -> None:
    shared = assignment("gpu0", units=(DeviceId("gpu0::0"), DeviceId("gpu0::3")), owners=(POD,))
    assert shared.device_ids == ("gpu0",)
    assert str(shared) == "gpu0::0, gpu0::3 of example.com/gpu, given to default/web, container main"


def test_owner_is_the_only_one() -> None:
    other = Owner(namespace="default", pod="web", container=ContainerName("init"))
    assert assignment("a", owners=(POD,)).owner == POD
    assert assignment("a", owners=(POD, other)).owner is None


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (Owner(uid=PodUid("u-1")), "u-1"),
        (Owner(uid=PodUid("u-1"), container=ContainerName("main")), "u-1, container main"),
        (Owner(namespace="default", pod="web", uid=PodUid("u-1")), "default/web"),
    ],
)
def test_owner_is_named_by_what_is_known(owner: Owner, text: str) -> None:
    assert str(owner) == text


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: assignment(), "has no devices"),
        (lambda: assignment("a", "a"), "has a device twice: a, a"),
        (lambda: assignment("a", units=(DeviceId("a::0"), DeviceId("a::0"))), "has a device twice"),
        (lambda: assignment("a", key=AssignmentKey("")), "has a key"),
        (lambda: Owner(container=ContainerName("main")), "at least the name or the UID of a pod"),
    ],
)
def test_illegal_ones_cannot_be_made(wrong: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        wrong()


def test_it_is_a_value() -> None:
    one = assignment("a", owners=(POD,))
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, assignment("a", owners=(POD,))}) == 1
