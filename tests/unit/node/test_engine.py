"""The engine over a runtime and a device manager that do what the test says, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import AdmissionError, ContainerStartError, NoHealthyDevices, PreStartFailed
from plugbay.manager.snapshot import ResourceCount
from plugbay.model.edits import NO_EDITS, ContainerEdits
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.pods import Container, EmptyDir, HostPath, HostPathType, Pod, PodSpec, RestartPolicy, Volume
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind, PodRequest
from plugbay.node.engine import PodEngine, run_engine
from plugbay.node.events import EventLog
from plugbay.node.lifecycle import Stage, Step
from plugbay.node.machine import Machine
from plugbay.node.parts import NodeParts
from plugbay.node.pods import PodTable
from plugbay.node.records import Deletion, PodRecord, Running, Terminated, Waiting
from plugbay.node.runtimes.port import (
    ContainerId,
    ContainerSpec,
    ContainerState,
    ExecExit,
    ExecOutput,
    RunState,
)
from plugbay.node.status import Phase, phase
from plugbay.node.volumes import Volumes
from plugbay.ops.changes import Changes
from plugbay.testing.clock import ManualClock

GOPHER = ResourceName("example.com/gopher")
MACHINE = Machine({"cpu": 2000, "memory": 2**30, "ephemeral-storage": 2**30, "pods": 110}, "n1", "6", "amd64", "Linux")


class NappingClock(ManualClock):
    """A clock that tells who sleeps for how long."""

    def __init__(self, moved: Changes) -> None:
        super().__init__()
        self.naps: list[float] = []
        self._moved = moved

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self._moved.notify()
        await super().sleep(seconds)


class FakeDevices:
    """A device manager that counts."""

    def __init__(self, moved: Changes) -> None:
        self._moved = moved
        self.allocatable = 0
        self.held: dict[PodUid, frozenset[ContainerName]] = {}
        """Pod to the containers it was last admitted with as running."""
        self.refusal: AdmissionError | None = None
        self.pre_start_refusals: list[AdmissionError] = []
        self._changes = Changes()

    def offer(self, count: int) -> None:
        self.allocatable = count
        self._changes.notify()

    async def admit(self, pod: PodRequest, *, running: Collection[ContainerName] = ()) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.held[pod.uid] = frozenset(running)
        self._moved.notify()

    async def prepare_container(self, pod: PodUid, container: ContainerName) -> ContainerEdits:
        if self.pre_start_refusals:
            raise self.pre_start_refusals.pop(0)
        return NO_EDITS

    async def release_pod(self, pod: PodUid) -> None:
        self.held.pop(pod, None)
        self._moved.notify()

    def resources(self) -> Mapping[ResourceName, ResourceCount]:
        return {GOPHER: ResourceCount(self.allocatable, self.allocatable)}

    def changes(self) -> AsyncIterator[None]:
        return aiter(self._changes)

    def assigned_pods(self) -> frozenset[PodUid]:
        return frozenset(self.held)


class FakeRuntime:
    """Containers that end when the test says so; ``SIGTERM`` ends them well."""

    name = "fake"

    def __init__(self, clock: ManualClock, moved: Changes) -> None:
        self._clock = clock
        self.instances: dict[ContainerId, ContainerState] = {}
        self.started: list[str] = []
        self.stopped: list[tuple[str, float]] = []
        self.refusals: list[ContainerStartError] = []
        self._moved = moved

    async def start(self, spec: ContainerSpec) -> ContainerState:
        if self.refusals:
            raise self.refusals.pop(0)
        state = ContainerState(
            ContainerId(f"{spec.pod}_{spec.name}_{spec.attempt}"),
            spec.pod_uid,
            spec.name,
            spec.attempt,
            RunState.RUNNING,
            pid=1,
            started_at=self._clock.now(),
        )
        self.instances[state.id] = state
        self.started.append(spec.name)
        return state

    def finish(self, container: str, exit_code: int) -> None:
        state = self.instances[ContainerId(container)]
        reason = "Completed" if exit_code == 0 else "Error"
        self.instances[state.id] = replace(
            state, state=RunState.EXITED, exit_code=exit_code, reason=reason, finished_at=self._clock.now()
        )
        self._moved.notify()

    async def list(self) -> Sequence[ContainerState]:
        return list(self.instances.values())

    async def wait(self, container: ContainerId) -> ContainerState:
        async for _ in self._moved:
            if self.instances[container].state is not RunState.RUNNING:
                return self.instances[container]
        raise AssertionError

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        if self.instances[container].state is RunState.RUNNING:
            self.stopped.append((self.instances[container].name, grace_s))
            self.finish(container, 0)
        return self.instances[container]

    async def remove(self, container: ContainerId) -> None:
        self.instances.pop(container, None)
        self._moved.notify()

    def exec(self, container: ContainerId, argv: Sequence[str]) -> AsyncGenerator[ExecOutput | ExecExit, None]:
        raise NotImplementedError

    def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


class Kept:
    """What the store would hold; it survives the engine."""

    def __init__(self, moved: Changes) -> None:
        self.pods: dict[PodUid, PodRecord] = {}
        self._moved = moved

    def save_pod(self, record: PodRecord) -> None:
        self.pods[record.uid] = record

    def delete_pod(self, uid: PodUid) -> None:
        self.pods.pop(uid, None)
        self._moved.notify()

    async def flush(self) -> None:
        pass

    def save_event(self, event: object) -> None:
        self._moved.notify()

    def delete_event(self, name: str) -> None:
        pass


class World:
    """Everything around the engine; `engine` may be run several times, one after the other."""

    def __init__(self, root: Path) -> None:
        self._moved = Changes()
        self.clock = NappingClock(self._moved)
        self.devices = FakeDevices(self._moved)
        self.runtime = FakeRuntime(self.clock, self._moved)
        self.kept = Kept(self._moved)
        self.volumes = Volumes(root / "pods")
        self.pods = PodTable(self.kept)
        self.events = EventLog(self.kept, self.clock)

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[PodEngine]:
        self.pods = PodTable(self.kept, stored=list(self.kept.pods.values()))
        async with asyncio.TaskGroup() as tasks:
            parts = NodeParts("n1", self.devices, self.runtime, self.pods, self.events, self.volumes, self.clock, tasks)
            async with run_engine(parts, MACHINE) as engine:
                yield engine

    async def until(self, wanted: Callable[[PodRecord], object], name: str = "p") -> PodRecord:
        """The first state of the pod that is ``wanted``, its last one included."""
        subscription = self.pods.watch()
        async with asyncio.timeout(5):
            while True:
                for _, record in await subscription.next():
                    if record.pod.name == name and wanted(record):
                        return record

    async def when(self, condition: Callable[[], bool]) -> None:
        """Returns once ``condition`` holds, looking again whenever something happened."""
        async with asyncio.timeout(5):
            async for _ in self._moved:
                if condition():
                    return

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def container(name: str, kind: ContainerKind = ContainerKind.APP, gophers: int = 0) -> Container:
    amounts = {str(GOPHER): Quantity.parse(str(gophers))} if gophers else {}
    return Container(ContainerName(name), "i", ("run",), requests=amounts, limits=amounts, kind=kind)


def pod(*containers: Container, name: str = "p", policy: RestartPolicy = RestartPolicy.ALWAYS, **spec: Any) -> Pod:
    made = containers or (container("c"),)
    apps = tuple(each for each in made if each.kind is ContainerKind.APP)
    inits = tuple(each for each in made if each.kind is not ContainerKind.APP)
    return Pod(name, PodSpec(apps, inits, restart_policy=policy, **spec))


def is_in(wanted: Phase) -> Callable[[PodRecord], bool]:
    return lambda record: phase(record) is wanted


def state_of(record: PodRecord, name: str = "c") -> Any:
    return record.containers[ContainerName(name)].state


def waits_for(reason: str, name: str = "c") -> Callable[[PodRecord], bool]:
    return lambda record: isinstance(state_of(record, name), Waiting) and state_of(record, name).reason == reason


def runs(attempt: int, name: str = "c") -> Callable[[PodRecord], bool]:
    return lambda record: (
        isinstance(state_of(record, name), Running) and record.containers[ContainerName(name)].attempt == attempt
    )


async def test_a_pod_runs_and_succeeds(world: World) -> None:
    async with world.engine() as engine:
        created = await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(is_in(Phase.RUNNING))
        assert created.uid in world.devices.held
        world.runtime.finish("p_c_0", 0)
        ended = await world.until(is_in(Phase.SUCCEEDED))
        assert world.devices.held == {}
        assert ended.pod.spec.node_name == "n1"
        assert world.reasons() == ["Scheduled", "Created", "Started"]


async def test_the_oldest_that_fits_goes_first(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=2), name="large"))
        await world.until(lambda record: record.unschedulable, "large")
        await engine.create(pod(container("c", gophers=1), name="small"))
        await engine.create(pod(container("c", gophers=1), name="late"))
        world.devices.offer(1)
        await world.until(is_in(Phase.RUNNING), "small")
        assert {record.pod.name: record.stage for record in world.pods} == {
            "large": Stage.UNSCHEDULED,
            "small": Stage.ACTIVE,
            "late": Stage.UNSCHEDULED,
        }
        world.devices.offer(3)
        await world.until(is_in(Phase.RUNNING), "large")
        await engine.delete("default", "small")
        await world.until(is_in(Phase.RUNNING), "late")


async def test_a_crashing_container_is_restarted_with_growing_delays(world: World) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        delays = []
        await world.until(runs(0))
        world.runtime.finish("p_c_0", 1)
        for attempt in (1, 2, 3):
            await world.until(runs(attempt))
            world.runtime.finish(f"p_c_{attempt}", 1)
            record = await world.until(waits_for("CrashLoopBackOff"))
            delays.append(state_of(record).message)
            seconds = 10 * 2 ** (attempt - 1)
            await world.when(lambda: seconds in world.clock.naps)  # noqa: B023 - awaited at once
            world.clock.advance(seconds)
        assert delays == [
            f"back-off {delay} restarting failed container=c pod=p_default({uid})" for delay in ("10s", "20s", "40s")
        ]
        record = await world.until(runs(4))
        assert record.containers[ContainerName("c")].restart_count == 4
        assert set(world.runtime.instances) == {"p_c_4", "p_c_3"}
        (backoff,) = [event for event in world.events if event.reason == "BackOff"]
        assert (backoff.message, backoff.count) == (
            f"Back-off restarting failed container c in pod p_default({uid})",
            3,
        )


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        (RestartPolicy.NEVER, 0, Phase.SUCCEEDED),
        (RestartPolicy.NEVER, 1, Phase.FAILED),
        (RestartPolicy.ON_FAILURE, 0, Phase.SUCCEEDED),
    ],
)
async def test_a_pod_ends_as_its_restart_policy_says(
    world: World, policy: RestartPolicy, code: int, expected: Phase
) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=policy))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", code)
        assert phase(await world.until(lambda record: record.stage is Stage.ENDED)) is expected


@pytest.mark.parametrize(("policy", "code"), [(RestartPolicy.ON_FAILURE, 1), (RestartPolicy.ALWAYS, 0)])
async def test_a_container_is_restarted_as_its_policy_says(world: World, policy: RestartPolicy, code: int) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=policy))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", code)
        await world.until(runs(1))


async def test_init_containers_and_sidecars_come_first(world: World) -> None:
    made = pod(
        container("setup", ContainerKind.INIT),
        container("proxy", ContainerKind.SIDECAR),
        container("check", ContainerKind.INIT),
        container("c"),
        policy=RestartPolicy.NEVER,
    )
    async with world.engine() as engine:
        await engine.create(made)
        await world.until(runs(0, "setup"))
        assert world.runtime.started == ["setup"]
        world.runtime.finish("p_setup_0", 0)
        await world.until(runs(0, "check"))
        assert world.runtime.started == ["setup", "proxy", "check"]
        world.runtime.finish("p_check_0", 0)
        await world.until(is_in(Phase.RUNNING))
        world.runtime.finish("p_proxy_0", 1)
        await world.until(runs(1, "proxy"))
        world.runtime.finish("p_c_0", 0)
        ended = await world.until(is_in(Phase.SUCCEEDED))
        assert world.runtime.stopped == [("proxy", 30)]
        assert ended.running() == {}


async def test_a_failed_init_container_fails_the_pod(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("i", ContainerKind.INIT), container("c"), policy=RestartPolicy.NEVER))
        await world.until(runs(0, "i"))
        world.runtime.finish("p_i_0", 7)
        await world.until(is_in(Phase.FAILED))
        assert world.runtime.started == ["i"]


async def test_a_rejected_pod_fails_in_the_kubelets_words(world: World) -> None:
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine() as engine:
        await engine.create(pod())
        record = await world.until(is_in(Phase.FAILED))
        text = f"no healthy devices present; cannot allocate unhealthy devices {GOPHER}"
        assert record.rejection is not None
        assert record.rejection.reason == "UnexpectedAdmissionError"
        assert record.rejection.message == f"Allocate failed due to {text}, which is unexpected"
        assert world.runtime.started == []


async def test_a_pod_that_came_past_the_scheduler_must_fit(world: World) -> None:
    greedy = Container(ContainerName("c"), "i", ("run",), requests={"cpu": Quantity.parse("64")})
    async with world.engine() as engine:
        await engine.create(pod(greedy, node_name="n1"))
        record = await world.until(is_in(Phase.FAILED))
        assert record.rejection is not None
        assert record.rejection.reason == "OutOfcpu"
        assert world.devices.held == {}


async def test_a_refused_pre_start_is_tried_again(world: World) -> None:
    world.devices.pre_start_refusals = [PreStartFailed(GOPHER, "cold"), PreStartFailed(GOPHER, "warming up")]
    async with world.engine() as engine:
        await engine.create(pod())
        error = "device plugin PreStartContainer rpc failed with err: warming up"
        record = await world.until(
            lambda record: waits_for("CreateContainerConfigError")(record) and "warm" in str(record)
        )
        assert state_of(record).message == error
        await world.when(lambda: world.clock.naps == [0, 10])
        world.clock.advance(10)
        record = await world.until(runs(0))
        assert [event.message for event in world.events if event.reason == "Failed"][-1] == f"Error: {error}"


async def test_a_container_that_cannot_be_made_waits(world: World) -> None:
    world.runtime.refusals = [ContainerStartError("CreateContainerError", f"no {n}") for n in (1, 2)]
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(lambda record: "no 2" in str(state_of(record)))
        await world.when(lambda: world.clock.naps == [0, 10])
        world.clock.advance(10)
        await world.until(runs(0))


async def test_a_container_that_cannot_run_has_failed(world: World) -> None:
    world.runtime.refusals = [ContainerStartError("StartError", "exec: not found")]
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        record = await world.until(is_in(Phase.FAILED))
        end = state_of(record)
        assert isinstance(end, Terminated)
        assert (end.exit_code, end.reason, end.message) == (128, "StartError", "exec: not found")


async def test_a_missing_host_path_keeps_the_pod_waiting(world: World, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    volume = Volume("v", HostPath(str(missing), HostPathType.DIRECTORY))
    async with world.engine() as engine:
        await engine.create(pod(volumes=(volume, Volume("e", EmptyDir()))))
        record = await world.until(waits_for("ContainerCreating"))
        await world.when(lambda: any(event.reason == "FailedMount" and event.count == 2 for event in world.events))
        (event,) = [each for each in world.events if each.reason == "FailedMount"]
        assert event.message == (
            f'MountVolume.SetUp failed for volume "v" : hostPath type check failed: {missing} is not a directory'
        )
        missing.mkdir()
        await world.when(lambda: world.clock.naps == [0, 10])
        world.clock.advance(10)
        record = await world.until(runs(0))
        assert (tmp_path / "pods" / record.uid / "volumes/kubernetes.io~empty-dir/e").is_dir()


# --- deletion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grace_s", "expected"), [(None, 30), (5, 5), (0, 0)])
async def test_deletion_stops_within_the_grace_period(world: World, grace_s: int | None, expected: int) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
        deleted = await engine.delete("default", "p", grace_s=grace_s)
        assert deleted.deletion is not None
        assert (deleted.deletion.deadline - world.clock.now()).total_seconds() == expected
        await world.when(lambda: not list(world.pods))
        assert world.runtime.stopped == [("c", expected)]
        assert world.runtime.instances == {}
        assert (world.devices.held, world.kept.pods) == ({}, {})
        assert "Killing" in world.reasons()


async def test_app_containers_are_stopped_before_sidecars(world: World) -> None:
    sidecars = [container(name, ContainerKind.SIDECAR) for name in ("s1", "s2")]
    async with world.engine() as engine:
        await engine.create(pod(*sidecars, container("a")))
        await world.until(is_in(Phase.RUNNING))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert [name for name, _ in world.runtime.stopped] == ["a", "s2", "s1"]


async def test_a_pending_pod_is_deleted_at_once(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        await world.until(lambda record: record.unschedulable)
        await engine.delete("default", "p")
        world.devices.offer(1)
        await world.when(lambda: not list(world.pods))
        assert world.runtime.started == []


async def test_deletion_ends_a_crash_loop(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        for attempt in (0, 1):
            await world.until(runs(attempt))
            world.runtime.finish(f"p_c_{attempt}", 1)
        await world.until(waits_for("CrashLoopBackOff"))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert world.runtime.instances == {}


async def test_an_ended_pod_can_be_deleted(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", 0)
        await world.until(is_in(Phase.SUCCEEDED))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert world.runtime.instances == {}


# --- restart of the node -------------------------------------------------------------------------------------------


async def test_a_restarted_engine_adopts_what_runs(world: World) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    async with world.engine():
        await world.until(runs(0))
        assert world.runtime.started == ["c"]
        await world.when(lambda: world.devices.held[uid] == {"c"})


async def test_what_ended_meanwhile_is_restarted_as_the_policy_says(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await engine.create(pod(name="once", policy=RestartPolicy.NEVER))
        await world.until(runs(0))
        await world.until(runs(0), "once")
    world.runtime.finish("p_c_0", 1)
    world.runtime.finish("once_c_0", 1)
    async with world.engine():
        record = await world.until(runs(1))
        assert record.containers[ContainerName("c")].last is not None
        await world.until(is_in(Phase.FAILED), "once")


async def test_a_pod_that_ended_meanwhile_needs_no_devices(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(runs(0))
    world.runtime.finish("p_c_0", 0)
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine():
        await world.until(is_in(Phase.SUCCEEDED))
        assert world.devices.held == {}


async def test_a_pod_rejected_at_restart_is_stopped_and_fails(world: World) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine():
        record = await world.until(is_in(Phase.FAILED))
        assert isinstance(state_of(record), Terminated)
        assert world.runtime.stopped == [("c", 30)]
        assert world.devices.held == {}


async def test_a_deletion_under_way_goes_on_after_a_restart(world: World) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    record = world.kept.pods[uid]
    world.kept.save_pod(replace(record.after(Step.DELETE), deletion=Deletion.at(world.clock.now(), grace_s=30)))
    world.clock.advance(12)
    async with world.engine():
        await world.when(lambda: not world.kept.pods)
        assert world.runtime.stopped == [("c", 18)]


async def test_what_belongs_to_no_pod_is_cleared_away(world: World) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    world.kept.pods.clear()
    world.devices.held = {uid: frozenset(), PodUid("other"): frozenset()}
    async with world.engine():
        await world.when(lambda: not world.runtime.instances and not world.devices.held)


async def test_capacity_is_counted_again_after_a_restart(world: World) -> None:
    world.devices.allocatable = 1
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        await world.until(runs(0))
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1), name="second"))
        await world.until(lambda record: record.unschedulable, "second")


async def test_many_pods_are_counted_by_running_totals(world: World) -> None:
    world.devices.allocatable = 200
    async with world.engine() as engine:
        for number in range(112):
            await engine.create(pod(container("c", gophers=1), name=f"p{number}"))
        record = await world.until(lambda record: record.unschedulable, "p110")
        assert record.unschedulable.startswith("0/1 nodes are available: 1 Too many pods. ")
        stages = Counter(record.stage for record in world.pods)
        assert stages[Stage.UNSCHEDULED] == 2
