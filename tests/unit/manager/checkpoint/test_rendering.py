"""The incremental file beside the plain way to make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from plugbay.allocation.table import NO_DEVICES, DeviceTable
from plugbay.kubelet.checkpoint import encode, load
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry, checksum
from plugbay.manager.checkpoint.rendering import Holdings, Renderer
from plugbay.manager.state import HeldDevices
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName

NAMES = [ResourceName("example.com/a"), ResourceName("example.com/b")]


def table_of(count: int) -> DeviceTable:
    return DeviceTable.of(ListedDevice(DeviceId(f"dev-<{number:04}>"), "Healthy") for number in range(count))


def assignment(pod: str, container: str, resource: ResourceName, response: bytes = b"") -> HeldDevices:
    by_node: Mapping[int, tuple[DeviceId, ...]] = {10: (DeviceId("é"),), -1: (), 2: (DeviceId("b"), DeviceId("a"))}
    return HeldDevices(PodUid(pod), ContainerName(container), resource, by_node, response)


def plain(holdings: Holdings) -> CheckpointData:
    """What the file must say, made from scratch."""
    entries = [
        PodDevicesEntry(item.pod, item.container, item.resource, item.by_node, item.response)
        for item in sorted(holdings.assignments, key=lambda item: (item.pod, item.container, item.resource))
    ]
    registered: dict[str, tuple[str, ...]] = {
        name: table.ids_of(table.healthy) for name, table in holdings.registered.items()
    }
    return CheckpointData(entries or None, registered)


class RendererMachine(RuleBasedStateMachine):
    """Whatever changed since the last time, the file is the one that would be made from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.renderer = Renderer()
        self.assignments: dict[tuple[str, str, str], HeldDevices] = {}
        self.registered: dict[ResourceName, DeviceTable] = {}

    @rule(
        pod=st.sampled_from("pqr"), container=st.sampled_from("cd"), name=st.sampled_from(NAMES), response=st.binary()
    )
    def assign(self, pod: str, container: str, name: ResourceName, response: bytes) -> None:
        self.assignments[pod, container, name] = assignment(pod, container, name, response)

    @rule(pod=st.sampled_from("pqr"))
    def release(self, pod: str) -> None:
        self.assignments = {key: item for key, item in self.assignments.items() if key[0] != pod}

    @rule(name=st.sampled_from(NAMES), count=st.sampled_from([0, 1, 63, 64, 65, 130]))
    def new_list(self, name: ResourceName, count: int) -> None:
        self.registered[name] = table_of(count)

    @rule(name=st.sampled_from(NAMES), rank=st.integers(0, 129), health=st.sampled_from(["Healthy", "Unhealthy"]))
    def health_changes(self, name: ResourceName, rank: int, health: str) -> None:
        table = self.registered.get(name, NO_DEVICES)
        if rank < len(table.devices):
            self.registered[name] = table.with_changes([replace(table.devices[rank], health=health)])

    @rule(name=st.sampled_from(NAMES), first=st.integers(0, 130))
    def only_devices_from_a_rank_stay_healthy(self, name: ResourceName, first: int) -> None:
        table = self.registered.get(name, NO_DEVICES)
        self.registered[name] = replace(table, healthy=table.healthy >> first << first)

    @rule(name=st.sampled_from(NAMES))
    def expire(self, name: ResourceName) -> None:
        self.registered.pop(name, None)

    @invariant()
    def file_is_that_made_from_scratch(self) -> None:
        holdings = Holdings(list(self.assignments.values()), dict(self.registered))
        rendered = self.renderer.render(holdings)
        assert rendered.content == encode(plain(holdings))
        assert rendered.checksum == checksum(plain(holdings))


TestRenderer = RendererMachine.TestCase
TestRenderer.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.permutations([assignment(pod, container, name) for pod in "pq" for container in "cd" for name in NAMES]))
def test_order_of_the_state_is_irrelevant(assignments: list[HeldDevices]) -> None:
    rendered = Renderer().render(Holdings(assignments, {}))
    assert rendered == Renderer().render(Holdings(sorted(assignments, key=lambda item: item.pod), {}))


def test_a_kubelet_accepts_the_empty_file() -> None:
    content = Renderer().render(Holdings([], {})).content
    assert content == b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'
    assert load(content, source="empty") == CheckpointData(None, {})
