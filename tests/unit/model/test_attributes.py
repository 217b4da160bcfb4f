from __future__ import annotations

from typing import Any

import pytest

from plugbay import EXCLUSIVE, Device, Replicas, unhealthy
from plugbay.errors import InvalidDevice, InvalidDeviceId
from plugbay.model.quantity import Quantity


def test_device_says_what_it_is_like() -> None:
    device = Device(
        "gpu0",
        attributes={"model": "A1", "example.com/driver": 535, "ecc": True, "links": (1, 2)},
        capacity={"memory": "80Gi", "engines": 7, "example.com/rate": Quantity.parse("1500m")},
    )
    assert device.attributes["links"] == (1, 2)
    assert {key: str(amount) for key, amount in device.capacity.items()} == {
        "memory": "80Gi",
        "engines": "7",
        "example.com/rate": "1500m",
    }
    assert device.sharing == EXCLUSIVE
    assert device.with_health(unhealthy("Hot")).capacity == device.capacity


@pytest.mark.parametrize("key", ["", "0x", "a-b", "x" * 33, "Example.com/x", "a/b/c", "/x", f"{'a' * 64}/x"])
@pytest.mark.parametrize("kind", ["attributes", "capacity"])
def test_names_are_checked(kind: str, key: str) -> None:
    given: dict[str, Any] = {kind: {key: 1}}
    with pytest.raises(InvalidDevice, match="is not a name for an attribute or capacity"):
        Device("gpu0", **given)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"a": 2**63}, "does not fit in 64 bits"),
        ({"a": "é" * 33}, "more than 64 bytes"),
        ({"a": 1.5}, "is 1.5, which is not a bool, int, str or SemVer"),
        ({"a": ()}, "is an empty list"),
        ({"a": (1, "x")}, "is a list of several types"),
        ({"a": (1, True)}, "is a list of several types"),
        ({f"a{number}": 1 for number in range(27)}, "27 attributes and capacities are more than 26"),
        ({"a": tuple(range(49))}, "49 values of attributes are more than 48"),
    ],
)
def test_values_are_checked(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDevice, match=problem):
        Device("gpu0", attributes=attributes)


@pytest.mark.parametrize(("amount", "problem"), [("much", "is not a number"), (-1, "is less than nothing")])
def test_amounts_are_checked(amount: str | int, problem: str) -> None:
    with pytest.raises(InvalidDevice, match=f"device gpu0: capacity 'memory'.* {problem}"):
        Device("gpu0", capacity={"memory": amount})


def test_replicas_are_listed_as_devices_of_their_own() -> None:
    device = Device("gpu0", sharing=Replicas(3), env={"GPU": "0"}, numa_nodes=[1])
    assert [each.id for each in device.listed()] == ["gpu0::0", "gpu0::1", "gpu0::2"]
    assert {each.edits.env["GPU"] for each in device.listed()} == {"0"}
    assert Device("gpu0").listed() == (Device("gpu0"),)


def test_number_and_names_of_replicas_are_checked() -> None:
    for count in (0, -1, 10_001):
        with pytest.raises(InvalidDevice, match="replicas are not between 1 and 10000"):
            Device("gpu0", sharing=Replicas(count))
    assert Device("x" * 60, sharing=Replicas(10)).listed()[9].id == "x" * 60 + "::9"
    with pytest.raises(InvalidDeviceId, match="has 64 bytes"):
        Device("x" * 60, sharing=Replicas(11))
