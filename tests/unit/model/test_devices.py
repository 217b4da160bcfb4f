"""What makes a device legal, and how a list of them is indexed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import DuplicateDevice, InvalidDevice, InvalidDeviceId
from plugbay.model.devices import Device, ListedDevice, index_devices
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount
from plugbay.model.health import HEALTHY, Health, HealthState, unhealthy, unknown
from plugbay.model.ids import DeviceId
from plugbay.model.sharing import Replicas


def test_a_device_is_healthy_and_plain_unless_said_otherwise() -> None:
    device = Device("g1")
    assert (device.id, device.health, device.numa_nodes) == ("g1", HEALTHY, frozenset())
    assert device.edits is NO_EDITS


def test_a_device_keeps_what_it_is_given() -> None:
    env = {"Gopher": "g1"}
    device = Device(
        "g1", health=unhealthy("Lost"), numa_nodes=[1, 0, 1], env=env, mounts=[Mount("/h", container_path="/c")]
    )
    env["Gopher"] = "changed by the caller"
    assert device.numa_nodes == {0, 1}
    assert device.edits == ContainerEdits(env={"Gopher": "g1"}, mounts=(Mount("/h", container_path="/c"),))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(lambda: Device("d", numa_nodes=[64]), "NUMA node 64 is not between 0 and 63", id="numa-64"),
        pytest.param(lambda: Device("d", numa_nodes=[-1]), "NUMA node -1 is not between 0 and 63", id="numa-negative"),
        pytest.param(lambda: Device("d", env={"": "x"}), "'' is not usable as an environment variable", id="env-empty"),
        pytest.param(lambda: Device("d", env={"A=B": "x"}), "'A=B' is not usable", id="env-equals-sign"),
        pytest.param(lambda: Device("d", env={"A": "x\0"}), "'A' is not usable", id="env-nul"),
        pytest.param(
            lambda: Device("d", device_nodes=[DeviceNode("/dev/x", permissions="rx")]),
            "permissions 'rx' of /dev/x are not made of r, w and m",
            id="permissions",
        ),
        pytest.param(
            lambda: Device("d", device_nodes=[DeviceNode("/dev/x", permissions="")]),
            "permissions ''",
            id="no-permission",
        ),
        pytest.param(
            lambda: Device("d", mounts=[Mount("/h", container_path="c")]),
            "path 'c' is not absolute",
            id="container-path",
        ),
        pytest.param(
            lambda: Device("d", mounts=[Mount("h", container_path="/c")]), "path 'h' is not absolute", id="host-path"
        ),
        pytest.param(
            lambda: Device("d", device_nodes=[DeviceNode("", container_path="/c")]),
            "path '' is not absolute",
            id="node-path",
        ),
        pytest.param(
            lambda: Device("d", mounts=[Mount("/h\0", container_path="/c")]),
            r"path '/h\x00' is not a str",
            id="path-nul",
        ),
        pytest.param(lambda: Device("d", annotations={"a": "\udcff"}), r"annotation 'a': '\udcff'", id="not-utf-8"),
    ],
)
def test_edits_no_kubelet_could_pass_on(make: Callable[[], Device], sentence: str) -> None:
    with pytest.raises(InvalidDevice) as refusal:
        make()
    assert str(refusal.value).startswith(f"device d: {sentence}")


def test_an_id_is_checked() -> None:
    with pytest.raises(InvalidDeviceId):
        Device("x" * 64)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        pytest.param({"health": False}, "health False is not a plugbay.Health, such as HEALTHY", id="health"),
        pytest.param({"numa_nodes": 0}, "numa_nodes 0 is not a list", id="numa"),
        pytest.param({"numa_nodes": ["0"]}, "NUMA node '0' is not between 0 and 63", id="numa-text"),
        pytest.param({"env": ["A"]}, "env ['A'] is not a mapping", id="env"),
        pytest.param(
            {"env": {"A": 5}}, "'A' is not usable as an environment variable: its value is 5", id="env-number"
        ),
        pytest.param({"annotations": {"a": 5}}, "annotation 'a': 5 is not made of two texts", id="annotation"),
        pytest.param({"mounts": [("/c", "/h")]}, "mount ('/c', '/h') is not a plugbay.Mount", id="mount"),
        pytest.param({"device_nodes": "/dev/x"}, "device_nodes '/dev/x' is not a list", id="nodes"),
        pytest.param({"device_nodes": ["/dev/x"]}, "device node '/dev/x' is not a plugbay.DeviceNode", id="node"),
        pytest.param({"cdi_devices": "a/b=c"}, "cdi_devices 'a/b=c' is not a list", id="cdi-text"),
        pytest.param(
            {"cdi_devices": [5]}, "CDI device 5 is not a qualified name such as example.com/card=card0", id="cdi-number"
        ),
        pytest.param(
            {"cdi_devices": ["card0"]},
            "CDI device 'card0' is not a qualified name such as example.com/card=card0",
            id="cdi-unqualified",
        ),
        pytest.param({"env": {"A B": "x"}}, "'A B' is not usable as an environment variable", id="env-space"),
        pytest.param(
            {"device_nodes": [DeviceNode(5)]},  # type: ignore[arg-type]
            "path 5 is not a str or an os.PathLike without NUL",
            id="path-number",
        ),
        pytest.param({"attributes": ["x"]}, "attributes ['x'] is not a mapping", id="attributes"),
        pytest.param({"capacity": 5}, "capacity 5 is not a mapping", id="capacity"),
        pytest.param({"sharing": 3}, "sharing 3 is neither EXCLUSIVE nor Replicas(...)", id="sharing"),
        pytest.param({"sharing": Replicas("3")}, "'3' replicas are not between 1 and 10000", id="replicas"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_other_types_are_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidDevice) as refusal:
        Device("d", **wrong)
    assert str(refusal.value) == f"device d: {sentence}"


@pytest.mark.parametrize("wrong", [5, b"x", None])
def test_an_id_is_a_text(wrong: Any) -> None:
    with pytest.raises(InvalidDeviceId, match="is not a text"):
        Device(wrong)


def test_a_long_id_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidDeviceId) as refusal:
        Device("x" * 5000)
    assert str(refusal.value) == f"device ID '{'x' * 98}… has 5000 bytes; the device plugin API allows 63"


@given(st.lists(st.sampled_from("abcdefgh"), max_size=6))
def test_index_keeps_order_or_names_the_first_repeated_id(names: list[str]) -> None:
    devices = [Device(name) for name in names]
    repeated = [name for index, name in enumerate(names) if name in names[:index]]
    if not repeated:
        assert list(index_devices(devices).items()) == list(zip(names, devices, strict=True))
        return
    with pytest.raises(DuplicateDevice) as refusal:
        index_devices(devices)
    assert refusal.value.device_id == repeated[0]


@pytest.mark.parametrize("health", ["Unhealthy", "healthy", "HEALTHY", "", "Healthy "])
def test_only_one_text_is_healthy_on_the_wire(health: str) -> None:
    assert not ListedDevice(DeviceId("d"), health).is_healthy
    assert ListedDevice(DeviceId("d"), "Healthy").is_healthy


@pytest.mark.parametrize(
    ("health", "text"),
    [
        (HEALTHY, "Healthy"),
        (unhealthy(), "Unhealthy"),
        (unhealthy("XidError"), "Unhealthy (XidError)"),
        (unhealthy("XidError", "Xid 79"), "Unhealthy (XidError: Xid 79)"),
        (unknown(message="no answer"), "Unknown (no answer)"),
    ],
    ids=str,
)
def test_health_for_people(health: Health, text: str) -> None:
    assert str(health) == text
    assert health.is_healthy is (health.state is HealthState.HEALTHY)


def test_device_in_another_state_is_otherwise_the_same() -> None:
    device = Device("g1", numa_nodes=[1], env={"Gopher": "g1"})
    assert device.with_health(unhealthy("Hot")) == Device(
        "g1", health=unhealthy("Hot"), numa_nodes=[1], env={"Gopher": "g1"}
    )
    assert device.with_health(HEALTHY) is device
