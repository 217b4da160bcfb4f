"""The device manager's hints: as a kubelet's, and the cases of spec 5.5 that its samples do not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.allocation.table import DeviceTable
from plugbay.manager.admission.topology_hints import container_hints, pod_hints
from plugbay.manager.state import Expired, HeldDevices, ManagerState
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.topology.hints import Hint, Hints
from plugbay.topology.masks import mask_of

GOLDEN: Final = Path(__file__).parents[3] / "golden/numa-topology/device-hints.json"
NAME: Final = ResourceName("example.com/r")
UID: Final = PodUid("uid-p")
APP: Final = ContainerName("app")
NONE: Final = frozenset[ContainerName]()


def state_of(devices: Iterable[ListedDevice], assigned: Iterable[tuple[str, str, Iterable[str]]] = ()) -> ManagerState:
    """``assigned``: pod, container, devices."""
    state = ManagerState()
    state.resource(NAME).replace_table(DeviceTable.of(devices))
    for pod, container, ids in assigned:
        by_node = {-1: tuple(map(DeviceId, ids))}
        state.restore(HeldDevices(PodUid(pod), ContainerName(container), NAME, by_node, b""))
    return state


def container(name: str, kind: str, number: int) -> ContainerRequest:
    return ContainerRequest(ContainerName(name), ContainerKind(kind), {NAME: number})


def pod_of(*containers: ContainerRequest) -> PodRequest:
    return PodRequest(UID, "default", "p", containers)


def placed(**nodes: tuple[int, ...] | None) -> list[ListedDevice]:
    return [ListedDevice(DeviceId(name), "Healthy", on) for name, on in nodes.items()]


def hint(*nodes: int, preferred: bool) -> Hint:
    return Hint(mask_of(nodes), preferred)


# --- against a kubelet ----------------------------------------------------------------------------------------------


def golden_hints(case: Mapping[str, Any]) -> Hints:
    if case["dont_care"]:
        return None
    return tuple(hint(*each["nodes"], preferred=each["preferred"]) for each in case["hints"])


def found_hints(case: Mapping[str, Any]) -> Hints:
    devices = [
        ListedDevice(each["id"], each["health"], None if each["nodes"] is None else tuple(each["nodes"]))
        for each in case["devices"]
    ]
    state = state_of(devices, ((each["pod"], each["container"], each["devices"]) for each in case["assigned"]))
    # 0 stands for a container that does not name the resource.
    containers = [
        ContainerRequest(
            each["name"], ContainerKind(each["kind"]), {NAME: each["requests"]} if each["requests"] else {}
        )
        for each in case["containers"]
    ]
    machine = case["machine_numa_nodes"]
    if case["scope"] == "pod":
        return pod_hints(state, pod_of(*containers), NAME, running=NONE, machine=machine)
    [asked] = (each for each in containers if each.name == case["container"])
    return container_hints(state, UID, asked, NAME, running=NONE, reusable=(), machine=machine)


def test_kubelets_hints_are_ours() -> None:
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert {case["scope"] for case in cases} == {"container", "pod"}
    for case in cases:
        assert found_hints(case) == golden_hints(case), case


# --- cases of the specification -------------------------------------------------------------------------------------


def hints_for(state: ManagerState, required: int, *, reusable: Iterable[str] = ()) -> Hints:
    wanted = [DeviceId(each) for each in reusable]
    return container_hints(
        state, UID, container("app", "app", required), NAME, running=NONE, reusable=wanted, machine=[0, 1]
    )


def test_s099_devices_without_numa_nodes_do_not_care() -> None:
    assert hints_for(state_of(placed(a=None, b=())), 1) is None
    assert hints_for(state_of(placed(a=None, b=())), 5) is None


def test_s103_more_than_there_is_is_impossible() -> None:
    state = state_of(placed(a=(0,), b=(1,)), [("uid-other", "c", ["a"])])
    assert hints_for(state, 2) == ()
    assert pod_hints(state, pod_of(container("app", "app", 2)), NAME, running=NONE, machine=[0, 1]) == ()


def test_s104_held_devices_alone_make_the_hints() -> None:
    state = state_of(placed(a=(0,), b=(1,), c=(1,)), [(UID, APP, ["a", "b"])])
    assert hints_for(state, 2) == (hint(0, 1, preferred=False),)
    assert hints_for(state, 1) == ()
    assert pod_hints(state, pod_of(container("app", "app", 2)), NAME, running=NONE, machine=[0, 1]) == (
        hint(0, 1, preferred=False),
    )


def test_s105_devices_without_nodes_do_not_count_among_others() -> None:
    state = state_of(placed(a=(0,), b=None, c=()))
    assert hints_for(state, 1) == (hint(0, preferred=True),)
    assert hints_for(state, 2) == ()


@pytest.mark.parametrize(
    ("containers", "most"),
    [
        pytest.param([("i", "init", 2), ("a", "app", 1), ("b", "app", 2)], 3, id="s110-apps-together"),
        pytest.param([("i", "init", 4), ("a", "app", 1), ("b", "app", 2)], 4, id="s110-large-init"),
        pytest.param([("s", "sidecar", 1), ("i", "init", 2), ("a", "app", 1)], 3, id="s111-init-beside-sidecar"),
        pytest.param([("i", "init", 2), ("s", "sidecar", 1), ("a", "app", 1)], 2, id="s111-init-before-sidecar"),
        pytest.param([("a", "app", 0)], 0, id="nothing"),
    ],
)
def test_s110_s111_pod_needs_what_it_has_at_its_most_demanding_moment(
    containers: list[tuple[str, str, int]], most: int
) -> None:
    pod = pod_of(*(container(*each) for each in containers))
    assert pod.most_at_once(NAME) == most
    state = state_of(placed(**{f"d{number}": (number % 2,) for number in range(most)}))
    found = pod_hints(state, pod, NAME, running=NONE, machine=[0, 1])
    assert found is None if most == 0 else found is not None and hint(0, 1, preferred=most > 1) in found


def test_reusable_devices_come_first_and_count() -> None:
    state = state_of(placed(a=(0,), b=(0,), c=(1,), d=(1,)), [(UID, "init", ["a"])])
    assert hints_for(state, 2, reusable=["a"]) == (hint(0, preferred=True), hint(0, 1, preferred=False))


def test_reusable_devices_make_up_for_those_in_use() -> None:
    state = state_of(placed(a=(0,), b=(0,), c=(1,)), [(UID, "init", ["a"]), ("uid-other", "c", ["c"])])
    assert hints_for(state, 2, reusable=["a"]) == (hint(0, preferred=True), hint(0, 1, preferred=False))
    assert hints_for(state, 3, reusable=["a"]) == ()


def test_reusable_device_without_topology_neither_counts_nor_stands_in_the_way() -> None:
    state = state_of(placed(a=None, b=(0,), c=(1,)), [(UID, "init", ["a"])])
    assert hints_for(state, 2, reusable=["a"]) == (hint(0, 1, preferred=True),)


def test_reusable_device_whose_topology_is_empty_stands_in_the_way() -> None:
    state = state_of(placed(a=(), b=(0,), c=(1,)), [(UID, "init", ["a"])])
    assert hints_for(state, 1, reusable=["a"]) == ()


def running_hints(state: ManagerState, *containers: ContainerRequest, running: str) -> tuple[Hints, Hints]:
    """The hints for the last container, and for the pod, while ``running`` runs."""
    names = frozenset({ContainerName(running)})
    return (
        container_hints(state, UID, containers[-1], NAME, running=names, reusable=(), machine=[0, 1]),
        pod_hints(state, pod_of(*containers), NAME, running=names, machine=[0, 1]),
    )


@pytest.mark.parametrize("listed", [{"b": (1,)}, {"a": (0,), "b": (1,), "c": (1,)}, {"a": (0,)}])
def test_devices_that_a_running_pod_holds_are_not_judged_again(listed: dict[str, tuple[int, ...]]) -> None:
    state = state_of(placed(**listed), [(UID, APP, ["a", "b"]), (UID, "ended", ["c"])])
    app, ended = container("app", "app", 2), container("ended", "app", 1)
    assert running_hints(state, app, running="app") == (None, None)
    assert running_hints(state, app, ended, running="app") == (None, None)


def test_running_container_without_devices_is_not_judged_and_later_gets_them_anywhere() -> None:
    state = state_of(placed(a=(0,), b=(1,)))
    assert running_hints(state, container("app", "app", 2), running="app") == (None, None)


def test_what_a_running_pod_still_has_to_get_is_judged_beside_what_it_holds() -> None:
    state = state_of(placed(a=(0,), b=(0,), c=(1,)), [(UID, APP, ["c"])])
    containers = (container("app", "app", 1), container("new", "app", 1))
    alone, beside = running_hints(state, *containers, running="app")
    assert alone == (hint(0, preferred=True), hint(0, 1, preferred=False))
    assert beside == (hint(0, 1, preferred=False),)


def test_vanished_device_lies_nowhere() -> None:
    """A kubelet crashes."""
    state = state_of(placed(b=(0,), c=(1,)), [(UID, "init", ["gone"]), (UID, "app", ["lost"])])
    assert hints_for(state, 1) == ()
    state.remove_pod(UID)
    assert hints_for(state, 1, reusable=["gone"]) == hints_for(state, 1)


def test_gone_plugin_makes_everything_impossible_and_forgotten_one_does_not_care() -> None:
    state = state_of(placed(a=(0,), b=(1,)))
    resource = state.resource(NAME)
    assert resource.table is not None
    resource.table = DeviceTable.of(
        ListedDevice(each.id, "Unhealthy", each.numa_nodes) for each in resource.table.devices
    )
    assert hints_for(state, 1) == ()
    resource.expire()
    assert isinstance(resource.endpoint, Expired)
    assert hints_for(state, 1) is None
    state.restore(HeldDevices(PodUid("uid-other"), APP, NAME, {0: (DeviceId("a"),)}, b""))
    assert hints_for(state, 1) == (), "somebody holds one, and so the resource is not forgotten"
    state.restore(HeldDevices(UID, APP, NAME, {1: (DeviceId("b"),)}, b""))
    assert hints_for(state, 1) == (hint(1, preferred=True), hint(0, 1, preferred=False))
    other = ResourceName("example.com/other")
    assert (
        container_hints(state, UID, container("app", "app", 1), other, running=NONE, reusable=(), machine=[0]) is None
    )
    assert pod_hints(state, pod_of(), other, running=NONE, machine=[0]) is None
