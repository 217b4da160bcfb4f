"""The engine over a runtime and a device manager that do what the test says, on a clock that the test moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, NoHealthyDevices, PreStartFailed
from plugbay.model.actions import SleepAction
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, EmptyDir, HostPath, HostPathType, RestartPolicy, Volume
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import PodStage, PodStep
from plugbay.pods.record import Deletion, Terminated
from plugbay.pods.status import PodPhase, phase
from plugbay.testing.fake_node import GOPHER, FakeNode
from plugbay.testing.pod_values import container, is_in, pod, runs, state_of, waits_for


@pytest.fixture
def world(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


async def test_a_pod_runs_and_succeeds(world: FakeNode) -> None:
    async with world.engine() as engine:
        created = await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(is_in(PodPhase.RUNNING))
        assert created.uid in world.devices.held
        world.runtime.finish("p_c_0", 0)
        ended = await world.until(is_in(PodPhase.SUCCEEDED))
        assert world.devices.held == {}
        assert ended.pod.spec.node_name == "n1"
        assert world.reasons() == ["Scheduled", "Created", "Started"]


async def test_the_oldest_that_fits_goes_first(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=2), name="large"))
        await world.until(lambda record: record.unschedulable, "large")
        await engine.create(pod(container("c", gophers=1), name="small"))
        await engine.create(pod(container("c", gophers=1), name="late"))
        world.devices.offer(1)
        await world.until(is_in(PodPhase.RUNNING), "small")
        assert {record.pod.name: record.stage for record in world.pods} == {
            "large": PodStage.UNSCHEDULED,
            "small": PodStage.ACTIVE,
            "late": PodStage.UNSCHEDULED,
        }
        world.devices.offer(3)
        await world.until(is_in(PodPhase.RUNNING), "large")
        await engine.delete("default", "small")
        await world.until(is_in(PodPhase.RUNNING), "late")


async def test_a_crashing_container_is_restarted_with_growing_delays(world: FakeNode) -> None:
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
        (RestartPolicy.NEVER, 0, PodPhase.SUCCEEDED),
        (RestartPolicy.NEVER, 1, PodPhase.FAILED),
        (RestartPolicy.ON_FAILURE, 0, PodPhase.SUCCEEDED),
    ],
)
async def test_a_pod_ends_as_its_restart_policy_says(
    world: FakeNode, policy: RestartPolicy, code: int, expected: PodPhase
) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=policy))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", code)
        assert phase(await world.until(lambda record: record.stage is PodStage.ENDED)) is expected


@pytest.mark.parametrize(("policy", "code"), [(RestartPolicy.ON_FAILURE, 1), (RestartPolicy.ALWAYS, 0)])
async def test_a_container_is_restarted_as_its_policy_says(world: FakeNode, policy: RestartPolicy, code: int) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=policy))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", code)
        await world.until(runs(1))


async def test_init_containers_and_sidecars_come_first(world: FakeNode) -> None:
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
        await world.until(is_in(PodPhase.RUNNING))
        world.runtime.finish("p_proxy_0", 1)
        await world.until(runs(1, "proxy"))
        world.runtime.finish("p_c_0", 0)
        ended = await world.until(is_in(PodPhase.SUCCEEDED))
        assert world.runtime.stopped == [("proxy", 30)]
        assert ended.running() == {}


async def test_a_failed_init_container_fails_the_pod(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("i", ContainerKind.INIT), container("c"), policy=RestartPolicy.NEVER))
        await world.until(runs(0, "i"))
        world.runtime.finish("p_i_0", 7)
        await world.until(is_in(PodPhase.FAILED))
        assert world.runtime.started == ["i"]


async def test_a_rejected_pod_fails_in_the_kubelets_words(world: FakeNode) -> None:
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine() as engine:
        await engine.create(pod())
        record = await world.until(is_in(PodPhase.FAILED))
        text = f"no healthy devices present; cannot allocate unhealthy devices {GOPHER}"
        assert record.rejection is not None
        assert record.rejection.reason == "UnexpectedAdmissionError"
        assert record.rejection.message == f"Allocate failed due to {text}, which is unexpected"
        assert world.runtime.started == []


async def test_a_pod_that_came_past_the_scheduler_must_fit(world: FakeNode) -> None:
    greedy = Container(ContainerName("c"), "i", ("run",), requests={"cpu": Quantity.parse("64")})
    async with world.engine() as engine:
        await engine.create(pod(greedy, node_name="n1"))
        record = await world.until(is_in(PodPhase.FAILED))
        assert record.rejection is not None
        assert record.rejection.reason == "OutOfcpu"
        assert world.devices.held == {}


async def test_a_refused_pre_start_is_tried_again(world: FakeNode) -> None:
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


async def test_a_container_that_cannot_be_made_waits(world: FakeNode) -> None:
    world.runtime.refusals = [ContainerStartError("CreateContainerError", f"no {n}") for n in (1, 2)]
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(lambda record: "no 2" in str(state_of(record)))
        await world.when(lambda: world.clock.naps == [0, 10])
        world.clock.advance(10)
        await world.until(runs(0))


async def test_a_container_that_cannot_run_has_failed(world: FakeNode) -> None:
    world.runtime.refusals = [ContainerStartError("StartError", "exec: not found")]
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        record = await world.until(is_in(PodPhase.FAILED))
        end = state_of(record)
        assert isinstance(end, Terminated)
        assert (end.exit_code, end.reason, end.message) == (128, "StartError", "exec: not found")


async def test_a_missing_host_path_keeps_the_pod_waiting(world: FakeNode, tmp_path: Path) -> None:
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
async def test_deletion_stops_within_the_grace_period(world: FakeNode, grace_s: int | None, expected: int) -> None:
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


async def test_app_containers_are_stopped_before_sidecars(world: FakeNode) -> None:
    sidecars = [container(name, ContainerKind.SIDECAR) for name in ("s1", "s2")]
    async with world.engine() as engine:
        await engine.create(pod(*sidecars, container("a")))
        await world.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert [name for name, _ in world.runtime.stopped] == ["a", "s2", "s1"]


async def test_a_pending_pod_is_deleted_at_once(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        await world.until(lambda record: record.unschedulable)
        await engine.delete("default", "p")
        world.devices.offer(1)
        await world.when(lambda: not list(world.pods))
        assert world.runtime.started == []


async def test_deletion_ends_a_crash_loop(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        for attempt in (0, 1):
            await world.until(runs(attempt))
            world.runtime.finish(f"p_c_{attempt}", 1)
        await world.until(waits_for("CrashLoopBackOff"))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert world.runtime.instances == {}


async def test_an_ended_pod_can_be_deleted(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(runs(0))
        world.runtime.finish("p_c_0", 0)
        await world.until(is_in(PodPhase.SUCCEEDED))
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
        assert world.runtime.instances == {}


# --- restart of the node -------------------------------------------------------------------------------------------


async def test_a_restarted_engine_adopts_what_runs(world: FakeNode) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    async with world.engine():
        await world.until(runs(0))
        assert world.runtime.started == ["c"]
        await world.when(lambda: world.devices.held[uid] == {"c"})


async def test_what_ended_meanwhile_is_restarted_as_the_policy_says(world: FakeNode) -> None:
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
        await world.until(is_in(PodPhase.FAILED), "once")


async def test_a_pod_that_ended_meanwhile_needs_no_devices(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(runs(0))
    world.runtime.finish("p_c_0", 0)
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine():
        await world.until(is_in(PodPhase.SUCCEEDED))
        assert world.devices.held == {}


async def test_a_pod_rejected_at_restart_is_stopped_and_ends_as_its_containers_do(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
    world.devices.refusal = NoHealthyDevices(GOPHER)
    async with world.engine():
        record = await world.until(is_in(PodPhase.SUCCEEDED))
        assert isinstance(state_of(record), Terminated)
        assert world.runtime.stopped == [("c", 30)]
        assert world.devices.held == {}


async def test_a_deletion_under_way_goes_on_after_a_restart(world: FakeNode) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    record = world.kept.pods[uid]
    world.kept.save_pod(replace(record.after(PodStep.DELETE), deletion=Deletion.at(world.clock.now(), grace_s=30)))
    world.clock.advance(12)
    async with world.engine():
        await world.when(lambda: not world.kept.pods)
        assert world.runtime.stopped == [("c", 18)]


async def test_what_belongs_to_no_pod_is_cleared_away(world: FakeNode) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    world.kept.pods.clear()
    world.devices.held = {uid: frozenset(), PodUid("other"): frozenset()}
    async with world.engine():
        await world.when(lambda: not world.runtime.instances and not world.devices.held)


async def test_capacity_is_counted_again_after_a_restart(world: FakeNode) -> None:
    world.devices.allocatable = 1
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1)))
        await world.until(runs(0))
    async with world.engine() as engine:
        await engine.create(pod(container("c", gophers=1), name="second"))
        await world.until(lambda record: record.unschedulable, "second")


async def test_many_pods_are_counted_by_running_totals(world: FakeNode) -> None:
    world.devices.allocatable = 200
    async with world.engine() as engine:
        for number in range(112):
            await engine.create(pod(container("c", gophers=1), name=f"p{number}"))
        record = await world.until(lambda record: record.unschedulable, "p110")
        assert record.unschedulable.startswith("0/1 nodes are available: 1 Too many pods. ")
        stages = Counter(record.stage for record in world.pods)
        assert stages[PodStage.UNSCHEDULED] == 2


async def test_an_adopted_init_container_is_watched_while_its_sidecar_crashes(world: FakeNode) -> None:
    made = pod(
        container("s", ContainerKind.SIDECAR, post_start=SleepAction(1)),
        container("i", ContainerKind.INIT),
        container("c"),
    )
    async with world.engine() as engine:
        await engine.create(made)
        await world.when(lambda: world.clock.sleepers > 0)
        world.clock.advance(1)
        await world.until(runs(0, "i"))
    world.runtime.finish("p_s_0", 1)
    async with world.engine():
        await world.until(runs(1, "s"))
        world.runtime.finish("p_i_0", 0)
        await world.until(runs(0))
