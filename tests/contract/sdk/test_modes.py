"""A whole FPGA or its partitions, as a kubelet sees them: one way at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin, Modes, Replicas, health
from plugbay.errors import RpcFailed
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import AllocatableResources, ContainerDevices, ContainerResources, PodResources
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.ops.tasks import first
from plugbay.sdk.process.runner import serving
from plugbay.sdk.serving.server import PluginServer
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.podresources import pod_resources_handlers
from tests.contract.rigs.manager import GOPHER, OTHER, container, pod
from tests.contract.rigs.release import gated

WHOLE, PART = "example.com/fpga", "example.com/fpga-partition"
DEADLINE_S = 20
ALL = ("f0", "f1"), ("f0-p0", "f0-p1", "f1-p0", "f1-p1")


class Fpgas(DevicePlugin):
    """Both ways of two FPGAs; allocating waits for ``gate`` and fails while ``problem`` is set."""

    def __init__(self, resource: str, modes: Modes, *names: str) -> None:
        self.resource_name = resource
        self.modes = modes
        self.devices = [Device(name) for name in names]
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.problem = ""

    def discover(self) -> Iterable[Device]:
        return self.devices

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        self.entered.set()
        self.gate.wait(DEADLINE_S)
        if self.problem:
            raise RuntimeError(self.problem)
        return ContainerEdits()


class Machine:
    """Both plugins and the kubelet's view of each."""

    def __init__(self) -> None:
        self.modes = Modes(hardware_of=lambda device: device.id.partition("-")[0])
        self.fpgas, self.partitions = (
            Fpgas(resource, self.modes, *names) for resource, names in zip((WHOLE, PART), ALL, strict=True)
        )
        self.kubelet: dict[str, RegisteredPlugin] = {}

    async def until_listed(self, whole: Sequence[str], parts: Sequence[str]) -> None:
        for resource, names in ((WHOLE, whole), (PART, parts)):
            while tuple(self.kubelet[resource].devices) != tuple(names):
                await self.kubelet[resource].next_list()

    async def allocate(self, resource: str, *names: str) -> None:
        await self.kubelet[resource].client.allocate([DeviceId(name) for name in names])


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@asynccontextmanager
async def served(machine: Machine, paths: KubeletPaths) -> AsyncIterator[None]:
    async with fake_kubelet(paths) as kubelet, serving([machine.fpgas, machine.partitions], paths=paths):
        for _ in range(2):
            plugin = await kubelet.next_registration()
            machine.kubelet[plugin.registration.resource_name] = plugin
        yield


async def test_using_one_way_withdraws_the_other_of_that_hardware_only(paths: KubeletPaths) -> None:
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        await machine.allocate(WHOLE, "f0")
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])
        await machine.allocate(PART, "f1-p1")
        await machine.until_listed(["f0"], ["f1-p0", "f1-p1"])
        await machine.allocate(PART, "f1-p1")  # an app container after its init container
        await machine.allocate(PART, "f1-p0")
        machine.modes.mode(PART).release([DeviceId("f1-p1")])
        machine.modes.mode(WHOLE).release([DeviceId("f0")])
        await machine.until_listed(["f0"], ALL[1])  # f1 is still in use by its other partition
        machine.modes.mode(PART).release([DeviceId("f1-p0"), DeviceId("f1-p1")])
        await machine.until_listed(*ALL)


async def test_deallocate_gives_the_other_way_back(paths: KubeletPaths) -> None:
    machine = Machine()
    async with served(machine, paths):
        assert machine.kubelet[WHOLE].options.deallocate_required
        await machine.allocate(WHOLE, "f0")
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])
        for _ in range(2):  # it may be repeated
            await machine.kubelet[WHOLE].client.deallocate(
                [DeviceId("f0"), DeviceId("unheard-of")], OperationId("o1"), ReleaseReason.POD_ENDED
            )
        await machine.until_listed(*ALL)


async def test_our_manager_gives_the_other_way_back(sockets: Path) -> None:
    """With the gate on it calls Deallocate when the pod ends; nobody else says anything."""
    modes = Modes(hardware_of=lambda device: device.id.partition("-")[0])
    fpgas, partitions = Fpgas(GOPHER, modes, *ALL[0]), Fpgas(OTHER, modes, *ALL[1])
    async with gated(sockets) as b, serving([fpgas, partitions], paths=b.paths):
        await b.counts(2, 2)
        await b.counts(4, 4, resource=OTHER)
        await b.admit(pod("whole"))
        await b.counts(2, 2, resource=OTHER)
        await b.admit(pod("part", container("app", other=2)))
        await b.counts(1, 1)
        await b.release("whole")
        await b.counts(4, 4, resource=OTHER)
        await b.release("part")
        await b.counts(2, 2)


