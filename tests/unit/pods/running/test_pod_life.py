"""The life of a pod as a table: what happens to it, and what its status says then; every transition is walked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, NoHealthyDevices
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId
from plugbay.model.pods import Pod, RestartPolicy
from plugbay.model.requests import ContainerKind
from plugbay.pods import record as records
from plugbay.pods.devices import DeviceFailure
from plugbay.pods.engine import PodEngine
from plugbay.pods.lifecycle import TRANSITIONS, PodStage, PodStep, advance
from plugbay.pods.record import PodRecord, Running, Terminated, Waiting
from plugbay.pods.status import PodPhase, phase
from plugbay.testing.fake_node import DEADLINE_S, GOPHER, FakeNode
from plugbay.testing.pod_values import container, pod

INIT, SIDECAR = ContainerKind.INIT, ContainerKind.SIDECAR
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
GONE = "gone"
ALLOWED = {
    *((each, each) for each in PodPhase),
    (PodPhase.PENDING, PodPhase.RUNNING),
    (PodPhase.PENDING, PodPhase.FAILED),
    (PodPhase.RUNNING, PodPhase.SUCCEEDED),
    (PodPhase.RUNNING, PodPhase.FAILED),
}
"""No phase is left for an earlier one, and a final one never."""


@dataclass(frozen=True)
class Life:
    """
    Attributes:
        course: pairs of what happens and how the pod is shown then; see `Player.happen` and `shown`.
    """

    name: str
    pod: Pod
    course: tuple[tuple[str, str], ...]
    settings: frozenset[str] = field(default_factory=frozenset)


def shown(record: PodRecord) -> str:
    """The phase, then each container: ``+`` runs, a number is an exit code, a word why it waits; ``*N`` restarts."""
    words = [phase(record).value]
    for name, each in record.containers.items():
        match each.state:
            case Running():
                text = "+"
            case Waiting(reason=reason):
                text = reason
            case Terminated(exit_code=code):
                text = str(code)
        words.append(f"{name}:{text}" + (f"*{each.restart_count}" if each.restart_count else ""))
    cause = record.failure or record.rejection
    if cause and phase(record) is PodPhase.FAILED:
        words.append(f"[{cause.reason}]")
    return " ".join(words)


LIVES = [
    Life("runs for ever", pod(), (("create", "Running c:+"), ("delete", GONE))),
    Life(
        "waits for devices",
        pod(container("c", gophers=1)),
        (("create", "Pending c:ContainerCreating"), ("offer 1", "Running c:+"), ("delete", GONE)),
    ),
    Life(
        "is deleted before it has a place",
        pod(container("c", gophers=1)),
        (("create", "Pending c:ContainerCreating"), ("delete", GONE)),
    ),
    Life(
        "has its place from the start",
        pod(node_name="n1", policy=NEVER),
        (("create", "Running c:+"), ("finish c 0", "Succeeded c:0"), ("delete", GONE)),
    ),
    Life(
        "is refused",
        pod(),
        (("create", "Failed c:ContainerCreating [UnexpectedAdmissionError]"), ("delete", GONE)),
        frozenset({"refuse"}),
    ),
    Life(
        "is deleted during its admission",
        pod(node_name="n1"),
        (("create", "Pending c:ContainerCreating"), ("delete", GONE)),
        frozenset({"hang"}),
    ),
    Life("fails once", pod(policy=NEVER), (("create", "Running c:+"), ("finish c 3", "Failed c:3"))),
    Life("is killed from outside", pod(policy=NEVER), (("create", "Running c:+"), ("finish c 137", "Failed c:137"))),
    Life(
        "ran long enough to be forgiven",
        pod(policy=ON_FAILURE),
        (
            ("create", "Running c:+"),
            ("finish c 1", "Running c:+*1"),
            ("finish c 1", "Running c:CrashLoopBackOff*1"),
            ("advance 10", "Running c:+*2"),
            ("run on 601", "Running c:+*2"),
            ("finish c 1", "Running c:+*3"),
            ("delete", GONE),
        ),
    ),
    Life(
        "fails until it succeeds",
        pod(policy=ON_FAILURE),
        (
            ("create", "Running c:+"),
            ("finish c 1", "Running c:+*1"),
            ("finish c 1", "Running c:CrashLoopBackOff*1"),
            ("advance 10", "Running c:+*2"),
            ("finish c 0", "Succeeded c:0*2"),
        ),
    ),
    Life(
        "is started again even when all was well",
        pod(),
        (
            ("create", "Running c:+"),
            ("finish c 0", "Running c:+*1"),
            ("finish c 0", "Running c:CrashLoopBackOff*1"),
            ("delete", GONE),
        ),
    ),
    Life(
        "is as good as its worst container",
        pod(container("a"), container("b"), policy=NEVER),
        (
            ("create", "Running a:+ b:+"),
            ("finish a 0", "Running a:0 b:+"),
            ("finish b 1", "Failed a:0 b:1"),
        ),
    ),
    Life(
        "begins with init containers, one by one",
        pod(container("i", INIT), container("j", INIT), container("c"), policy=ON_FAILURE),
        (
            ("create", "Pending i:+ j:PodInitializing c:PodInitializing"),
            ("finish i 1", "Pending i:+*1 j:PodInitializing c:PodInitializing"),
            ("finish i 0", "Pending i:0*1 j:+ c:PodInitializing"),
            ("finish j 0", "Running i:0*1 j:0 c:+"),
            ("finish c 0", "Succeeded i:0*1 j:0 c:0"),
        ),
    ),
    Life(
        "never gets past its init container",
        pod(container("i", INIT), container("c"), policy=NEVER),
        (("create", "Pending i:+ c:PodInitializing"), ("finish i 4", "Failed i:4 c:PodInitializing")),
    ),
    Life(
        "is deleted in its init container",
        pod(container("i", INIT), container("c")),
        (("create", "Pending i:+ c:PodInitializing"), ("delete", GONE)),
    ),
    Life(
        "ends with its app and takes the sidecars along",
        pod(container("s", SIDECAR), container("c"), policy=NEVER),
        (
            ("create", "Running s:+ c:+"),
            ("finish s 1", "Running s:+*1 c:+"),
            ("finish c 0", "Succeeded s:0*1 c:0"),
        ),
    ),
    Life(
        "keeps its sidecar through a failing init container",
        pod(container("s", SIDECAR), container("i", INIT), container("c"), policy=NEVER),
        (
            ("create", "Pending s:+ i:+ c:PodInitializing"),
            ("finish i 1", "Failed s:0 i:1 c:PodInitializing"),
        ),
    ),
    Life(
        "cannot be started",
        pod(policy=NEVER),
        (("create", "Failed c:128"), ("delete", GONE)),
        frozenset({"no such program"}),
    ),
    Life(
        "takes too long",
        pod(active_deadline_s=60),
        (("create", "Running c:+"), ("advance 60", "Failed c:0 [DeadlineExceeded]"), ("delete", GONE)),
    ),
    Life(
        "takes too long over a restart of the node",
        pod(active_deadline_s=60),
        (
            ("create", "Running c:+"),
            ("advance 40", "Running c:+"),
            ("restart", "Running c:+"),
            ("advance 20", "Failed c:0 [DeadlineExceeded]"),
        ),
    ),
    Life(
        "takes too long in its init container",
        pod(container("i", INIT), container("c"), active_deadline_s=5),
        (
            ("create", "Pending i:+ c:PodInitializing"),
            ("advance 5", "Failed i:0 c:PodInitializing [DeadlineExceeded]"),
        ),
    ),
    Life(
        "loses its device",
        pod(),
        (("create", "Running c:+"), ("device fails", "Failed c:0 [DeviceFailed]")),
        frozenset({"fail-pod"}),
    ),
    Life("outlives the node", pod(), (("create", "Running c:+"), ("restart", "Running c:+"), ("delete", GONE))),
    Life(
        "ends while no node is there",
        pod(policy=NEVER),
        (
            ("create", "Running c:+"),
            ("stop node", "Running c:+"),
            ("finish c 0", "Running c:+"),
            ("start node", "Succeeded c:0"),
        ),
    ),
    Life(
        "is refused by a restarted node",
        pod(policy=NEVER),
        (
            ("create", "Running c:+"),
            ("stop node", "Running c:+"),
            ("refuse", "Running c:+"),
            ("start node", "Succeeded c:0"),
        ),
    ),
    Life(
        "is refused by a restarted node and ends badly",
        pod(termination_grace_period_s=5),
        (
            ("create", "Running c:+"),
            ("deaf", "Running c:+"),
            ("stop node", "Running c:+"),
            ("refuse", "Running c:+"),
            ("start node", "Running c:+"),
            ("advance 5", "Failed c:137 [UnexpectedAdmissionError]"),
        ),
    ),
    Life(
        "is started again after a reboot",
        pod(),
        (("create", "Running c:+"), ("reboot", "Running c:+*1"), ("delete", GONE)),
    ),
    Life(
        "is over after a reboot",
        pod(policy=NEVER),
        (("create", "Running c:+"), ("reboot", "Failed c:137")),
    ),
    Life(
        "is refused after a reboot: its plugin is not back yet",
        pod(),
        (
            ("create", "Running c:+"),
            ("stop node", "Running c:+"),
            ("refuse", "Running c:+"),
            ("reboot", "Failed c:137 [UnexpectedAdmissionError]"),
        ),
    ),
    Life(
        "is deleted and the node restarted meanwhile",
        pod(),
        (
            ("create", "Running c:+"),
            ("deaf", "Running c:+"),
            ("delete", "Running c:+"),
            ("restart", "Running c:+"),
            ("finish c 0", GONE),
        ),
    ),
    Life(
        "is deleted again, in a hurry",
        pod(),
        (("create", "Running c:+"), ("deaf", "Running c:+"), ("delete", "Running c:+"), ("delete now", GONE)),
    ),
]


class Player:
    """Lets a pod live its life, and takes down every stage, step and phase it comes through."""

    def __init__(self, root: Path, settings: Iterable[str]) -> None:
        self.phases: list[PodPhase] = []
        self._node = FakeNode(root)
        self._life = AsyncExitStack()
        self._engine: PodEngine | None = None
        keep = self._node.kept.save_pod

        def save_pod(record: PodRecord) -> None:
            self.phases.append(phase(record))
            keep(record)

        self._node.kept.save_pod = save_pod  # type: ignore[method-assign]  # a watch tells the newest state only
        for setting in settings:
            self._set(setting)

    async def start(self) -> None:
        self._engine = await self._life.enter_async_context(self._node.engine())

    async def stop(self) -> None:
        await self._life.aclose()
        self._engine = None

    async def happen(self, action: str, life: Life) -> None:
        match action.split():
            case ["create"]:
                await self._running_engine.create(life.pod)
            case ["delete", *now]:
                await self._running_engine.delete("default", "p", grace_s=0 if now else None)
            case ["finish", name, code]:
                (instance,) = [each.id for each in self._node.runtime.running() if each.name == name]
                self._node.runtime.finish(instance, int(code))
            case ["advance", seconds]:
                await self._node.when(lambda: self._node.clock.sleepers > 0)
                self._node.clock.advance(float(seconds))
            case ["run", "on", seconds]:  # nobody waits for that
                self._node.clock.advance(float(seconds))
            case ["device", "fails"]:
                ill = {ContainerName("c"): {GOPHER: {DeviceId("g1"): HealthState.UNHEALTHY}}}
                self._node.devices.set_health(self._record.uid, ill)
            case ["stop", "node"]:
                await self.stop()
            case ["start", "node"]:
                await self.start()
            case ["restart"]:
                await self.stop()
                await self.start()
            case ["reboot"]:
                await self.stop()
                self._node.runtime.lose_all()
                await self.start()
            case _:
                self._set(action)

    async def reach(self, expected: str) -> None:
        seen = ""
        try:
            async with asyncio.timeout(DEADLINE_S):
                async for _ in self._node.moved:
                    seen = shown(self._record) if self._node.kept.pods else GONE
                    if seen == expected:
                        return
        except TimeoutError:
            pytest.fail(f"expected {expected!r}, got {seen!r}")

    @property
    def _record(self) -> PodRecord:
        (record,) = self._node.kept.pods.values()
        return record

    @property
    def _running_engine(self) -> PodEngine:
        assert self._engine is not None, "the node runs"
        return self._engine

    def _set(self, setting: str) -> None:
        match setting:
            case "offer 1":
                self._node.devices.offer(1)
            case "refuse":
                self._node.devices.refusal = NoHealthyDevices(GOPHER)
            case "hang":
                self._node.devices.answers.clear()
            case "fail-pod":
                self._node.on_device_failure = DeviceFailure.FAIL_POD
            case "no such program":
                self._node.runtime.refusals = [ContainerStartError("StartError", "exec: not found")]
            case "deaf":
                self._node.runtime.deaf = {"c"}
            case _:
                raise AssertionError(setting)


async def live(life: Life, root: Path) -> list[PodPhase]:
    """All phases the pod came through, repetitions included."""
    player = Player(root, life.settings)
    await player.start()
    try:
        for action, expected in life.course:
            await player.happen(action, life)
            await player.reach(expected)
    finally:
        await player.stop()
    return player.phases


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name.replace(" ", "-"))
async def test_a_pod(life: Life, tmp_path: Path) -> None:
    phases = await live(life, tmp_path)
    assert set(pairwise(phases)) <= ALLOWED


async def test_every_transition_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: set[tuple[PodStage, PodStep]] = set()

    def walk(stage: PodStage, step: PodStep) -> PodStage:
        walked.add((stage, step))
        return advance(stage, step)

    monkeypatch.setattr(records, "advance", walk)
    changes: set[tuple[PodPhase, PodPhase]] = set()
    for number, life in enumerate(LIVES):
        changes |= set(pairwise(await live(life, tmp_path / str(number))))
    assert walked == {(stage, step) for stage, steps in TRANSITIONS.items() for step in steps}
    assert {(one, other) for one, other in changes if one is not other} == {
        (one, other) for one, other in ALLOWED if one is not other
    }
