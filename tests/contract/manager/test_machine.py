"""The manager beside a naive model: whatever happens in whatever order, nothing has two owners and nothing is lost."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plugbay.errors import AdmissionError, RpcCode
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.serving.snapshot import ResourceCount
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin, refusing

NAME = ResourceName("example.com/r")
GRACE_S = 300
Answer = TypeVar("Answer")

# weighted towards pods that get what they ask for, or nothing would be held that could be lost
device_sets = st.dictionaries(st.sampled_from("abcdefghij"), st.sampled_from([True, True, True, False]), min_size=4)
pod_uids = st.sampled_from(["p", "q", "r", "s"]).map(PodUid)
shapes = st.lists(
    st.tuples(st.sampled_from(list(ContainerKind)), st.sampled_from([0, 1, 1, 2])), min_size=1, max_size=3
)


class ManagerMachine(RuleBasedStateMachine):
    """The model: what the plugin lists (or nothing), and which devices each pod's containers hold."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory(prefix="pb")
        root = Path(self.directory.name)
        self.config = ManagerConfig(KubeletPaths(root), root / "state" / "m.db", grace_period_s=GRACE_S)
        self.clock = ManualClock()
        self.held: dict[PodUid, dict[ContainerName, frozenset[str]]] = {}
        self.capacity = 0
        self.listed: dict[str, bool] | None = None
        self.plugin: FakePlugin | None = None
        self.start_manager()

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.runner.run(asyncio.wait_for(work, 20))

    def start_manager(self) -> None:
        self.around = AsyncExitStack()
        self.around_plugin = AsyncExitStack()
        self.manager: DeviceManager = self.do(
            self.around.enter_async_context(run_manager(self.config, clock=self.clock))
        )

    def teardown(self) -> None:
        self.do(self.around_plugin.aclose())
        self.do(self.around.aclose())
        self.runner.close()
        self.directory.cleanup()

    async def settled(self) -> None:
        """Wait until the manager has seen what the plugin last did."""
        wanted = ResourceCount(self.capacity, sum((self.listed or {}).values()))
        async for _ in self.manager.changes():
            if self.manager.resources().get(NAME, ResourceCount(0, 0)) != wanted:
                continue
            if self.listed is None or self.listed == self.seen():
                return

    def seen(self) -> dict[str, bool]:
        """The manager's picture of the last list."""
        devices = [device for resource in self.manager.snapshot().resources for device in resource.devices]
        return {device.id: device.health == "Healthy" for device in devices if device.health != "Unknown"}

    # --- what can happen --------------------------------------------------------------------------------------------

    @initialize(devices=device_sets)
    def begin(self, devices: dict[str, bool]) -> None:
        self.plugin_starts(devices)

    @precondition(lambda self: self.plugin is None)
    @rule(devices=device_sets)
    def plugin_starts(self, devices: dict[str, bool]) -> None:
        async def start() -> None:
            socket = self.config.paths.device_plugins / f"{self.clock.monotonic()}-{id(devices)}.sock"
            self.plugin = await self.around_plugin.enter_async_context(fake_plugin(NAME, socket, as_list(devices)))
            await self.plugin.register(self.config.paths.registration_socket)

        self.do(start())
        self.listed, self.capacity = devices, len(devices)
        self.do(self.settled())

    @precondition(lambda self: self.plugin is not None)
    @rule(devices=device_sets)
    def list_changes(self, devices: dict[str, bool]) -> None:
        assert self.plugin is not None
        self.plugin.send(as_list(devices))
        self.listed, self.capacity = devices, len(devices)
        self.do(self.settled())

    @precondition(lambda self: self.plugin is not None)
    @rule()
    def plugin_dies(self) -> None:
        self.do(self.around_plugin.aclose())
        self.plugin, self.listed = None, None
        self.do(self.settled())

    @precondition(lambda self: self.plugin is None)
    @rule()
    def grace_period_passes(self) -> None:
        self.clock.advance(GRACE_S)
        self.capacity = 0
        self.do(self.settled())

    @rule(uid=pod_uids, shape=shapes, plugin_refuses=st.sampled_from([False, False, False, True]))
    def pod_is_admitted(self, uid: PodUid, shape: list[tuple[ContainerKind, int]], plugin_refuses: bool) -> None:
        if uid in self.held:
            return
        containers = tuple(
            ContainerRequest(ContainerName(f"c{place}"), kind, {NAME: count})
            for place, (kind, count) in enumerate(shape)
        )
        if self.plugin is not None:
            self.plugin.allocate_answer = refusing(RpcCode.INTERNAL, "no") if plugin_refuses else allowing
        try:
            self.do(self.manager.admit(PodRequest(uid, "default", uid, containers)))
        except AdmissionError:
            return
        assert not (plugin_refuses and any(count for _, count in shape) and self.plugin)
        held = self.manager.devices_of(uid)
        for container in containers:
            assert len(held.get(container.name, {}).get(NAME, ())) == container.limits[NAME]
        if held:
            self.held[uid] = {name: frozenset(devices[NAME]) for name, devices in held.items()}

    @rule(uid=pod_uids)
    def pod_ends(self, uid: PodUid) -> None:
        self.do(self.manager.release_pod(uid))
        self.held.pop(uid, None)

    @rule(devices=device_sets)
    def manager_restarts(self, devices: dict[str, bool]) -> None:
        self.do(self.around.aclose())
        self.do(self.around_plugin.aclose())
        self.plugin, self.listed, self.capacity = None, None, 0
        self.start_manager()
        self.do(self.settled())
        self.plugin_starts(devices)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def every_confirmed_allocation_is_kept(self) -> None:
        assert self.manager.assigned_pods() == self.held.keys()
        for uid, containers in self.held.items():
            now = self.manager.devices_of(uid)
            assert {name: frozenset(devices[NAME]) for name, devices in now.items()} == containers

    @invariant()
    def no_device_has_two_owners(self) -> None:
        owners: dict[str, PodUid] = {}
        for uid, containers in self.held.items():
            for device_id in frozenset().union(*containers.values()):
                assert owners.setdefault(device_id, uid) == uid

    @invariant()
    def capacity_is_healthy_plus_unhealthy_and_allocatable_the_healthy(self) -> None:
        count = self.manager.resources().get(NAME, ResourceCount(0, 0))
        assert count == ResourceCount(self.capacity, sum((self.listed or {}).values()))

    @invariant()
    def free_devices_can_all_be_had_and_no_more(self) -> None:
        if not self.listed:
            return
        used = {device_id for containers in self.held.values() for ids in containers.values() for device_id in ids}
        free = sum(healthy for device_id, healthy in self.listed.items() if device_id not in used)
        if not any(self.listed.values()):
            return
        assert self.plugin is not None
        self.plugin.allocate_answer = allowing
        probe = PodUid("probe")

        def asking(count: int) -> PodRequest:
            one = ContainerRequest(ContainerName("c"), ContainerKind.APP, {NAME: count})
            return PodRequest(probe, "default", "probe", (one,))

        self.do(self.manager.admit(asking(free)))
        self.do(self.manager.release_pod(probe))
        try:
            self.do(self.manager.admit(asking(free + 1)))
        except AdmissionError:
            return
        raise AssertionError("more devices than there are")


async def allowing(_: object) -> ContainerEdits:
    return ContainerEdits()


def as_list(devices: dict[str, bool]) -> list[Device]:
    return [Device(name, health=HEALTHY if healthy else unhealthy()) for name, healthy in devices.items()]


TestManagerMachine = ManagerMachine.TestCase
TestManagerMachine.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