async def test_a_server_that_is_only_made_changes_nothing(paths: KubeletPaths) -> None:
    """As when somebody looks whether plugins could be served."""
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        PluginServer(machine.fpgas, paths)
        PluginServer(machine.partitions, paths)
        await machine.allocate(PART, "f0-p0")
        await machine.until_listed(["f1"], ALL[1])


async def test_allocate_from_an_older_list_is_refused(paths: KubeletPaths) -> None:
    """Both requests are on their way at once: whichever is first has it."""
    machine = Machine()
    machine.fpgas.gate.clear()
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(machine.allocate(WHOLE, "f0"))
            await asyncio.to_thread(machine.fpgas.entered.wait, DEADLINE_S)
            refused = f'cannot allocate "f0-p1": f0 is in use as {WHOLE}'
            with pytest.raises(RpcFailed, match=refused):
                await machine.allocate(PART, "f0-p1", "f1-p0")
            machine.fpgas.gate.set()
            await first
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])
        await machine.allocate(PART, "f1-p0")  # what was refused has taken nothing


async def test_allocate_that_fails_takes_nothing(paths: KubeletPaths) -> None:
    machine = Machine()
    machine.fpgas.problem = "the bitstream is broken"
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        with pytest.raises(RpcFailed, match="the bitstream is broken"):
            await machine.allocate(WHOLE, "f0")
        assert machine.modes.mode(WHOLE).used == frozenset()
        await machine.until_listed(*ALL)
        await machine.allocate(PART, "f0-p0")


async def test_device_in_use_stays_listed_while_its_hardware_looks_different(paths: KubeletPaths) -> None:
    """An FPGA that was given whole may show no partitions, and may itself be found or not."""
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        await machine.allocate(PART, "f0-p0")
        await machine.until_listed(["f1"], ALL[1])
        machine.partitions.devices = []
        machine.partitions.refresh()
        await machine.until_listed(["f1"], [])
        machine.modes.mode(PART).release([DeviceId("f0-p0")])
        await machine.until_listed(ALL[0], [])


async def test_replicas_count_one_by_one(paths: KubeletPaths) -> None:
    machine = Machine()
    machine.partitions.devices = [Device("f0-shared", sharing=Replicas(2))]
    async with served(machine, paths):
        listed = ["f0-shared::0", "f0-shared::1"]
        await machine.until_listed(ALL[0], listed)
        await machine.allocate(PART, "f0-shared::0")
        await machine.allocate(PART, "f0-shared::1")
        await machine.until_listed(["f1"], listed)
        machine.modes.mode(PART).release([DeviceId("f0-shared::1")])
        with pytest.raises(RpcFailed, match=f"f0 is in use as {PART}"):
            await machine.allocate(WHOLE, "f0")
        machine.modes.mode(PART).release([DeviceId("f0-shared::0")])
        await machine.until_listed(ALL[0], listed)


async def test_device_that_comes_back_is_checked_before_it_is_given(paths: KubeletPaths) -> None:
    verdicts: dict[str, bool] = {}
    checked: asyncio.Queue[str] = asyncio.Queue()

    class Checked(Fpgas):
        @health(every=3600)
        async def check(self, device: Device) -> bool:
            checked.put_nowait(device.id)
            return verdicts.get(device.id, True)

    machine = Machine()
    machine.partitions = Checked(PART, machine.modes, *ALL[1])
    async with served(machine, paths):
        await machine.until_listed(*ALL)
        while not all(device.is_healthy for device in machine.kubelet[PART].devices.values()):
            await machine.kubelet[PART].next_list()
        while not checked.empty():
            checked.get_nowait()
        await machine.allocate(WHOLE, "f0")
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])
        verdicts["f0-p1"] = False
        machine.modes.mode(WHOLE).release([DeviceId("f0")])
        async with asyncio.timeout(DEADLINE_S):
            assert {await checked.get(), await checked.get()} == {"f0-p0", "f0-p1"}
        while {name: device.is_healthy for name, device in machine.kubelet[PART].devices.items()} != {
            "f0-p0": True, "f0-p1": False, "f1-p0": True, "f1-p1": True
        }:  # fmt: skip
            await machine.kubelet[PART].next_list()


class Answers:
    """A PodResources service with one pod."""

    def __init__(self, pod: PodResources) -> None:
        self.pod = pod

    def list_v1(self) -> Sequence[PodResources]:
        return [self.pod]

    def get_v1(self, namespace: str, name: str) -> PodResources:
        raise AssertionError("not asked here")

    def allocatable_v1(self) -> AllocatableResources:
        raise AssertionError("not asked here")

    def list_v1alpha1(self) -> Sequence[PodResources]:
        raise AssertionError("not asked here")


