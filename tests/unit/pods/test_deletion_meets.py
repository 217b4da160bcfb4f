"""A deletion that comes in any turn of the event loop, and clocks that were set while no node was there."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, NoHealthyDevices, SandboxFailed
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, PodUid
from plugbay.model.pods import EmptyDir, HostPath, HostPathType, RestartPolicy, Volume
from plugbay.pods.lifecycle import PodStep
from plugbay.pods.record import Deletion, PodRecord
from plugbay.pods.status import PodPhase, phase
from plugbay.runtimes.sandboxes import HostSandboxes
from plugbay.testing.fake_node import GOPHER, FakeNode
from plugbay.testing.pod_values import is_in, pod, runs, waits_for

TURNS = range(12)
"""Of the event loop; more than from any cause to the step that it leads to."""


@pytest.fixture
def world(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("event", ["admitted", "rejected", "ended"])
@pytest.mark.parametrize("count", TURNS)
async def test_a_deletion_overtakes_every_step(
    world: FakeNode, caplog: pytest.LogCaptureFixture, event: str, count: int
) -> None:
    async with world.engine() as engine:
        if event != "ended":
            world.devices.answers.clear()
        if event == "rejected":
            world.devices.refusal = NoHealthyDevices(GOPHER)
        await engine.create(pod(node_name="n1", policy=RestartPolicy.NEVER))
        if event == "ended":
            await world.until(runs(0))
            world.runtime.finish("p_c_0", 0)
        else:
            await turns(20)
            world.devices.answers.set()
        await turns(count)
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))  # no time passes
    assert complaints(caplog) == []
    assert "FailedSync" not in world.reasons()
    assert (world.runtime.instances, world.devices.held) == ({}, {})


@pytest.mark.parametrize("count", TURNS)
async def test_a_second_deletion_finds_the_pod_there_or_gone(
    world: FakeNode, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    async with world.engine() as engine:
        await engine.create(pod())
        await world.until(runs(0))
        await engine.delete("default", "p")
        await turns(count)
        if list(world.pods):
            await engine.delete("default", "p", grace_s=0)
        await world.when(lambda: not list(world.pods))
        await turns(20)
    assert complaints(caplog) == []


async def test_a_deletion_does_not_wait_for_the_retry_of_a_fault(world: FakeNode) -> None:
    class NoVolumes:
        def prepare(self, *_: object) -> object:
            raise RuntimeError("a fault of ours")

        def remove(self, _: object) -> None:
            pass

    world.volumes = NoVolumes()  # type: ignore[assignment]  # a fault of any part
    async with world.engine() as engine:
        await engine.create(pod())
        await world.when(lambda: "FailedSync" in world.reasons())
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))


async def test_volumes_are_not_made_after_their_pod_has_gone(world: FakeNode, tmp_path: Path) -> None:
    async with world.engine() as engine:
        for count in TURNS:
            await engine.create(pod(volumes=(Volume("v", EmptyDir()),)))
            await turns(count)
            await engine.delete("default", "p", grace_s=0)
            await world.when(lambda: not list(world.pods))
    assert list((tmp_path / "pods").glob("*")) == []


# --- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-7200, -1, 7200])
async def test_a_clock_that_is_set_gives_no_more_grace(world: FakeNode, seconds: int) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        await world.until(runs(0))
    record = world.kept.pods[uid]
    world.kept.save_pod(replace(record.after(PodStep.DELETE), deletion=Deletion.at(world.clock.now(), grace_s=3)))
    world.clock.set_by(seconds)
    now = world.clock.now()
    async with world.engine():
        deletion = world.pods[uid].deletion
        assert deletion is not None
        assert (deletion.deadline - now).total_seconds() <= 3
        await world.when(lambda: not world.kept.pods)
    ((_, grace_s),) = world.runtime.stopped
    assert 0 <= grace_s <= 3


async def test_a_clock_that_is_set_back_gives_no_more_active_time(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(active_deadline_s=60))
        await world.until(runs(0))
    world.clock.set_by(-7200)
    async with world.engine():
        await world.when(lambda: world.clock.naps == [60, 60])
        world.clock.advance(60)
        await world.until(is_in(PodPhase.FAILED))


async def test_events_stay_in_their_order_over_a_clock_that_is_set_back(world: FakeNode) -> None:
    async with world.engine() as engine:
        await engine.create(pod(node_name="n1"))
        await world.until(runs(0))
    world.clock.set_by(-7200)
    world.restart_events()
    async with world.engine() as engine:
        await engine.delete("default", "p")
        await world.when(lambda: not list(world.pods))
    world.restart_events()
    assert world.reasons() == ["Created", "Started", "Killing"]


# --- starts --------------------------------------------------------------------------------------------------------


async def test_a_pod_that_cannot_run_is_never_shown_as_running(world: FakeNode) -> None:
    world.runtime.refusals = [ContainerStartError("StartError", "exec: not found")]
    phases: list[PodPhase] = []
    keep = world.kept.save_pod

    def save_pod(record: PodRecord) -> None:
        phases.append(phase(record))
        keep(record)

    world.kept.save_pod = save_pod  # type: ignore[method-assign]  # a watch tells the newest state only
    async with world.engine() as engine:
        await engine.create(pod(policy=RestartPolicy.NEVER))
        await world.until(is_in(PodPhase.FAILED))
    assert set(phases) == {PodPhase.PENDING, PodPhase.FAILED}
    assert world.reasons() == ["Scheduled", "Created", "Failed"]


async def test_a_pod_that_is_restarted_counts_as_running_though_it_cannot_run(world: FakeNode) -> None:
    world.runtime.refusals = [ContainerStartError("StartError", "exec: not found") for _ in range(3)]
    async with world.engine() as engine:
        await engine.create(pod())
        assert phase(await world.until(waits_for("CrashLoopBackOff"))) is PodPhase.RUNNING


@pytest.mark.parametrize("what", ["container", "volume", "sandbox"])
async def test_news_of_health_end_the_wait_for_the_next_try(world: FakeNode, tmp_path: Path, what: str) -> None:
    made = pod()
    missing = tmp_path / "missing"

    class Reluctant(HostSandboxes):
        refusals = 2

        async def run(self, spec: object) -> tuple[str, ...]:
            if self.refusals:
                self.refusals -= 1
                raise SandboxFailed("no network")
            return ()

    match what:
        case "container":
            refusal = ContainerStartError("ErrImageNeverPull", "not present")
            world.runtime.refusals = [refusal, refusal]
        case "volume":
            made = pod(volumes=(Volume("v", HostPath(str(missing), HostPathType.DIRECTORY)),))
        case "sandbox":
            world.sandboxes = Reluctant()
    async with world.engine() as engine:
        uid = (await engine.create(made)).uid
        await world.when(lambda: world.clock.naps == [0, 10])
        missing.mkdir()
        ill = {ContainerName("c"): {GOPHER: {DeviceId("g1"): HealthState.UNHEALTHY}}}
        world.devices.set_health(PodUid(uid), ill)
        await world.until(runs(0))
        assert world.clock.monotonic() == 0


async def test_news_of_health_do_not_end_a_crash_loop(world: FakeNode) -> None:
    async with world.engine() as engine:
        uid = (await engine.create(pod())).uid
        for attempt in (0, 1):
            await world.until(runs(attempt))
            world.runtime.finish(f"p_c_{attempt}", 1)
        await world.until(waits_for("CrashLoopBackOff"))
        world.devices.set_health(uid, {})
        await turns(30)
        assert world.runtime.started == ["c", "c"]