# --- after a restart of the plugin ----------------------------------------------------------------------------------


def checkpoint(paths: KubeletPaths, *held: tuple[str, str]) -> None:
    entries = [
        PodDevicesEntry(f"uid{number}", "main", resource, {-1: [name]}) for number, (resource, name) in enumerate(held)
    ]
    paths.device_plugins.mkdir(parents=True, exist_ok=True)
    paths.checkpoint.write_bytes(encode(CheckpointData(entries, {})))


async def test_restart_knows_from_the_checkpoint_what_is_in_use(paths: KubeletPaths) -> None:
    checkpoint(paths, (WHOLE, "f0"), (PART, "f1-p1"), ("example.com/other", "f1"), (PART, "gone-p0"))
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(["f0"], ["f1-p0", "f1-p1"])
        with pytest.raises(RpcFailed, match=f"f1 is in use as {PART}"):
            await machine.allocate(WHOLE, "f1")
        machine.modes.mode(PART).release([DeviceId("f1-p1")])
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])


async def test_first_list_after_a_restart_is_right(paths: KubeletPaths) -> None:
    checkpoint(paths, (WHOLE, "f0"))
    machine = Machine()
    async with served(machine, paths):
        assert await machine.kubelet[PART].next_list() == ("f1-p0", "f1-p1")


async def test_nothing_is_offered_before_every_mode_has_looked(paths: KubeletPaths) -> None:
    """Which hardware a device in use is of, is known once it is found: until then a partition of it seems free."""
    checkpoint(paths, (WHOLE, "f0"))
    listed = asyncio.Event()

    class Slow(Fpgas):
        async def discover(self) -> Iterable[Device]:  # type: ignore[override]  # a hook may be either
            await first(listed.wait(), timeout_s=0.5)  # for what must not come
            return self.devices

    machine = Machine()
    machine.fpgas = Slow(WHOLE, machine.modes, *ALL[0])
    async with fake_kubelet(paths) as kubelet, serving([machine.fpgas, machine.partitions], paths=paths):
        for _ in range(2):
            plugin = await kubelet.next_registration()
            if plugin.registration.resource_name == PART:
                assert await plugin.next_list() == ("f1-p0", "f1-p1")
                listed.set()


async def test_mode_that_cannot_start_keeps_the_others_waiting_while_it_is_in_use(paths: KubeletPaths) -> None:
    checkpoint(paths, (WHOLE, "f0"))
    tries = 0

    class Broken(Fpgas):
        async def set_up(self) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise RuntimeError("no driver")

    machine = Machine()
    machine.fpgas = Broken(WHOLE, machine.modes, *ALL[0])
    async with fake_kubelet(paths) as kubelet, serving([machine.fpgas, machine.partitions], paths=paths):
        for _ in range(2):
            plugin = await kubelet.next_registration()
            if plugin.registration.resource_name == PART:
                assert await plugin.next_list() == ("f1-p0", "f1-p1")


async def test_both_ways_in_use_keep_what_they_have(paths: KubeletPaths) -> None:
    """As a plugin without modes may have left it: devices in use are never withdrawn."""
    checkpoint(paths, (WHOLE, "f0"), (PART, "f0-p1"))
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(ALL[0], ["f0-p1", "f1-p0", "f1-p1"])


async def test_unreadable_checkpoint_leaves_pod_resources(paths: KubeletPaths) -> None:
    paths.device_plugins.mkdir(parents=True)
    paths.checkpoint.write_bytes(b"{")
    devices = (ContainerDevices(ResourceName(WHOLE), (DeviceId("f0"),)),)
    pod = PodResources("default", "p", (ContainerResources(ContainerName("main"), devices),))
    machine = Machine()
    paths.pod_resources_socket.parent.mkdir()
    async with (
        serve_grpc(paths.pod_resources_socket, pod_resources_handlers(Answers(pod))),
        served(machine, paths),
    ):
        await machine.until_listed(ALL[0], ["f1-p0", "f1-p1"])


async def test_nothing_readable_is_said(paths: KubeletPaths, caplog: pytest.LogCaptureFixture) -> None:
    paths.device_plugins.mkdir(parents=True)
    paths.checkpoint.write_bytes(b"{")
    machine = Machine()
    async with served(machine, paths):
        await machine.until_listed(*ALL)
    assert "cannot find out which devices are in use; assuming none: " in caplog.text
